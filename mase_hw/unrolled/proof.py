"""Proof that shared sums are the sums of the constant matrix, by arithmetic on linear forms.

Every number is written as a sum of leaves with factors, which is exact for every input at once, and
compared with the form that it stands for; its largest value is compared with its width.
"""

from __future__ import annotations

from mase_hw.errors import EmissionError
from mase_hw.unrolled.logic import Logic


def prove(logic: Logic) -> int:
    """Compare every sum with its form, and every width with its range.

    Returns:
        How many forms are equal.

    Raises:
        EmissionError: naming what differs.
    """
    program, adders = logic.program, logic.adders
    leaf_of = logic.leaves
    linear = adders.linear()
    for number, operands in adders.sums.items():
        most = sum(
            (
                (1 << adders.width(item.number)) - 1
                if item.complemented
                else adders.highs[item.number]
            )
            << item.shift
            for item in operands
        )
        if most > adders.highs[number] or any(item.shift < 0 for item in operands):
            raise EmissionError(f"sum {number} reaches {most}, beyond its width")
    for form, (digit, constant) in logic.digits.items():
        asked = {leaf_of[atom]: factor for atom, factor in program.forms[form].terms}
        base = sum(factor * logic.bases[atom] for atom, factor in program.forms[form].terms)
        computed: dict[int, int] = {-1: constant}
        if digit is not None:
            for leaf, weight in linear[digit.number].items():
                factor = digit.sign * weight << digit.shift
                computed[leaf] = computed.get(leaf, 0) + factor
        wanted = {**asked, -1: program.forms[form].constant + base}
        if computed != wanted:
            raise EmissionError(f"form {form} is computed as {computed}, not as {wanted}")
    for atom, leaf in leaf_of.items():
        low, high = program.ranges[atom]
        if low < logic.bases[atom] or high - logic.bases[atom] > adders.highs[leaf]:
            raise EmissionError(f"atom {atom} leaves its range")
    return len(logic.digits)
