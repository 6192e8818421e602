"""Configuration files: what is wrong is named, and what is written can be read again."""

import dataclasses
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.config.flags import resolve_config, train_parser
from shared.config.option import AUTO, OptionRule, rules_of
from shared.config.renamed import RENAMED
from shared.config.settings import SECTIONS, Config, DataConfig
from shared.config.toml_file import (
    build_config,
    dump_config,
    load_config,
    read_values,
    write_config,
)
from shared.errors import ConfigError


def written(tmp_path, content):
    path = tmp_path / "config.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(tmp_path, content):
    """The message that a file's content is refused with."""
    path = written(tmp_path, content)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert message.endswith((".", "?"))
    return message.removeprefix(f"{path}: ")


def test_an_empty_file_means_the_defaults(tmp_path):
    assert load_config(written(tmp_path, "")) == Config()


def test_an_unknown_key_is_named(tmp_path):
    assert refused(tmp_path, "[data]\nqwxz = 1").startswith("unknown key qwxz in [data]. ")


def test_a_near_miss_names_the_key_that_was_meant(tmp_path):
    found = refused(tmp_path, "[data]\nbatchsize = 8")
    assert found == "unknown key batchsize in [data]. Did you mean batch_size?"


def test_a_key_in_the_wrong_section_is_sent_to_its_own(tmp_path):
    found = refused(tmp_path, "[data]\nepochs = 8")
    assert found == "unknown key epochs in [data]. It belongs in [training]."


def test_a_wrong_type_names_key_found_and_expected(tmp_path):
    found = refused(tmp_path, '[data]\nbatch_size = "32"')
    assert found == "data.batch_size: found '32'; expected auto or a whole number from 1 to 65536."


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[training]\nlearning_rate = nan", "training.learning_rate: found nan; expected a finite"),
        ("[training]\nlearning_rate = inf", "training.learning_rate: found inf; expected a finite"),
        (
            "[data]\nbatch_size = 0",
            "data.batch_size: found 0; expected auto or a whole number from 1",
        ),
        ("[data]\npipeline_buffer_size = 0", "data.pipeline_buffer_size: found 0; expected"),
        ("[data]\nbatch_size = true", "data.batch_size: found True"),
        ("[data]\nbatch_size = 8.0", "data.batch_size: found 8.0"),
        ("[data]\ncache = 'ram'", "data.cache: found 'ram'; expected one of off, memory, disk."),
        ("[data]\ndata_gpu = []", "data.data_gpu: found []; expected a GPU index"),
        ("[data]\ndata_gpu = [[0]]", "data.data_gpu: found [[0]]; expected a GPU index"),
        ("[model.deep]\na = 1", "unknown key deep in [model]."),
        ("data = 3", "data must be a section, written [data]."),
        (
            "batch_size = 3",
            "unknown key batch_size outside the sections data, task, model,"
            " training and run. It belongs in [data].",
        ),
        (
            "[dat]",
            "unknown section [dat]; the sections are data, task, model, training and run. Did"
            " you mean data?",
        ),
        (
            "[data]\nlearning_rte = 1",
            "unknown key learning_rte in [data]. Did you mean"
            " learning_rate? It belongs in [training].",
        ),
        ("[data", "is not valid TOML: "),
        ("[data]\nbatch_size = 1\nbatch_size = 2", "is not valid TOML: "),
        ("[training]\nseed = " + "9" * 5000, "is not valid TOML: "),
        ("[training]\nlearning_rate = " + "9" * 400, "training.learning_rate: found 999"),
        ("a = " + "[" * 5000, "is not valid TOML: "),
        (b"\xff\xfe" + "[data]".encode("utf-16-le"), "is not UTF-8 text. Save it as UTF-8."),
        ("[data]".encode("utf-16-le"), "is not valid TOML: "),
        (b"[data]\ntrain_data = '\xe9'", "is not UTF-8 text. Save it as UTF-8."),
    ],
)
def test_a_mistake_is_one_sentence_that_names_it(tmp_path, content, said):
    assert refused(tmp_path, content).startswith(said)


def test_a_file_that_is_not_there_is_said_to_be_unreadable(tmp_path):
    with pytest.raises(ConfigError, match="can't be read"):
        read_values(tmp_path / "nothing.toml")
    with pytest.raises(ConfigError, match="can't be read"):
        read_values(tmp_path)


def test_a_byte_order_mark_and_windows_lines_are_read(tmp_path):
    path = written(tmp_path, b"\xef\xbb\xbf[data]\r\nbatch_size = 8\r\n")
    assert load_config(path).data.batch_size == 8


def test_settings_that_contradict_each_other_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="max_minutes depends on the clock.*--max-steps"):
        load_config(written(tmp_path, "[training]\ndeterministic = true\nmax_minutes = 1.0"))
    words = r"min_seconds \(20\) must be below max_seconds \(15\): change --min-seconds or --max-"
    with pytest.raises(ConfigError, match=words):
        load_config(written(tmp_path, "[data]\nmin_seconds = 20"))


def test_later_layers_are_stronger():
    config = build_config(
        {"data": {"batch_size": 4}, "task": {"trim_db": 40.0}}, {"data": {"batch_size": 8}}
    )
    assert config.data.batch_size == 8
    assert config.task.trim_db == 40.0


def test_every_flag_is_a_field_and_the_reverse():
    parser = train_parser("launcher.py", "")
    flags = {flag for action in parser._actions for flag in action.option_strings}
    flags = {flag for flag in flags if not flag.startswith("--no-")}
    fields = {rule.flag for section in SECTIONS.values() for rule in rules_of(section).values()}
    assert (
        flags - {"-h", "--help", "--help-all", "--config", *(old.old_flag for old in RENAMED)}
        == fields
    )


