"""The C header of a design's packets."""

from __future__ import annotations

import math

from mase_hw._resources import template_environment
from mase_hw.deploy.driver import registers as at
from mase_hw.deploy.packets import Codes, Packet
from mase_hw.errors import EmissionError

MOST_DIMENSIONS = 8


def render_header(bus: object, name: str) -> str:
    """Return the text of `mase_driver.h`.

    Args:
        bus: the `Bus`.
        name: of the design.

    Raises:
        EmissionError: for a tensor of too many dimensions.
    """
    environment = template_environment()
    environment.filters["c_port"] = c_port
    return environment.get_template("driver.h.j2").render(
        bus=bus, name=name, at={key: getattr(at, key) for key in dir(at) if key.isupper()}
    )


def c_port(packet: Packet) -> dict[str, object]:
    """Return the numbers of the table of a port."""
    spec = packet.stream.spec
    view, axes = (spec.order.view, spec.order.axes) if spec.order else (spec.shape, None)
    if len(view) > MOST_DIMENSIONS:
        raise EmissionError(
            f"{packet.stream.name} has {len(view)} dimensions; the C header takes {MOST_DIMENSIONS}"
        )
    strides = [math.prod(view[axis + 1 :]) for axis in range(len(view))]
    order = axes if axes is not None else range(len(view))
    elements, *shared = packet.stream.fields
    codes = Codes.of(spec.quantized)
    return {
        "dims": [view[axis] for axis in order],
        "strides": [strides[axis] for axis in order],
        "size": spec.size,
        "bits": elements.width_bits,
        "scale_bits": shared[0].width_bits if shared else 0,
        "scales": shared[0].lanes if shared else 0,
        "minimum": codes.minimum,
        "maximum": codes.maximum,
    }
