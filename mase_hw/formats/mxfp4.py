"""MXFP4: 4-bit floats, E2M1 (maximum 6), in blocks that share a scale.

Value set: `element * 2**X` with `X` from -127 to 127 in E8M0 code. Block rule: see
`mase_hw.formats._block`, `emax` being the exponent of the element's maximum. Elements round to
nearest, ties to even, saturate, and keep denormals and both zeros.
None has infinities or NaN; NaN in the data is refused by `encode`.

Source: OCP Microscaling Formats (MX) 1.0, sections 5 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mase_hw.formats._float import FloatElement
from mase_hw.formats._mx import MXFloat


@dataclass(frozen=True)
class MXFP4(MXFloat):
    """Microscaling floats of 4 bits; fields as in `MXFloat`."""

    name = "mxfp4"
    abbreviation = "mxfp"
    elements: ClassVar[dict[str, FloatElement]] = {"e2m1": FloatElement(2, 1, 1)}
