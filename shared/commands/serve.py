"""`launcher.py serve`: a server that speaks with a run's voice, on ONNX and without TensorFlow."""

from __future__ import annotations

import time

from shared.console.say import say_plainly
from shared.launching.foreground_child import run_in_foreground
from shared.speech.command_flags import read_serve_flags, serve_parser
from shared.speech.extras import want_extra
from shared.speech.text.lexicon import Lexicon

__all__ = ["main", "serve_parser"]


def main(arguments: list[str]) -> int:
    """Export what is not exported yet, in a child process, and serve until a signal."""
    begun_s = time.monotonic()
    flags = read_serve_flags(arguments)
    lexicon = Lexicon.read(flags.lexicon) if flags.lexicon else None
    want_extra("serve")
    from shared.speech.serving.served_folder import kept_export

    kept = kept_export(flags.run, flags.vocoder)
    if not kept.is_there:
        say_plainly(
            f"⏳ The voice is exported to {kept.folder} first, once; it takes half a minute"
        )
        more = ["--vocoder", flags.vocoder] if flags.vocoder else []
        status = run_in_foreground(
            "model_worker.speech.speaking.export",
            ["--run", flags.run, "--format", "onnx", "--out", str(kept.folder), *more],
        )
        if status:
            return status
        kept.remove_older()
        begun_s = time.monotonic()
    from shared.speech.serving.server import serve

    serve(
        kept.folder, flags.host, flags.port, flags.token, flags.max_requests, begun_s, say_plainly,
        lexicon,
    )  # fmt: skip
    return 0
