"""A voice speaks with its own vocoder where that is better than Griffin-Lim, and it is said why."""

import json

from model_worker.vocoder.judgement import Judgement
from model_worker.vocoder.own_vocoder import own_vocoder
from shared.config.settings import Config
from shared.config.toml_file import write_config


def test_a_voice_without_a_vocoder_has_no_choice(tmp_path):
    assert own_vocoder(tmp_path) == (None, "")


def test_griffin_lim_speaks_until_the_vocoder_is_better_and_can_be_used(tmp_path):
    folder = tmp_path / "vocoder"
    (folder / "samples").mkdir(parents=True)
    write_config(Config(), folder / "config.toml")
    assert "was not judged yet" in own_vocoder(tmp_path).why
    Judgement(8, 0.7, 0.6).write(folder / "samples")
    assert "no nearer yet to 8 held-out recordings" in own_vocoder(tmp_path).why
    Judgement(8, 0.5, 0.6).write(folder / "samples")
    assert "is a run of --task speech" in own_vocoder(tmp_path).why
    identity = {"name": "vocoder", "model": "", "sha256": "", "version": 1, "recipe": None}
    (folder / "task.json").write_text(json.dumps(identity))
    assert "holds no run whose data was looked at" in own_vocoder(tmp_path).why
    (folder / "samples" / "judged.json").write_text("no JSON")
    assert "is damaged" in own_vocoder(tmp_path).why
    assert own_vocoder(tmp_path).run is None
