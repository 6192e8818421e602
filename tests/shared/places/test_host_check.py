"""Whether a host can take part in a run: what it sees, and what it runs."""

import dataclasses

import pytest

from shared.places.host_check import Look, look, program_digest, why_not


@pytest.fixture
def what(tmp_path):
    """A run directory and a file of its data, as this host sees them."""
    run = tmp_path / "run"
    run.mkdir()
    (run / ".mark").write_text("token")
    (tmp_path / "a.wav").write_bytes(b"12345")
    return Look(str(run), ".mark", "token", ((str(tmp_path / "a.wav"), 5),))


def test_a_host_that_sees_all_of_it_is_fit_and_leaves_nothing_behind(what, tmp_path):
    sight = look(what)
    assert (tmp_path / "run" / sight.answer).read_text() == "token"
    assert why_not(what, sight, sight) == ""
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".mark"]


def test_a_host_without_the_run_directory_is_named_it(what, tmp_path):
    ours = look(what)
    elsewhere = dataclasses.replace(what, run=str(tmp_path / "not-mounted"))
    words = why_not(what, ours, look(elsewhere))
    assert f"it does not see the run directory {what.run} (No such file or directory)" in words


def test_a_host_that_has_another_folder_there_is_found_out(what, tmp_path):
    """The same path, but not the same storage: it holds no mark, or one of another run."""
    ours, other = look(what), tmp_path / "other"
    other.mkdir()
    (other / ".mark").write_text("another")
    theirs = look(dataclasses.replace(what, run=str(other)))
    assert "does not see the run directory" in why_not(what, ours, theirs)
    # It reads what we wrote, but what it writes does not come here.
    (other / ".mark").write_text("token")
    theirs = look(dataclasses.replace(what, run=str(other)))
    assert "is not seen here. Mount the same folder on both" in why_not(what, ours, theirs)


@pytest.mark.parametrize("change", [None, b"1234"])
def test_a_host_that_does_not_see_the_data_as_it_is_is_named_the_file(what, tmp_path, change):
    ours = look(what)
    path = tmp_path / "a.wav"
    path.unlink() if change is None else path.write_bytes(change)
    assert f"does not see the data as it is here ({path})" in why_not(what, ours, look(what))


def test_other_versions_and_another_program_are_told(what):
    sight = look(what)
    versions = {**sight.versions, "librosa": "0.1"}
    theirs = dataclasses.replace(sight, versions=versions)
    assert "it has librosa 0.1, this host " in why_not(what, sight, theirs)
    other_system = dataclasses.replace(sight, versions={**sight.versions, "system": "another"})
    assert why_not(what, sight, other_system) == ""
    theirs = dataclasses.replace(sight, program="00")
    assert "its copy of this program is another" in why_not(what, sight, theirs)


def test_the_digest_is_of_every_worker_s_code():
    assert program_digest() == program_digest() and len(program_digest()) == 64


def test_a_full_disk_there_is_told(what):
    sight = dataclasses.replace(look(what), free_mb=1)
    assert "has 1 MB left there. Make room" in why_not(what, sight, sight)
