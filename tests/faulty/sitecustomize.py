"""Makes every Python process of a run faulty: opening one file ends it by a signal.

Python imports this at its start where the folder is on PYTHONPATH. TANDEM_FAULTY_FILE is the path,
TANDEM_FAULTY_SIGNAL the signal's name.
"""

import os
import signal
import sys

PATH = os.environ.get("TANDEM_FAULTY_FILE")
NUMBER = signal.Signals[os.environ.get("TANDEM_FAULTY_SIGNAL", "SIGSEGV")]


def end_at_the_file(event: str, arguments: tuple) -> None:
    if event == "open" and str(arguments[0]) == PATH:
        os.kill(os.getpid(), NUMBER)


if PATH:
    sys.addaudithook(end_at_the_file)
