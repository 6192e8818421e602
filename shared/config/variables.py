"""Environment variables that stand for options."""

FAKE_GPUS_VARIABLE = "TANDEM_FAKE_GPUS"  # --fake-gpus, for every command