def values_of(rule: OptionRule) -> st.SearchStrategy:
    """Everything that an option accepts."""
    values: st.SearchStrategy
    if rule.choices:
        values = st.sampled_from(rule.choices)
    elif rule.kind in ("int", "int or auto"):
        values = st.integers(rule.minimum, rule.maximum)
        values = st.just(AUTO) | values if rule.kind == "int or auto" else values
    elif rule.kind == "float":
        values = st.floats(rule.minimum, rule.maximum, allow_nan=False, allow_infinity=False)
    elif rule.kind == "bool":
        values = st.booleans()
    elif rule.kind == "gpus":
        values = st.lists(st.integers(-1, 99), min_size=1, max_size=4, unique=True).map(tuple)
    else:
        values = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    return st.none() | values if rule.optional else values


@st.composite
def configs(draw):
    layer = {
        section: {key: draw(values_of(rule)) for key, rule in rules_of(kind).items() if rule.saved}
        for section, kind in SECTIONS.items()
    }
    task = layer["task"]
    low, high = sorted((task["min_seconds"], task["max_seconds"]))
    task["min_seconds"], task["max_seconds"] = low, min(600.0, max(0.1, high))
    if task["min_seconds"] >= task["max_seconds"]:
        task["min_seconds"] = 0.0
    if layer["training"]["deterministic"]:
        layer["training"]["max_minutes"] = 0.0
    training, data = layer["training"], layer["data"]
    if data["model_gpu"] is not None:  # there is a replica for each
        data["model_replicas"] = 0
    count = DataConfig(model_gpu=data["model_gpu"], model_replicas=data["model_replicas"])
    if training["grad_accum"]:  # they share a step's batches
        shared = count.num_model_replicas
        training["grad_accum"] = min(4096, training["grad_accum"]) // shared * shared
    return build_config(layer)


@settings(deadline=None, max_examples=60)
@given(configs())
def test_what_is_written_is_read_again_unchanged(config):
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "config.toml"
        write_config(config, path)
        assert load_config(path) == config
        assert os.listdir(directory) == ["config.toml"]


def test_the_written_file_names_every_saved_option_and_no_other():
    text = dump_config(Config())
    for section in SECTIONS.values():
        for key, rule in rules_of(section).items():
            assert (f"\n{key} = " in text or f"\n# {key} is not set" in text) == rule.saved


def test_what_belongs_to_one_command_is_not_written(tmp_path):
    config = dataclasses.replace(
        Config(), run=dataclasses.replace(Config().run, run_dir="x", fresh=True, prepare_only=True)
    )
    write_config(config, tmp_path / "config.toml")
    assert load_config(tmp_path / "config.toml") == Config()


@pytest.mark.parametrize("value", ['"mine.py"', '"speech"', "3"])
def test_no_file_names_code_to_be_run(tmp_path, value):
    assert refused(tmp_path, f"[run]\ntask = {value}\n") == (
        "task can't be set in a file. Name it on the command line, with --task."
    )
    assert "task = " not in dump_config(Config()).split("[run]")[1]


def test_the_task_of_a_run_is_the_one_that_was_named(tmp_path):
    task = tmp_path / "mine.py"
    task.write_text("class Model: ...")
    config = dataclasses.replace(Config(), run=dataclasses.replace(Config().run, task=str(task)))
    write_config(config, tmp_path / "config.toml")
    assert "mine.py" not in (tmp_path / "config.toml").read_text()
    assert load_config(tmp_path / "config.toml") == Config()
    assert load_config(tmp_path / "config.toml", str(task)).run.task == str(task)


def test_a_task_with_data_of_its_own_has_no_options_of_the_one_that_is_built_in(tmp_path):
    task = tmp_path / "mine.py"
    for content, said in (("class Model: ...", True), ("class Data: ...", False)):
        task.write_text(content)
        run = dataclasses.replace(Config().run, task=str(task))
        text = dump_config(dataclasses.replace(Config(), run=run))
        assert ("[task]" in text) == ("language = " in text) == said


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("data", "trim_db", "40.0"), ("data", "language", '"de"'), ("model", "model_size", '"big"')],
)
def test_a_file_from_before_there_was_a_section_of_the_task_is_understood(
    tmp_path, section, key, value
):
    config = load_config(written(tmp_path, f"[{section}]\n{key} = {value}\n"))
    assert str(getattr(config.task, key)) == value.strip('"')
    assert f"\n{key} = {value}" in dump_config(config).split("[task]")[1].split("\n[")[0]


def test_a_wrong_value_of_the_task_is_told_where_it_stands_now(tmp_path):
    assert refused(tmp_path, "[data]\ntrim_db = 1\n").startswith("task.trim_db: found 1; expected")
    assert refused(tmp_path, "[training]\ntrim_db = 40\n") == (
        "unknown key trim_db in [training]. It belongs in [task]."
    )


def test_a_batch_size_can_be_found_out_and_is_no_zero(tmp_path):
    def resolved(*flags):
        return resolve_config(
            train_parser("launcher.py", "").parse_all(["--train-data", "x", *flags])
        )

    config = resolved("--batch-size", "auto")
    assert config.data.batch_size is AUTO
    path = tmp_path / "config.toml"
    write_config(config, path)
    assert 'batch_size = "auto"' in path.read_text() and load_config(path) == config
    with pytest.raises(ConfigError, match="found '0'; expected auto or a whole number from 1"):
        resolved("--batch-size", "0")
    write_config(resolved("--batch-size", "24"), path)
    kept = resolved("--run-dir", str(tmp_path), "--batch-size", "auto")
    assert kept.data.batch_size == 24
    afresh = resolved("--run-dir", str(tmp_path), "--batch-size", "auto", "--fresh")
    assert afresh.data.batch_size is AUTO
