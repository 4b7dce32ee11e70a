"""MXFP6: 6-bit floats, E2M3 (maximum 7.5) or E3M2 (maximum 28), in blocks that share a scale.

Value set: `element * 2**X` with `X` from -127 to 127 in E8M0 code. Block rule: see
`mase_hw.formats._block`, `emax` being the exponent of the element's maximum. Elements round to
nearest, ties to even, saturate, and keep denormals and both zeros.
Neither has infinities or NaN; NaN in the data is refused by `encode`.

Source: OCP Microscaling Formats (MX) 1.0, sections 5 and 6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mase_hw.formats._float import FloatElement
from mase_hw.formats._mx import MXFloat


@dataclass(frozen=True)
class MXFP6(MXFloat):
    """Microscaling floats of 6 bits; fields as in `MXFloat`."""

    name = "mxfp6"
    abbreviation = "mxfp"
    elements: ClassVar[dict[str, FloatElement]] = {
        "e2m3": FloatElement(2, 3, 1),
        "e3m2": FloatElement(3, 2, 3),
    }
