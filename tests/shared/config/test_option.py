"""One rule per option decides what a value may be, wherever the value comes from."""

import dataclasses

import pytest

from shared.config.option import OptionRule, nearest, option, rules_of
from shared.config.settings import SECTIONS, Config, DataConfig, TrainingConfig
from shared.errors import ConfigError


@pytest.mark.parametrize(
    ("kind", "value", "accepted"),
    [
        ("int", 3, 3),
        ("float", 3, 3.0),
        ("float", 0.5, 0.5),
        ("str", "a", "a"),
        ("bool", True, True),
        ("gpus", 1, (1,)),
        ("gpus", "0,2", (0, 2)),
        ("gpus", [0, 2], (0, 2)),
        ("gpus", (3,), (3,)),
    ],
)
def test_a_value_is_brought_into_its_final_type(kind, value, accepted):
    found = OptionRule(kind, "").accept(value)
    assert found == accepted
    assert type(found) is type(accepted)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", True),
        ("int", 1.0),
        ("int", "1"),
        ("int", None),
        ("float", "1.0"),
        ("float", False),
        ("float", float("nan")),
        ("float", float("inf")),
        ("float", float("-inf")),
        ("str", 1),
        ("str", "a\0b"),
        ("str", "half a character \udce9"),
        ("bool", 1),
        ("bool", "true"),
        ("gpus", ""),
        ("gpus", "0,"),
        ("gpus", "a"),
        ("gpus", []),
        ("gpus", [0, 0]),
        ("gpus", [True]),
        ("gpus", True),
        ("gpus", 0.0),
        ("gpus", {0: 1}),
    ],
)
def test_a_value_of_another_type_is_refused(kind, value):
    with pytest.raises((ValueError, TypeError)):
        OptionRule(kind, "").accept(value)


def test_a_number_too_large_for_a_float_is_a_plain_error():
    with pytest.raises(ConfigError, match=r"TrainingConfig.learning_rate: found 1000.*finite"):
        TrainingConfig(learning_rate=10**400)


def test_limits_count_for_every_number_of_a_list():
    rule = OptionRule("gpus", "", minimum=0, maximum=7)
    assert rule.accept([0, 7]) == (0, 7)
    for value in ([0, 8], [-1, 0]):
        with pytest.raises(ValueError):
            rule.accept(value)


def test_text_from_the_command_line_is_read_as_the_option_s_type():
    assert OptionRule("int", "").parse("12") == 12
    assert OptionRule("float", "").parse("1e-3") == 1e-3
    assert OptionRule("str", "", choices=("a", "b")).parse("b") == "b"
    for kind, text in (("int", "1.5"), ("int", ""), ("float", "nan"), ("float", "1e999")):
        with pytest.raises(ValueError):
            OptionRule(kind, "").parse(text)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (OptionRule("int", "", minimum=1), "a whole number of at least 1"),
        (OptionRule("int", "", minimum=1, maximum=9), "a whole number from 1 to 9"),
        (OptionRule("float", ""), "a finite number"),
        (OptionRule("str", "", choices=("off", "disk")), "one of off, disk"),
        (OptionRule("gpus", ""), "a GPU index such as 0, or several such as 0,2"),
    ],
)
def test_what_is_expected_is_said_in_words(rule, words):
    assert rule.expected() == words


def test_a_wrong_field_from_python_names_the_field():
    with pytest.raises(ConfigError, match=r"^DataConfig.batch_size: found 0; expected .* 65536\.$"):
        DataConfig(batch_size=0)


def test_the_names_that_python_users_know_work():
    config = DataConfig(data_gpu=0, model_gpu=1, pipeline_buffer_size=75, model_start_delay=2.5)
    assert config.data_gpu == (0,)
    assert config.pipeline_buffer_size == 75


def test_sections_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config().data.batch_size = 3  # type: ignore[misc]


def test_every_field_of_every_section_is_an_option_whose_default_it_accepts():
    for section in SECTIONS.values():
        rules = rules_of(section)
        assert set(rules) == {field.name for field in dataclasses.fields(section)}
        for name, rule in rules.items():
            assert rule.accept(getattr(section(), name)) == getattr(section(), name)
            assert rule.help


def test_no_two_options_share_a_name_or_a_flag():
    names = [name for section in SECTIONS.values() for name in rules_of(section)]
    flags = [rule.flag for section in SECTIONS.values() for rule in rules_of(section).values()]
    assert len(set(names)) == len(names)
    assert len(set(flags)) == len(flags)
    assert not {flag for flag in flags if flag.startswith("--no-")}


def test_a_flag_is_the_field_s_name_unless_it_has_its_own():
    @dataclasses.dataclass(frozen=True)
    class Section:
        warm_up: int = option("int", 0, "")
        size: int = option("int", 0, "", flag="--buffer-size")

    assert [rule.flag for rule in rules_of(Section).values()] == ["--warm-up", "--buffer-size"]


def test_a_near_miss_is_named_and_a_far_one_is_not():
    assert nearest("--batchsize", ["--batch-size", "--epochs"]) == " Did you mean --batch-size?"
    assert nearest("zzz", ["--batch-size", "--epochs"]) == ""
