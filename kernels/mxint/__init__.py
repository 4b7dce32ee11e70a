"""MXINT8: 8-bit integers in blocks that share a power of two.

The definition is in `reference`; `README.md` of `kernels/` explains the implementations.
"""

from mase_hw.kernels.mxint._checks import DEFAULT_BLOCK, MAX_BLOCK
from mase_hw.kernels.mxint.dispatch import Implementation, implementations, selected, use
from mase_hw.kernels.mxint.modules import MXInt8Embedding, MXInt8Linear, convert_to_mxint8
from mase_hw.kernels.mxint.operators import dequantize, linear, quantize

__all__ = [
    "DEFAULT_BLOCK",
    "MAX_BLOCK",
    "Implementation",
    "MXInt8Embedding",
    "MXInt8Linear",
    "convert_to_mxint8",
    "dequantize",
    "implementations",
    "linear",
    "quantize",
    "selected",
    "use",
]
