"""Every bad input of the list, through the launcher's own main: what it says and how it ends.

The situations start real workers; most of them are left to `-m long`.
"""

import bad_inputs
import pytest
from bad_situations import SITUATIONS

import launcher


@pytest.fixture
def own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("TANDEM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TANDEM_FAKE_GPUS", "")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("case", bad_inputs.CASES, ids=lambda case: case.name)
def test_a_bad_input_ends_in_a_sentence_and_with_its_exit_code(case, own_place, tmp_path, capfd):
    held = case.prepare(tmp_path)
    capfd.readouterr()
    code = launcher.main(bad_inputs.fill_in(case.arguments, tmp_path))
    output = "".join(capfd.readouterr())
    del held
    assert bad_inputs.problems_of(case, tmp_path, code, output) == [], output


def test_bad_rows_are_left_out_and_named_and_odd_ones_are_used(own_place, tmp_path):
    bad_inputs.make_bad_rows(tmp_path)
    words = f"{bad_inputs.TRAIN} --prepare-only --max-bad-fraction 1"
    assert launcher.main(bad_inputs.fill_in(words, tmp_path)) == 0
    assert bad_inputs.unnamed_rows(tmp_path) == []


@pytest.mark.parametrize(
    "situation",
    [
        pytest.param(each, id=each.name, marks=[] if each.always_tested else pytest.mark.long)
        for each in SITUATIONS
    ],
)
def test_a_bad_situation_ends_as_it_should(situation, tmp_path_factory):
    # A short path: sockets live below it.
    found = situation.problems(tmp_path_factory.mktemp("b"))
    assert not found, "\n".join(found)
