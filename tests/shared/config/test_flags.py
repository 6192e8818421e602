"""Flags: the same options as in a file, read by the same rules, mistakes in one sentence."""

import re

import pytest

import launcher
from shared.config.flags import resolve_config, train_parser, with_fake_gpus
from shared.config.option import TOPICS, rules_of
from shared.config.settings import SECTIONS, Config, DataConfig, RunConfig, TrainingConfig
from shared.config.variables import FAKE_GPUS_VARIABLE
from shared.errors import ConfigError


@pytest.fixture(autouse=True)
def no_fake_gpus(monkeypatch):
    monkeypatch.delenv(FAKE_GPUS_VARIABLE, raising=False)


def config_of(*arguments):
    return resolve_config(train_parser("launcher.py", "").parse_all(list(arguments)))


def refused(*arguments):
    with pytest.raises(ConfigError) as caught:
        config_of(*arguments)
    return str(caught.value)


def test_no_flag_means_the_defaults():
    assert config_of() == Config()


def test_the_flags_that_users_know_do_what_they_say():
    config = config_of(
        "--data-gpu", "0,2", "--model-gpu", "1", "--buffer-size", "75", "--batch-size", "16",
        "--model-start-delay", "2.5", "--epochs", "3", "--num-workers", "4", "--grad-accum", "2",
        "--model-size", "tiny", "--enable-static-shapes", "--seed", "7", "--audit",
        "--cache", "disk", "--train-data", "a", "--val-data", "b",
    )  # fmt: skip
    assert config.data.data_gpu == (0, 2)
    assert config.data.model_gpu == 1
    assert config.data.pipeline_buffer_size == 75
    assert config.data.model_start_delay == 2.5
    assert config.data.enable_static_shapes
    assert config.data.cache == "disk"
    assert config.training.grad_accum == 2
    assert config.task.model_size == "tiny"
    assert config.run.audit


def test_every_switch_can_be_switched_off_again():
    for section, kind in SECTIONS.items():
        for key, rule in rules_of(kind).items():
            if rule.kind == "bool":
                off = "--no-" + rule.flag.removeprefix("--")
                assert getattr(getattr(config_of(rule.flag), section), key) is True
                assert getattr(getattr(config_of(rule.flag, off), section), key) is False


def test_xla_is_on_by_its_name_alone_and_off_by_its_opposite():
    given = {(): "auto", ("--xla",): "on", ("--xla", "off"): "off", ("--no-xla",): "off"}
    for flags, expected in given.items():
        assert config_of(*flags).model.xla == expected
    assert refused("--xla", "some") == "--xla: found 'some'; expected one of auto, on, off."
    assert refused("--no-xla", "on") == "--no-xla: found 'on'; it takes no value."


def test_the_last_of_two_equal_flags_counts():
    assert config_of("--batch-size", "4", "--batch-size=8").data.batch_size == 8


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--bach-size", "8"], "Unknown flag --bach-size. Did you mean --batch-size? Try --help."),
        (["--bach-size=8"], "Unknown flag --bach-size. Did you mean --batch-size? Try --help."),
        (["--qqq"], "Unknown flag --qqq. Try --help."),
        (["speech"], "Unknown flag speech. Try --help."),
        (["--batch", "8"], "Unknown flag --batch. Did you mean --batch-size? Try --help."),
        (["--batch-size"], "Argument --batch-size: expected one argument. Try --help."),
        (
            ["--batch-size", "0"],
            "--batch-size: found '0'; expected auto or a whole number from 1 to 65536",
        ),
        (["--batch-size", "eight"], "--batch-size: found 'eight'; expected auto or a whole number"),
        (["--batch-size", "9" * 5000], "--batch-size: found '999"),
        (["--learning-rate", "nan"], "--learning-rate: found 'nan'; expected a finite number"),
        (["--cache", "ram"], "--cache: found 'ram'; expected one of off, memory, disk."),
        (["--data-gpu", "0,0"], "--data-gpu: found '0,0'; expected a GPU index such as 0"),
        (["--data-gpu", "zero"], "--data-gpu: found 'zero'; expected a GPU index such as 0"),
        (["--audit=yes"], "Argument --audit/--no-audit: ignored explicit argument 'yes'"),
        (["--train-data", "/data/caf\udce9"], "--train-data: found '/data/caf\\udce9'; expected"),
    ],
)
def test_a_wrong_flag_is_one_sentence_that_names_it(arguments, said):
    assert refused(*arguments).startswith(said)


def test_a_negative_gpu_index_is_left_for_the_gpu_check_to_name():
    assert config_of("--data-gpu", "-1", "--model-gpu", "-2").data.data_gpu == (-1,)


def test_flags_are_stronger_than_the_file_and_the_file_than_the_run_s_own(tmp_path):
    own = tmp_path / "config.toml"
    own.write_text("[data]\nbatch_size = 4\nmax_buckets = 2\n[training]\nepochs = 7\n")
    file = tmp_path / "other.toml"
    file.write_text("[data]\nbatch_size = 8\nmax_buckets = 3\n")
    config = config_of("--run-dir", str(tmp_path), "--config", str(file), "--batch-size", "16")
    assert config.data.batch_size == 16
    assert config.data.max_buckets == 3
    assert config.training.epochs == 7


