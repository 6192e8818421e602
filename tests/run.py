"""All tests, as `make test` runs them: two pytest processes side by side.

The tests that start whole runs leave a core idle most of the time; the others run beside them.
Further arguments go to both.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NO_TESTS_COLLECTED = 5  # of pytest: with -k or -m one of the two may have none


def main() -> int:
    command = [sys.executable, "-m", "pytest", *sys.argv[1:]]
    with tempfile.TemporaryFile() as output:
        others = subprocess.Popen(
            [*command, "--ignore", "tests/processes"], cwd=ROOT, stdout=output, stderr=output
        )
        runs = subprocess.Popen([*command, "tests/processes"], cwd=ROOT)
        try:
            codes = [runs.wait(), others.wait()]
        except KeyboardInterrupt:
            for each in (runs, others):
                each.terminate()
            codes = [runs.wait(), others.wait()]
        output.seek(0)
        print(output.read().decode(errors="replace"), end="")
    return max(code for code in (0 if c == NO_TESTS_COLLECTED else abs(c) for c in codes))


if __name__ == "__main__":
    sys.exit(main())
