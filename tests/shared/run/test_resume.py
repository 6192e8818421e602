"""What a begun run may change, and that the page on tuning says the same."""

import dataclasses
import re
from pathlib import Path

import pytest

from shared.config.option import decided, paths_in, rules_of
from shared.config.settings import SECTIONS, Config, DataConfig, RunConfig, TrainingConfig
from shared.config.toml_file import write_config
from shared.errors import InputError
from shared.run.directory import RunDirectory
from shared.run.resume import (
    can_go_on,
    check_init_from,
    run_id_in,
    with_absolute_paths,
)

ROOT = Path(__file__).resolve().parents[3]
# What makes it another run.
FIXED = [
    (section, key)
    for section, kind in SECTIONS.items()
    for key in decided(kind(), "index", "stream", "model")
]


@pytest.fixture
def begun(tmp_path):
    run = RunDirectory(tmp_path / "run")
    (run.checkpoints / "step-00000001").mkdir(parents=True)
    run.index.touch()
    write_config(Config(data=DataConfig(train_data="/speech")), run.config)
    return run


def other_value(value, rule):
    if rule.choices:
        return next(choice for choice in rule.choices if choice != value)
    if isinstance(value, bool):
        return not value
    return (
        "/other"
        if rule.kind == "str"
        else value * 2 + 1
        if rule.kind.startswith("int")
        else value * 1.5
    )


def test_what_decides_utterances_batches_or_model_can_not_change(begun):
    before = Config(data=DataConfig(train_data="/speech"))
    assert can_go_on(begun, before)
    assert {
        ("data", "train_data"), ("data", "val_data"), ("data", "val_fraction"),
        ("task", "metadata_format"), ("task", "text_frontend"), ("task", "language"),
        ("task", "min_seconds"), ("task", "max_seconds"), ("task", "trim_silence"),
        ("task", "trim_db"), ("task", "normalise_loudness"), ("task", "model_size"),
        ("data", "batch_size"), ("data", "enable_static_shapes"), ("data", "max_buckets"),
        ("training", "grad_accum"), ("training", "validate_every"), ("training", "seed"),
        ("training", "optimizer"),
    } == set(FIXED)  # fmt: skip
    for section, key in FIXED:
        settings = getattr(before, section)
        value = other_value(getattr(settings, key), rules_of(type(settings))[key])
        changed = {section: dataclasses.replace(settings, **{key: value})}
        with pytest.raises(InputError, match=f"was begun with {key} = "):
            can_go_on(begun, dataclasses.replace(before, **changed))


def test_every_path_works_from_any_folder_and_moved_data_may_be_asked_about(begun, monkeypatch):
    monkeypatch.chdir(begun.path)
    given = {"train_data": "data", "val_data": "val", "init_from": "../a", "keys": "keys"}
    config = Config(
        data=DataConfig(train_data=given["train_data"], val_data=given["val_data"]),
        training=TrainingConfig(init_from=given["init_from"]),
        run=RunConfig(keys=given["keys"], task="own.py:Mine"),
    )
    found = with_absolute_paths(config)
    paths = {k: v for name in SECTIONS for k, v in paths_in(getattr(found, name)).items()}
    assert paths == {name: str((begun.path / path).resolve()) for name, path in given.items()}
    assert found.run.task == f"{begun.path.resolve()}/own.py:Mine"
    moved = Config(data=DataConfig(train_data="/elsewhere"))
    assert can_go_on(begun, moved, lambda run, config: True)


def test_the_page_on_tuning_says_of_every_flag_whether_it_may_change():
    page = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")
    table = page.split("## Changing a run that has begun")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`--.*`) \| (.*) \|$", table, re.MULTILINE)
    told = [(flag, words) for flags, words in rows for flag in re.findall(r"--[a-z-]+", flags)]
    rules = {key: rule for kind in SECTIONS.values() for key, rule in rules_of(kind).items()}
    assert sorted(flag for flag, _ in told) == sorted(r.flag for r in rules.values() if r.saved)
    fixed = {rules[key].flag for _, key in FIXED}
    assert {flag for flag, words in told if words.startswith("need another")} == fixed


def test_a_checkpoint_that_was_never_finished_is_none(begun, tmp_path):
    config = Config(data=DataConfig(train_data="/speech"))
    (begun.checkpoints / "step-00000001").rename(begun.checkpoints / ".tmp-1-4711")
    assert not can_go_on(begun, config)
    fine_tuned = dataclasses.replace(config, training=TrainingConfig(init_from=str(begun.path)))
    with pytest.raises(InputError, match="has no checkpoint yet"):
        check_init_from(fine_tuned)
    (begun.checkpoints / "best-00000001").mkdir()
    assert can_go_on(begun, config)
    check_init_from(fine_tuned)


def test_a_run_keeps_its_identity_and_a_copy_of_its_directory_gets_another(tmp_path, monkeypatch):
    here, copy = RunDirectory(tmp_path / "runs" / "a"), RunDirectory(tmp_path / "runs" / "b")
    run_id = run_id_in(here, None)
    assert run_id_in(here, run_id) == run_id
    monkeypatch.chdir(tmp_path)
    assert run_id_in(RunDirectory("runs/../runs/a"), run_id) == run_id
    copied_id = run_id_in(copy, run_id)
    assert copied_id != run_id and run_id_in(copy, copied_id) == copied_id
    assert len({run_id_in(here, None) for _ in range(10)}) == 10


@pytest.mark.parametrize("given", ["bench-0123456789abcdef", "mine", "0123456789abcdef"])
def test_an_identity_that_was_given_is_kept_everywhere(tmp_path, given):
    assert run_id_in(RunDirectory(tmp_path), given) == given