def test_a_new_run_directory_has_nothing_to_say(tmp_path):
    assert config_of("--run-dir", str(tmp_path / "new")).data == Config().data


def test_fake_gpus_can_come_from_the_environment_and_flags_are_stronger(monkeypatch):
    monkeypatch.setenv(FAKE_GPUS_VARIABLE, "2")
    assert config_of().run.fake_gpus == 2
    assert config_of("--fake-gpus", "3").run.fake_gpus == 3
    monkeypatch.setenv(FAKE_GPUS_VARIABLE, "two")
    assert refused().startswith(f"{FAKE_GPUS_VARIABLE}: found 'two'; expected a whole number")


def test_the_help_shows_the_ten_flags_that_matter_most_and_a_way_to_the_others(capsys):
    parser = train_parser("launcher.py", "")
    shown = re.findall(r"^  (--[a-z-]+)", parser.format_help(), re.MULTILINE)
    rules = [rule for kind in SECTIONS.values() for rule in rules_of(kind).values() if rule.first]
    assert sorted(rule.first for rule in rules) == list(range(1, 11))
    in_order = [rule.flag for rule in sorted(rules, key=lambda rule: rule.first)]
    assert shown == [*in_order, "--config", "--help-all"]
    with pytest.raises(SystemExit):
        parser.parse_all(["--help-all"])
    assert capsys.readouterr().out == parser.format_help_all()


def test_the_whole_help_has_every_flag_once_under_what_it_is_for_with_its_default():
    text = train_parser("launcher.py", "").format_help_all()
    shown = re.findall(r"^  (--\S+)", text, re.MULTILINE)
    for kind in SECTIONS.values():
        for rule in rules_of(kind).values():
            name = rule.flag.replace("--", "--[no-]", 1) if rule.kind == "bool" else rule.flag
            assert shown.count(name) == 1, name
            assert rule.topic in TOPICS
    assert text.index(TOPICS["data"]) < text.index("--val-data") < text.index(TOPICS["budget"])
    assert "[50]" in text and "[off]" in text and "[none]" not in text


@pytest.mark.parametrize("columns", [80, 100, 250])
def test_no_line_of_the_help_is_wider_than_the_terminal_or_a_hundred_columns(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    for line in train_parser("launcher.py", "").format_help_all().splitlines()[2:]:
        assert len(line) <= min(columns, 100), line


def test_a_flag_is_never_divided_between_two_lines():
    for line in train_parser("launcher.py", "").format_help_all().splitlines():
        assert not line.endswith("-"), line


def test_fake_gpus_of_the_environment_count_for_a_configuration_made_in_python(monkeypatch):
    monkeypatch.setenv(FAKE_GPUS_VARIABLE, "2")
    assert with_fake_gpus(Config()).run.fake_gpus == 2
    assert with_fake_gpus(Config(run=RunConfig(fake_gpus=3))).run.fake_gpus == 3
    monkeypatch.setenv(FAKE_GPUS_VARIABLE, "two")
    with pytest.raises(ConfigError, match="found 'two'; expected a whole number"):
        with_fake_gpus(Config())
    monkeypatch.delenv(FAKE_GPUS_VARIABLE)
    assert with_fake_gpus(Config()) == Config()


def test_a_command_that_there_is_not_is_named_with_the_one_that_was_meant(capsys, tmp_path):
    assert launcher.main(["speek", "--run", "x"]) == 2
    assert "Unknown command speek. Did you mean speak?" in capsys.readouterr().err
    assert launcher.main([str(tmp_path)]) == 2
    assert f"Did you mean --train-data {tmp_path}?" in capsys.readouterr().err


def test_only_the_command_line_names_a_task(tmp_path):
    assert config_of("--task", "mine.py").run.task == "mine.py"
    file = tmp_path / "other.toml"
    file.write_text("[run]\ntask = 'mine.py'\n")
    said = "task can't be set in a file. Name it on the command line, with --task."
    assert refused("--config", str(file)) == f"{file}: {said}"
    own = tmp_path / "config.toml"
    own.write_text("[run]\ntask = 'mine.py'\n")
    assert refused("--run-dir", str(tmp_path)) == f"{own}: {said}"
    assert refused("--run-dir", str(tmp_path), "--task", "mine.py") == f"{own}: {said}"


def test_the_number_of_replicas_is_given_or_is_that_of_the_model_gpus():
    assert DataConfig(model_replicas=3).num_model_replicas == 3
    assert DataConfig(data_gpu=0, model_gpu=(1, 2), model_replicas=2).num_model_replicas == 2
    with pytest.raises(ConfigError, match="model_gpu names 2. Give --model-replicas 0"):
        DataConfig(data_gpu=0, model_gpu=(1, 2), model_replicas=3)
    with pytest.raises(ConfigError, match="4, which 3 model processes can't share evenly. Name 1 "):
        Config(DataConfig(model_replicas=3), training=TrainingConfig(grad_accum=4))
