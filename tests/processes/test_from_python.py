"""`launcher.run` from a Python program, as docs/python.md shows it, to the end of a training."""

import json

# In a process of its own: it takes over Ctrl-C and SIGTERM while it trains.
PROGRAM = """
import dataclasses, json, signal, sys, threading

import psutil

import launcher
from shared.config.settings import Config, DataConfig, RunConfig, TaskConfig, TrainingConfig

config = Config(
    data=DataConfig(
        train_data=sys.argv[1], data_gpu=0, model_gpu=1, batch_size=6, max_buckets=1,
        model_start_delay=0.2,
    ),
    task=TaskConfig(model_size="tiny"),
    training=TrainingConfig(max_steps=2, log_every=1),
    run=RunConfig(run_dir="run", fake_gpus=2, samples=0, report=False),
)
stops = (signal.SIGINT, signal.SIGTERM)
before = list(map(signal.getsignal, stops))
result = launcher.run(config)
assert list(map(signal.getsignal, stops)) == before
assert psutil.Process().children() == []
metrics = result.metrics()

# In another thread, signals stay with the main one.
again = dataclasses.replace(config, training=TrainingConfig(max_steps=3, log_every=1))
results = []
thread = threading.Thread(target=lambda: results.append(launcher.run(again)))
thread.start()
thread.join()
(gone_on,) = results
print(json.dumps({
    "gone_on": [record["step"] for record in gone_on.metrics() if "loss" in record],
    "finished": result.finished, "exit_code": result.exit_code, "run_dir": result.run_dir,
    "num_restarts": result.num_restarts, "metrics": metrics,
}))
"""


def test_a_configuration_made_in_python_trains_to_its_end_and_gives_its_metrics(runs):
    words = ["python", "-c", PROGRAM, str(runs.corpus)]
    command = runs.documented(words)  # in a folder of its own
    assert command.wait() == 0, command.text + runs.logs("run")
    result = json.loads(command.text.splitlines()[-1])
    assert result["finished"] is True and result["exit_code"] == 0
    assert result["run_dir"] == "run" and result["num_restarts"] == 0
    logged = [record for record in result["metrics"] if "loss" in record]
    assert [record["step"] for record in logged] == [1, 2]
    assert all(0 < record["loss"] < 100 for record in logged)
    (validated,) = [record for record in result["metrics"] if "val_loss" in record]
    assert validated["step"] == 2 and validated["val_loss"] > 0
    assert (runs.folder / "run" / "checkpoints" / "step-00000002").is_dir()
    assert result["gone_on"] == [1, 2, 3]
    assert not runs.leftovers()
