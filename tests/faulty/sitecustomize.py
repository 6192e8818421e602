"""Makes every Python process of a run faulty: opening one file ends it by a signal.

Python imports this at its start where the folder is on PYTHONPATH. TANDEM_FAULTY_FILE is the path,
TANDEM_FAULTY_SIGNAL the signal's name. Where TANDEM_FAULTY_HANG is given, the path of a file that is
not there, the first data process that opens TANDEM_FAULTY_FILE makes it and waits for ever, as for
storage that does not answer; all others are sound.
"""

import os
import signal
import sys
import threading

PATH = os.environ.get("TANDEM_FAULTY_FILE")
NUMBER = signal.Signals[os.environ.get("TANDEM_FAULTY_SIGNAL", "SIGSEGV")]
HANG = os.environ.get("TANDEM_FAULTY_HANG")


def end_at_the_file(event: str, arguments: tuple) -> None:
    if event != "open" or str(arguments[0]) != PATH:
        return
    if not HANG:
        # To this thread: a signal to the process may come when the file has long been read.
        signal.pthread_kill(threading.get_ident(), NUMBER)
    if os.environ.get("TANDEM_ROLE") != "data":
        return
    try:
        os.close(os.open(HANG, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    wait_for_ever()


def wait_for_ever() -> None:
    threading.Event().wait()


if PATH:
    sys.addaudithook(end_at_the_file)
