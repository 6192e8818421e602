"""The checker of the fault harness finds what it is for."""

import json

import pytest
from fault_check import longest_wait_ms, stream_violations, violations_of
from faults import epoch_violations

STREAM = [{"batch_index": n, "utterances": [f"u{n}"], "sha256": str(n)} for n in range(6)]


@pytest.mark.parametrize(
    ("audit", "said"),
    [
        (STREAM[:3] + STREAM[4:], ["batch 3 was lost"]),
        (STREAM[:4] + STREAM[3:], ["batch 3 was trained twice"]),
        ([*STREAM[:2], STREAM[3], STREAM[2], *STREAM[4:]], ["batches were trained out of order"]),
        ([*STREAM, {"batch_index": 6}], ["batch 6 was never asked for"]),
        ([*STREAM[:5], {**STREAM[5], "sha256": "x"}], ["batch 5 holds something else"]),
        (STREAM, []),
    ],
)
def test_a_stream_that_differs_is_found(audit, said):
    assert stream_violations(audit, STREAM) == said


def lay_run(folder, weights=b"weights", log=""):
    checkpoint = folder / "checkpoints" / "step-00000006"
    checkpoint.mkdir(parents=True)
    (checkpoint / "weights.safetensors").write_bytes(weights)
    (folder / "audit.jsonl").write_text("".join(json.dumps(record) + "\n" for record in STREAM))
    (folder / "output.txt").write_text(log)
    (folder / "launcher.log").write_text("")
    return folder


def test_other_weights_missing_weights_and_tracebacks_are_found(tmp_path):
    whole = lay_run(tmp_path / "whole")
    assert violations_of(lay_run(tmp_path / "same"), whole) == []
    other = violations_of(lay_run(tmp_path / "other", weights=b"other"), whole)
    assert len(other) == 1 and "weights.safetensors differs" in other[0]
    missing = lay_run(tmp_path / "missing")
    (missing / "checkpoints" / "step-00000006" / "weights.safetensors").unlink()
    assert "missing" in violations_of(missing, whole)[0]
    noisy = lay_run(tmp_path / "noisy", log="Traceback (most recent call last):")
    assert violations_of(noisy, whole) == ["a traceback in output.txt"]


def test_a_wait_counts_only_while_the_queue_held_a_batch(tmp_path):
    records = [(1, 3, 0.0), (2, 0, 40.0), (3, 2, 900.0), (4, 1, 7.0), (6, 1, 5000.0)]
    lines = [json.dumps({"step": s, "queue_depth": q, "data_wait_ms": w}) for s, q, w in records]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    assert longest_wait_ms(tmp_path) == 40.0


EPOCHS = [
    {"batch_index": 3 * epoch + n, "epoch": epoch, "utterances": names}
    for epoch in range(2)
    for n, names in enumerate((["a", "b"], ["c", "d"], ["e"]))
]


@pytest.mark.parametrize(
    ("batch", "names", "left_out", "said"),
    [
        (0, ["a", "b"], {}, []),
        (4, ["c", "a"], {"d": 4}, []),  # another one stands in for what is left out
        (4, ["c"], {"d": 4}, []),
        (1, ["c", "d"], {"d": 4}, ["batch 4 has d, left out from 4 on"]),
        (4, ["c"], {}, ["d was not trained in epoch 1"]),
        (1, ["c"], {"d": 4}, ["batch 4 has d, left out from 4 on",
                              "d was not trained in epoch 0"]),
        (4, ["c", "d", "a"], {}, ["epoch 1 repeats more utterances than were left out of it"]),
    ],
)  # fmt: skip
def test_what_is_missing_from_an_epoch_must_have_been_left_out(batch, names, left_out, said):
    audit = [line | {"utterances": names} if line["batch_index"] == batch else line
             for line in EPOCHS]  # fmt: skip
    assert epoch_violations(audit, left_out, set("abcde")) == said
