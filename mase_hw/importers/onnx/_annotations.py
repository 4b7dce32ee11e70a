"""Integer types that FINN's files annotate tensors with (`finn_datatype`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mase_hw.errors import CaptureError
from mase_hw.importers.onnx._values import Levels

if TYPE_CHECKING:
    from onnx import ModelProto

KEY = "finn_datatype"
# Least and largest integer of types that are called by a word; bipolar numbers are -1 and 1.
WORDS = {"BINARY": (0, 1), "BIPOLAR": (-1, 1), "TERNARY": (-1, 1)}
MOST_BITS = 24


def annotated_levels(model: ModelProto, title: str) -> Mapping[str, Levels]:
    """Return the levels of inputs and constants whose integer type is annotated.

    Other tensors are what their nodes compute; floats, and integers of 32 bits, say nothing.

    Args:
        model: the file.
        title: its name, for messages.

    Raises:
        CaptureError: for a type that is not known.
    """
    ends = {item.name for item in (*model.graph.input, *model.graph.initializer)}
    found = {}
    for annotation in model.graph.quantization_annotation:
        kinds = [item.value for item in annotation.quant_parameter_tensor_names if item.key == KEY]
        for kind in kinds if annotation.tensor_name in ends else ():
            levels = _levels(kind, f"{title}: tensor {annotation.tensor_name!r}")
            if levels is not None:
                found[annotation.tensor_name] = levels
    return found


def _levels(kind: str, place: str) -> Levels | None:
    if kind in WORDS:
        low, high = WORDS[kind]
        # Formats have two bits at least.
        return Levels((1.0,), (0,), 0, min(low, 0), high if low else 3)
    match = re.fullmatch(r"(U?)INT(\d+)", kind)
    if match is None and not kind.startswith(("FLOAT", "FIXED", "SCALEDINT")):
        raise CaptureError(
            f"{place} is annotated as {kind!r}; allowed are INTn, UINTn, {', '.join(WORDS)}, FLOATn"
        )
    bits = 0 if match is None else int(match[2])
    if match is None or bits > MOST_BITS:
        return None
    signed, bits = not match[1], max(2, bits)
    half = 1 << (bits - 1)
    return Levels((1.0,), (0,), 0, *((-half, half - 1) if signed else (0, 2 * half - 1)))
