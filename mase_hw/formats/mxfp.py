"""MXFP4, MXFP6 and MXFP8: floats of 4, 6 and 8 bits in blocks that share a scale.

Value set: `element * 2**X` with `X` from -127 to 127 in E8M0 code. Block rule: see
`mase_hw.formats._block`, `emax` being the exponent of the element's maximum. Elements round to
nearest, ties to even, saturate, and keep denormals and both zeros. Those of 4 and 6 bits have
neither infinities nor NaN, which `encode` refuses; in 8 bits a NaN is an element's NaN, and
infinities saturate.

Source: OCP Microscaling Formats (MX) 1.0, sections 5 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mase_hw.formats._float import FloatElement
from mase_hw.formats._mx import MXFloat


@dataclass(frozen=True)
class MXFP4(MXFloat):
    """E2M1 (maximum 6); fields as in `MXFloat`."""

    name = "mxfp4"
    abbreviation = "mxfp"
    elements: ClassVar[dict[str, FloatElement]] = {"e2m1": FloatElement(2, 1, 1)}


@dataclass(frozen=True)
class MXFP6(MXFloat):
    """E2M3 (maximum 7.5) or E3M2 (maximum 28); fields as in `MXFloat`."""

    name = "mxfp6"
    abbreviation = "mxfp"
    elements: ClassVar[dict[str, FloatElement]] = {
        "e2m3": FloatElement(2, 3, 1),
        "e3m2": FloatElement(3, 2, 3),
    }


@dataclass(frozen=True)
class MXFP8(MXFloat):
    """E4M3 (maximum 448) or E5M2 (maximum 57344); fields as in `MXFloat`."""

    name = "mxfp8"
    abbreviation = "mxfp"
    elements: ClassVar[dict[str, FloatElement]] = {
        "e4m3": FloatElement(4, 3, 7, "nan"),
        "e5m2": FloatElement(5, 2, 15, "ieee"),
    }
