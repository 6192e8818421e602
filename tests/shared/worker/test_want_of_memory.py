"""Memory that ran out, in the words of the libraries that say so, and in a person's."""

import pytest

from shared.task import Array, BatchForm, BatchShape
from shared.worker.want_of_memory import is_want_of_memory, too_large

FORM = BatchForm({"x": Array("float32", "frames", 80)}, lengths=("frames", "symbols"))
SHAPE = BatchShape(32, (1296, 180), FORM)
OOM = "OOM when allocating tensor with shape[32,1296,512] and type float on /GPU:0 by allocator GPU_0_bfc"


@pytest.mark.parametrize(
    "words",
    [OOM, "No algorithm worked!  Error messages: ...", "CUDNN_STATUS_ALLOC_FAILED",
     "CUBLAS_STATUS_ALLOC_FAILED", "failed to allocate 2.00GiB (2147483648 bytes)",
     "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 96 bytes"],
)  # fmt: skip
def test_libraries_have_many_words_for_it(words):
    assert is_want_of_memory(RuntimeError(words))


def test_other_failures_are_none():
    assert not is_want_of_memory(
        RuntimeError("CUDA error: an illegal memory access was encountered")
    )


def test_the_batch_what_was_asked_for_and_what_fits_are_named():
    assert str(too_large(RuntimeError(OOM), SHAPE, 1)) == (
        "out of memory, at a batch of 32 rows of 1296 frames, 180 symbols, where float of [32,1296,512] "
        "was asked for. --batch-size 16 --grad-accum 2 trains on as much in about half of the memory; "
        "give another --run-dir with it"
    )


def test_an_amount_is_named_and_groups_stay_as_large():
    found = str(too_large(RuntimeError("failed to allocate 2.00GiB (2147483648 bytes)"), SHAPE, 3))
    assert "where 2.00GiB was asked for" in found and "--batch-size 16 --grad-accum 6" in found


def test_a_batch_of_one_can_only_be_shorter_or_its_model_smaller():
    found = str(too_large(MemoryError(), BatchShape(1, (1296, 180), FORM), 1))
    assert "--batch-size" not in found and "--max-seconds" in found
