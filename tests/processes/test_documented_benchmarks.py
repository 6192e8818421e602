"""The reliability commands that README and docs/reliability.md give and that need no training.

Each is run as it is written, with a smaller budget added; test_documented_commands.py says of the
others why they are not run.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

from documents import the_documented


def run(runs, words, *budget) -> str:
    """What a command prints that ends well."""
    command = runs.python(*words[1:], *budget, TMPDIR=str(runs.folder))
    assert command.wait() == 0, command.text
    assert "Traceback" not in command.text
    return command.text


def test_a_save_that_is_cut_off_and_a_damaged_checkpoint_lose_nothing(runs):
    text = run(runs, the_documented("benchmarks/checkpoint_damage.py"), "--damages", "20")
    saves, damages, _ = text.splitlines()
    assert re.fullmatch(r"\d{3} interrupted saves \(.*\): 0 times neither loaded", saves)
    assert re.fullmatch(r"20 damages \(.*\): 0 loaded silently", damages)


def test_hostile_messages_make_no_crash_no_hang_and_no_growth(runs):
    budget = ("--messages", "2000", "--hypothesis", "20")
    text = run(runs, the_documented("benchmarks/fuzz.py"), *budget)
    targets = re.findall(r"^(\w+) .* messages, ", text, re.MULTILINE)
    assert targets == ["codec", "receiver", "ledger"]
    assert "hypothesis       20 examples" in text
    assert text.endswith("no crash, no hang, no growth\n")


def test_the_batches_go_on_beside_hostile_peers(runs):
    budget = ("--seconds", "0.5", "--pairs", "1", "--kinds", "garbage", "--least", "0")
    text = run(runs, the_documented("benchmarks/hostile_peers.py"), *budget)
    (by_cpu,) = re.findall(r"^ +garbage +([\d.]+) ", text, re.MULTILINE)
    assert float(by_cpu) > 0 and "'refused': " in text
    assert "honest producer alive: True" in text


def test_bad_flags_and_bad_rows_end_in_sentences(runs):
    text = run(runs, the_documented("benchmarks/bad_inputs.py"), "--only", "flag")
    assert re.search(r"^✅ unknown flag +exit 2 ", text, re.MULTILINE)
    assert re.search(r"^✅ 11 bad or odd rows: left out and named, or used ", text, re.MULTILINE)
    assert re.search(r"^[3-9] inputs, 0 situations and 11 rows, 0 wrong; ", text, re.MULTILINE)
    assert not list(runs.folder.glob("bad-*"))
