"""What the sections of a configuration say of themselves."""

import pytest

from shared.config.settings import RunConfig
from shared.errors import ConfigError


def test_a_run_without_an_identity_says_who_gives_it_one():
    assert RunConfig(run_id="r").wire_id == "r"
    with pytest.raises(ConfigError, match=r"run_id is missing.*The launcher adds it"):
        _ = RunConfig().wire_id
