"""All tests, as `make test` runs them: two pytest processes side by side.

The tests that start whole runs leave a core idle most of the time; the others run beside them.
A few that fail that way are run once more with the machine to themselves, and are named: what
passes then was short of time, what fails again is broken. Further arguments go to pytest.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HALVES = {"runs": ["tests/processes"], "others": ["tests", "--ignore", "tests/processes"]}
FAILED, NO_TESTS_COLLECTED = 1, 5  # of pytest: with -k or -m one half may have none
MOST_AGAIN = 3  # of one half; more than that is no accident


def command(half: str, *more: str) -> list[str]:
    cache = f"cache_dir=.pytest_cache/{half}"
    return [sys.executable, "-m", "pytest", "-o", cache, *more, *HALVES[half], *sys.argv[1:]]


def side_by_side() -> dict[str, int]:
    with tempfile.TemporaryFile() as output:
        others = subprocess.Popen(command("others"), cwd=ROOT, stdout=output, stderr=output)
        runs = subprocess.Popen(command("runs"), cwd=ROOT)
        try:
            codes = {"runs": runs.wait(), "others": others.wait()}
        except KeyboardInterrupt:
            for each in (runs, others):
                each.terminate()
            codes = {"runs": runs.wait(), "others": others.wait()}
        output.seek(0)
        print(output.read().decode(errors="replace"), end="", flush=True)
    return codes


def alone(half: str) -> int:
    """Run what failed of this half again, unless that is too much to be an accident."""
    found = ROOT / ".pytest_cache" / half / "v" / "cache" / "lastfailed"
    failed = sorted(json.loads(found.read_text())) if found.exists() else []
    if not 0 < len(failed) <= MOST_AGAIN:
        return FAILED
    print("\nonce more, alone:", *failed, sep="\n  ", flush=True)
    return subprocess.run(command(half, "--last-failed"), cwd=ROOT).returncode


def main() -> int:
    # A shell's background has Ctrl-C ignored, and every run that a test starts would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    codes = side_by_side()
    for half, code in codes.items():
        if code == FAILED:
            codes[half] = alone(half)
        elif code == NO_TESTS_COLLECTED:
            codes[half] = 0
    return max(map(abs, codes.values()))


if __name__ == "__main__":
    sys.exit(main())
