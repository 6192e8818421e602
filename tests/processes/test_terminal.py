"""A run on a real terminal that goes away, and a run directory that somebody works in by hand."""

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
import time

from documents import the_documented


def read_all(terminal: int, seen: list[bytes]) -> None:
    """What a terminal's owner does: read, so that nobody who writes has to wait."""
    while True:
        try:
            if select.select([terminal], [], [], 0.1)[0]:
                seen.append(os.read(terminal, 1 << 16))
        except (OSError, ValueError):
            return


def sit_at_the_terminal() -> None:
    """As a shell does it for its foreground; whoever runs the tests may have had SIGHUP ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_run_whose_terminal_is_closed_saves_and_ends(runs):
    ours, theirs = pty.openpty()
    flags = ["--train-data", str(runs.corpus), *runs.settings, "--max-steps", "100000"]
    launcher = subprocess.Popen(
        [sys.executable, "launcher.py", "--run-dir", str(runs.folder / "run"), *flags],
        env={**os.environ, **runs.environment, "TERM": "xterm-256color"},
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=sit_at_the_terminal,
    )  # fmt: skip
    os.close(theirs)
    seen: list[bytes] = []
    reader = threading.Thread(target=read_all, args=(ours, seen), daemon=True)
    reader.start()
    try:
        runs.wait_until(
            lambda: any(record["step"] >= 4 for record in runs.metrics("run")), "step 4", 120
        )
        os.close(ours)  # the window is closed, the connection is lost: SIGHUP, and no more output
        assert launcher.wait(20) == 130, b"".join(seen).decode(errors="replace")
    finally:
        if launcher.poll() is None:
            launcher.kill()
            launcher.wait()
    steps = sorted((runs.folder / "run" / "checkpoints").glob("step-*"))
    last = max(record["step"] for record in runs.metrics("run"))
    assert int(steps[-1].name.partition("-")[2].partition("-")[0]) >= last
    assert "SIGHUP: finishing the step and saving" in (runs.folder / "run/launcher.log").read_text()
    assert runs.leftovers() == []


def test_the_launcher_does_not_touch_a_run_that_somebody_works_on_by_hand(checkout):
    prepare = the_documented("train", "--prepare-only")
    assert checkout.documented(prepare, *checkout.settings, "--max-steps", "14").wait() == 0
    words = [word for word in the_documented("model_worker") if not word.startswith("--listen")]
    by_hand = checkout.documented(words)
    lock = checkout.folder / "runs/mine/.model process.lock"
    checkout.wait_until(lambda: lock.exists() and lock.read_text().strip(), "the model process")
    before = (checkout.folder / "runs/mine/config.toml").read_bytes()
    begun_s = time.monotonic()
    launcher = checkout.documented(
        ["python", "launcher.py", "--train-data", "my-voice", "--run-dir", "runs/mine", "--fresh"]
    )
    assert launcher.wait() == 2 and time.monotonic() - begun_s < 30
    assert f"another model process (pid {by_hand.pid})" in launcher.text
    assert (checkout.folder / "runs/mine/config.toml").read_bytes() == before
    by_hand.signal(signal.SIGTERM)
    assert by_hand.wait() == 130
