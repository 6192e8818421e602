"""`python -m data_worker.speech.data_check`: what `launcher.py check-data` runs in a child process."""

from __future__ import annotations

import os
import sys
import time

from shared.console.json_output import stdout_for_json_alone, write_json
from shared.console.progress_line import ProgressLine
from shared.errors import DataError
from shared.run.files import write_file
from shared.speech.command_flags import read_check_data_flags
from shared.worker.foreground import foreground_main

EXIT_USABLE, EXIT_SOME_LEFT_OUT, EXIT_UNUSABLE = 0, 1, 2


def work(arguments: list[str]) -> int:
    """Look at the data set, show what was found, and return the exit code."""
    # One process per core: threads of the linear algebra library would only get in their way.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from data_worker.speech.data_check.findings import look_at

    flags, config = read_check_data_flags(arguments)
    result_out = stdout_for_json_alone() if flags.json else sys.stdout
    progress = ProgressLine(sys.stderr, lambda line: print(line, file=sys.stderr, flush=True))
    began_s = time.monotonic()
    try:
        findings = look_at(config, progress.show, flags.gpu_memory)
    except DataError as error:
        if flags.json:
            write_json(result_out, {"problems": [], "summary": {"refusal": str(error)}})
        raise
    finally:
        progress.clear()
    findings["summary"]["seconds"] = round(time.monotonic() - began_s, 2)
    if flags.html:
        from shared.console.data_page import data_page

        write_file(flags.html, data_page(findings).encode())
    if flags.json:
        write_json(result_out, findings)
    else:
        from shared.console.data_text import show_findings

        show_findings(findings)
        if flags.html:
            print(f"\n📄 The same with pictures: {flags.html}")
    if findings["problems"]:
        return EXIT_SOME_LEFT_OUT
    return EXIT_USABLE if findings["summary"]["trainable"] else EXIT_UNUSABLE


if __name__ == "__main__":
    sys.exit(foreground_main(work))
