"""MXFP8: 8-bit floats, E4M3 (maximum 448) or E5M2 (maximum 57344), in blocks that share a scale.

Value set: `element * 2**X` with `X` from -127 to 127 in E8M0 code. Block rule: see
`mase_hw.formats._block`, `emax` being the exponent of the element's maximum. Elements round to
nearest, ties to even, saturate, and keep denormals and both zeros.
A NaN is an element's NaN; infinities saturate.

Source: OCP Microscaling Formats (MX) 1.0, sections 5 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mase_hw.formats._float import FloatElement
from mase_hw.formats._mx import MXFloat


@dataclass(frozen=True)
class MXFP8(MXFloat):
    """Microscaling floats of 8 bits; fields as in `MXFloat`."""

    name = "mxfp8"
    abbreviation = "mxfp"
    elements: ClassVar[dict[str, FloatElement]] = {
        "e4m3": FloatElement(4, 3, 7, "nan"),
        "e5m2": FloatElement(5, 2, 15, "ieee"),
    }
