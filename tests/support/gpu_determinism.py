"""What of a graph TensorFlow refuses, or takes to the host, on a GPU with determinism. No GPU needed."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

import tensorflow as tf
from gpu_kernels import bodies

# Operations by how TensorFlow's own sentences call them when it refuses one.
REFUSED = {
    "AdjustContrast": {"AdjustContrast"},
    "AdjustContrastv2": {"AdjustContrastv2"},
    "Bincount": {"Bincount"},
    "CropAndResizeBackpropBoxes": {"CropAndResizeGradBoxes"},
    "CropAndResizeBackpropImage": {"CropAndResizeGradImage"},
    "DenseBincount": {"DenseBincount", "RaggedBincount", "SparseBincount"},
    "DepthwiseConvBackpropFilter": set(),  # only with a cuDNN that TensorFlow no longer takes
    "Dilation2DBackpropFilter": {"Dilation2DBackpropFilter"},
    "Dilation2DBackpropInput": {"Dilation2DBackpropInput"},
    "FakeQuantWithMinMaxVarsGradient": {"FakeQuantWithMinMaxVarsGradient"},
    "FakeQuantWithMinMaxVarsPerChannelGradient": {"FakeQuantWithMinMaxVarsPerChannelGradient"},
    "MaxPoolGradWithArgmax": {"MaxPoolGradWithArgmax"},
    "ResizeNearestNeighborGrad": {"ResizeNearestNeighborGrad"},
    "SVD of matrices": {"Svd"},
    "Scatter ops": {"ScatterAdd", "ScatterSub", "ScatterMul", "ScatterDiv", "ScatterUpdate"},
    "SoftmaxCrossEntropyWithLogits": {"SoftmaxCrossEntropyWithLogits"},
    "SparseSoftmaxCrossEntropyWithLogits": {"SparseSoftmaxCrossEntropyWithLogits"},
    "SparseTensorDenseMatmulOp": {"SparseTensorDenseMatMul"},
    # Only where the model does not train: `is_training` is looked at below.
    "fused batch-norm backprop": {"FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"},
    # They have a deterministic kernel since 2.8, which is taken.
    "sorted segment reduction op": set(),
    "unsorted segment reduction op": set(),
    # A debugger's.
    "DebugNumericSummaryV2": {"DebugNumericSummaryV2"},
}  # fmt: skip
_TRAINING_ONLY = REFUSED["fused batch-norm backprop"]
# Since TensorFlow 2.7 they run on the host with determinism, whatever kernel they have.
_ON_HOST = re.compile(r"(ScatterNd|TensorScatter|ResourceScatter)\w*")
_COMPILED_REFUSED = {"MaxPoolGrad", "MaxPool3DGrad", "MaxPoolGradV2"}  # by XLA: SelectAndScatter
# They draw what no seed decides.
_RANDOM = {
    "RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt", "RandomShuffle",
    "Multinomial", "RandomGamma", "RandomPoissonV2", "ParameterizedTruncatedNormal",
}  # fmt: skip
_SENTENCE = re.compile(
    rb"(?:[Dd]eterministic GPU implementation of|Determinism is not yet supported (?:in GPU "
    rb"implementation of|for)|The GPU implementation of) ([\w -]+?)(?:,| is | not | with | when | that |\.)"
)


def not_deterministic(concrete) -> set[str]:
    """Operations of a traced function that can't be had with determinism on a GPU, and why."""
    found = set()
    for body in bodies(concrete):
        for op in body.graph.get_operations():
            if problem := _problem_of(op, body.is_compiled):
                found.add(f"{op.type}: {problem}")
    return found


def _problem_of(op, is_compiled: bool) -> str:
    if op.type in _RANDOM and not (op.get_attr("seed") or op.get_attr("seed2")):
        return "no seed decides it"
    if op.type == "NonDeterministicInts":
        return "no seed decides it"
    if is_compiled:  # XLA has its own ways: it expands what is scattered
        return "refused by XLA" if op.type in _COMPILED_REFUSED else ""
    if op.type in _TRAINING_ONLY:
        return "" if op.get_attr("is_training") else "refused"
    if any(op.type in types for types in REFUSED.values()):
        return "refused"
    return "runs on the host" if _ON_HOST.fullmatch(op.type) else ""


def refused_by_the_library() -> set[str]:
    """Of everything that the installed TensorFlow has a refusal for: what it calls it."""
    found = set()
    with (
        open(Path(tf.__file__).parent / "libtensorflow_cc.so.2", "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as library,
    ):
        for word in (
            b"eterministic GPU implementation",
            b"Determinism is not yet",
            b" is not deterministic",
        ):
            place = library.find(word)
            while place >= 0:
                begun = library.rfind(b"\0", place - 300, place) + 1
                ended = library.find(b"\0", place, place + 300)
                if match := _SENTENCE.search(library[begun:ended]):
                    found.add(match[1].decode().strip())
                place = library.find(word, place + 1)
    return found
