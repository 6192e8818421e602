"""The commands beside the main one: each a module with `main(arguments) -> exit code`."""

# name -> (module, its function that makes the parser, what the command does)
COMMANDS = {
    "demo": (
        "shared.commands.demo", "demo_parser",
        "make a small speech corpus and train on two fake GPUs",
    ),
    "validate": (
        "shared.commands.validate.command", "validate_parser", "the five checks of a two-GPU machine",
    ),
    "check-data": (
        "shared.commands.check_data", "check_data_parser",
        "every bad row of a data set, with its reason",
    ),
    "keys": ("shared.commands.keys", "keys_parser", "make the keys of a run beyond one host"),
    "bench": (
        "shared.commands.bench.command", "bench_parser",
        "the modes side by side on this machine, with a picture",
    ),
    "watch": ("shared.commands.watch", "watch_parser", "the live view of a run that is going on"),
    "stop": ("shared.commands.stop", "stop_parser", "have a run save and end, and wait for it"),
    "runs": ("shared.commands.runs", "runs_parser", "how the runs of a folder are, and how far"),
    "report": ("shared.commands.report", "report_parser", "write a run's report.html again"),
    "speak": ("shared.commands.speak", "speak_parser", "text to a wav, with the voice of a run"),
    "export": ("shared.commands.export", "export_parser", "the voice of a run as a SavedModel"),
    "completion": (
        "shared.commands.completion.command", "completion_parser", "complete flags in bash, zsh or fish",
    ),
}  # fmt: skip
