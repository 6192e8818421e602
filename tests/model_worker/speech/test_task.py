"""What the speech task makes of the size of its data."""

from model_worker.speech.task import SpeechModel
from shared.config.settings import Config


def test_the_end_of_a_run_fits_its_data_and_little_data_still_gets_enough_steps():
    task = SpeechModel(Config())
    steps = [task.most_steps(per_epoch) for per_epoch in (0.5, 5, 20, 400)]
    assert steps == [4000, 4000, 6400, 128_000]
