"""A run whose data lies elsewhere by now."""

import dataclasses
import shutil

import numpy as np
import pytest

from shared.config.settings import Config, DataConfig
from shared.config.toml_file import write_config
from shared.errors import InputError
from shared.launching.moved_data import is_same_data
from shared.plan.index import Index, StringColumn
from shared.run.directory import RunDirectory
from shared.run.resume import can_go_on

NAMES = ("a.wav", "deeper/b.wav")


def config_of(folder, **other):
    return Config(DataConfig(train_data=str(folder), **other))


@pytest.fixture
def begun(tmp_path):
    """A run that was begun on the folder `old`, which has moved to `new` since."""
    for number, name in enumerate(NAMES):
        path = tmp_path / "new" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(10 + number))
    run = RunDirectory(tmp_path / "run")
    (run.checkpoints / "step-00000001").mkdir(parents=True)
    columns = {
        "ids": StringColumn.of(NAMES),
        "paths": StringColumn.of(NAMES),
        "root": np.zeros(2, np.uint8),
        "line": np.arange(1, 3, dtype=np.int32),
        "split": np.zeros(2, np.uint8),
        "file_size": np.array([10, 11], np.int64),
        "file_mtime_ns": np.full(2, 10**18, np.int64),
    }
    Index(columns, {}, {}, []).save(run.index)
    write_config(config_of(tmp_path / "old"), run.config)
    return run


def test_the_same_files_in_another_place_are_the_same_data(begun, tmp_path):
    assert can_go_on(begun, config_of(tmp_path / "new"), is_same_data)


@pytest.mark.parametrize("change", ["another", "missing", "no index"])
def test_other_files_are_other_data(begun, tmp_path, change):
    if change == "another":
        (tmp_path / "new" / "a.wav").write_bytes(bytes(99))
    elif change == "missing":
        shutil.rmtree(tmp_path / "new" / "deeper")
    else:
        begun.index.write_bytes(b"damaged")
    with pytest.raises(InputError, match="was begun with train_data"):
        can_go_on(begun, config_of(tmp_path / "new"), is_same_data)


def test_another_place_excuses_no_other_change(begun, tmp_path):
    changed = config_of(tmp_path / "new", batch_size=7)
    with pytest.raises(InputError, match="was begun with batch_size"):
        can_go_on(begun, changed, is_same_data)
    with pytest.raises(InputError, match="was begun with val_data"):
        data = dataclasses.replace(changed.data, batch_size=32, val_data=str(tmp_path / "new"))
        can_go_on(begun, dataclasses.replace(changed, data=data), is_same_data)
