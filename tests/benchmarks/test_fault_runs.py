"""The fault harness tells a run's temporary files from what it leaves on purpose."""

import pytest
from fault_runs import maker_of


@pytest.mark.parametrize(
    "name",
    [
        ".tmp-12-345", ".tmp-removed-step-00000012-345", ".config.toml.345",
        ".quarantine.jsonl.345", ".index.safetensors.345.0badcafe", ".0.wav.345.0badcafe",
        ".reading-345",
    ],
)  # fmt: skip
def test_a_temporary_file_is_known_by_its_maker(name):
    assert maker_of(name) == 345


@pytest.mark.parametrize(
    "name", [".launcher.lock", ".model process.lock", ".feature-cache", "step-00000012", "0.wav"]
)
def test_what_is_left_on_purpose_is_no_temporary_file(name):
    assert maker_of(name) is None
