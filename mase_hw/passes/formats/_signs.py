"""Formats without a sign, and numbers below zero."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from mase_hw.errors import FormatError
from mase_hw.formats import Format


def with_sign(
    cls: type[Format], fields: Mapping[str, object], least: float, said: str | None
) -> dict[str, object]:
    """Return the fields of a tensor's format, with a sign where its numbers need one.

    That a stream has no sign holds for the constants and the result of its node, too, if it fits
    them. A result of which it is said ends at zero.

    Args:
        cls: the format's class.
        fields: those that are given.
        least: the least number of the tensor.
        said: the word of the configuration that says it of this tensor; None for none.

    Raises:
        FormatError: where it is said of a tensor that has numbers below zero.
    """
    if fields.get("signed") is not False or least >= 0 or (said or "").startswith("data_out"):
        return dict(fields)
    value = torch.tensor(least, dtype=torch.float64)
    fitted = cls.fit(least, -least, **fields)
    if bool(fitted.in_range(value)) or float(fitted.round_values(value)) < 0:
        return dict(fields)
    if said is None:
        return {**fields, "signed": True}
    raise FormatError(
        f"{said}_signed is false, and numbers go down to {least:.3g}, which would become 0; leave "
        "it out, or say it of nodes without such numbers alone"
    )
