"""Options by the name that they had before."""

import pytest

from shared.config.flags import remarks_on, resolve_config, train_parser
from shared.config.toml_file import load_config
from shared.errors import ConfigError


def given(*flags):
    namespace = train_parser("launcher.py", "").parse_all(["--train-data", "x", *flags])
    return resolve_config(namespace).model.precision, remarks_on(namespace)


def test_the_old_flag_is_understood_and_its_new_name_is_said_once():
    said = "--mixed-precision is now called --precision, and was read as auto; so is mixed_precision = true in a file"
    assert given("--mixed-precision", "--mixed-precision") == ("auto", [said])
    assert given("--no-mixed-precision")[0] == "tf32"
    assert given("--precision", "float16") == ("float16", [])


@pytest.mark.parametrize(("value", "precision"), [("true", "auto"), ("false", "tf32")])
def test_a_file_of_an_earlier_version_computes_as_it_did(tmp_path, value, precision):
    path = tmp_path / "config.toml"
    path.write_text(f"[model]\nmixed_precision = {value}\n")
    assert load_config(path).model.precision == precision


def test_a_file_with_an_impossible_old_value_is_refused(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("[model]\nmixed_precision = 'yes'\n")
    with pytest.raises(
        ConfigError, match="model.mixed_precision: found 'yes'; expected true or false"
    ):
        load_config(path)
