"""One command, two runs: how the minutes are shared out, and which of the flags are whose."""

import dataclasses
import time

import pytest

from shared.commands.stages import is_done, plan_in_words, stages_of
from shared.config.settings import Config, DataConfig, RunConfig, TaskConfig, TrainingConfig
from shared.config.toml_file import write_config
from shared.errors import ConfigError
from shared.run.directory import RunDirectory
from shared.run.event_log import Ended, EventLog, Started


def config_of(share=0.25, task="speech", run_dir="runs/mine", **training):
    training = {"max_minutes": 60.0} | training
    return Config(
        data=DataConfig(train_data="my-voice", batch_size=16),
        task=TaskConfig(vocoder_share=share, model_size="tiny", language="de"),
        training=TrainingConfig(**training),
        run=RunConfig(run_dir=run_dir, run_id="of-mine", task=task, samples=5),
    )


def test_without_a_share_there_is_one_run_with_all_the_minutes():
    config = config_of(share=0.0, minutes_share=0.5)  # as a run says that once had a share
    (stage,) = stages_of(config)
    assert stage.training.minutes == 60.0 and stage.run == config.run


def test_the_share_comes_first_in_a_folder_of_the_run_and_together_they_take_all_minutes():
    first, last = stages_of(config_of(learning_rate=1e-3))
    assert (first.run.task, first.run.run_dir) == ("vocoder", "runs/mine/vocoder")
    assert (last.run.task, last.run.run_dir) == ("speech", "runs/mine")
    assert (first.training.minutes, last.training.minutes) == (15.0, 45.0)
    assert first.training.max_minutes == last.training.max_minutes == 60.0
    # A rate and an identity are not shared, everything else is.
    assert (first.training.learning_rate, last.training.learning_rate) == (0.0, 1e-3)
    assert (first.run.run_id, last.run.run_id) == (None, "of-mine")
    assert first.data == last.data and first.task == last.task and first.run.samples == 5


def test_gone_on_with_it_is_shared_out_as_before():
    _, last = stages_of(config_of())
    assert stages_of(last) == stages_of(config_of())


def test_another_task_has_its_run_to_itself():
    config = config_of(task="vocoder", minutes_share=0.25)
    assert stages_of(config) == [config]  # also the one that such a command has begun


def test_it_begins_with_the_other_runs_vocoder_where_that_has_one(tmp_path):
    first, last = stages_of(config_of(init_from=str(tmp_path)))
    assert (first.training.init_from, last.training.init_from) == (None, str(tmp_path))
    (tmp_path / "vocoder").mkdir()
    write_config(Config(), tmp_path / "vocoder" / "config.toml")
    first, _ = stages_of(config_of(init_from=str(tmp_path)))
    assert first.training.init_from == str(tmp_path / "vocoder")


def test_a_share_of_no_minutes_is_refused():
    with pytest.raises(ConfigError, match="Give --max-minutes, or leave out --vocoder-share"):
        stages_of(config_of(max_minutes=0.0, max_steps=10))


def test_how_it_is_shared_out_is_said():
    words = plan_in_words(stages_of(config_of()))
    assert "15 of the 60 minutes go to the vocoder" in words and "45 go to the speech" in words


def test_a_run_is_done_that_has_ended_well_after_as_many_minutes(tmp_path):
    stage, _ = stages_of(config_of(run_dir=str(tmp_path)))
    directory = RunDirectory(tmp_path / "vocoder")
    assert not is_done(stage)
    directory.create()
    write_config(stage, directory.config)
    events = EventLog(directory.events)
    events.add(Started(time.time()))
    assert not is_done(stage)
    events.add(Ended(time.time(), 130, "interrupted"))
    assert not is_done(stage)
    events.add(Ended(time.time(), 0, "finished"))
    events.close()
    assert is_done(stage)
    longer = dataclasses.replace(stage.training, max_minutes=90.0)
    assert not is_done(dataclasses.replace(stage, training=longer))
