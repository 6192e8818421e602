"""`--batch-size auto` in a real preparation, on a machine whose driver is played."""

from played_gpus import GEFORCE, Machine, compiled

from shared.config.toml_file import load_config


def test_a_run_finds_its_batch_size_by_the_memory_of_its_gpu_and_keeps_it(tmp_path, small_corpus):
    machine, run = Machine(compiled(tmp_path)), tmp_path / "run"
    flags = ("--train-data", str(small_corpus), "--run-dir", str(run), "--model-size", "tiny",
             "--batch-size", "auto", "--prepare-only")  # fmt: skip
    done = machine.launcher(*flags, gpus=GEFORCE)
    assert done.returncode == 0, done.stderr
    assert "Batch size 48: 32 rows would take about" in done.stdout
    assert load_config(run / "config.toml").data.batch_size == 48
    again = machine.launcher(*flags, gpus=GEFORCE)
    assert again.returncode == 0 and "Batch size" not in again.stdout
