"""The commands beside the main one: each a module with `main(arguments) -> exit code`."""

# name -> (module, its function that makes the parser, what the command does)
COMMANDS = {
    "demo": (
        "shared.commands.demo", "demo_parser",
        "make a small speech corpus and train on it, on two fake GPUs",
    ),
    "validate": (
        "shared.commands.validate.command", "validate_parser", "check in five steps that a machine with two GPUs is ready",
    ),
    "check-data": (
        "shared.commands.check_data", "check_data_parser",
        "find every bad row of a data set, and say what is wrong with it",
    ),
    "keys": ("shared.commands.keys", "keys_parser", "make the keys for a run on several machines"),
    "bench": (
        "shared.commands.bench.command", "bench_parser",
        "measure which flags train fastest on this machine",
    ),
    "watch": ("shared.commands.watch", "watch_parser", "watch a run from another shell, or in a browser with --web"),
    "stop": ("shared.commands.stop", "stop_parser", "have a run save and end, and wait until it has"),
    "runs": ("shared.commands.runs", "runs_parser", "list the runs of a folder, with state, step, loss and time left"),
    "report": ("shared.commands.report", "report_parser", "write a run's report.html again"),
    "speak": ("shared.commands.speak", "speak_parser", "speak a text with the voice of a run"),
    "export": (
        "shared.commands.export", "export_parser", "export the voice of a run as a SavedModel or as ONNX",
    ),
    "serve": ("shared.commands.serve", "serve_parser", "speak for programs and people, with the voice of a run"),
    "examples": (
        "shared.commands.examples", "examples_parser",
        "copy the example tasks and ready configurations into this folder",
    ),
    "completion": (
        "shared.commands.completion.command", "completion_parser", "let bash, zsh or fish complete commands and flags",
    ),
}  # fmt: skip
