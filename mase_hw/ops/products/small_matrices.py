"""Linear algebra of small matrices, unrolled: each step of an algorithm is a few operators.

Elimination takes the row of the largest pivot, as LAPACK does, so that only matrices near singular
ones lose digits. What is larger than `MAX_SIZE` is refused.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mase_hw._aten import aten
from mase_hw.ops._base import Apply, Call, Example, example, example_values, torch_target
from mase_hw.ops._composite import composition

MAX_SIZE = 8
_MATRIX_FIRST = {"A": "data_in_0", "self": "data_in_0", "input": "data_in_0", "B": "data_in_1"}


def _refusal(call: Call) -> list[str]:
    for spec in call.operands.values():
        if len(spec.shape) > 3:
            return ["its matrices have more than one batch dimension; flatten those before it"]
    size = max(call.operands["data_in_0"].shape[-1], call.operands["data_in_0"].shape[-2])
    if size > MAX_SIZE:
        return [
            f"its matrices are of size {size}; up to {MAX_SIZE} they are unrolled: return what "
            "goes into it and compute it outside"
        ]
    if call.attributes.get("left", True) is not True:
        return ["it solves x A = B; give transposed matrices to solve A x = B"]
    return []


def _rows(data: Tensor, dim: int, start: int, end: int) -> Tensor:
    return aten.slice.Tensor(data, dim, start, end)


def _joined(parts: list[Tensor], dim: int) -> Tensor:
    joined: Tensor = parts[0] if len(parts) == 1 else torch_target("mase.cat.default")(parts, dim)
    return joined


def _eliminated(matrix: Tensor, size: int, width: int) -> tuple[Tensor, Tensor]:
    """What is right of a square matrix, times its inverse, and its determinant.

    Gauss and Jordan's elimination of `[rows, size, width]`: columns leave once they are those of
    the identity.
    """
    determinant = None
    for step in range(size):
        # The rows from this step on, then those above.
        below = _rows(matrix, 1, step, size) if step else matrix
        column = aten.select.int(below, 2, 0)
        place = aten.argmax.default(aten.abs.default(column), 1, True)
        chosen = aten.eq.Tensor(place, torch.arange(size - step))
        taken = aten.where.ScalarOther(aten.unsqueeze.default(chosen, 2), below, 0.0)
        pivot_row = aten.sum.dim_IntList(taken, [1], True)
        pivot = aten.select.int(pivot_row, 2, 0)
        stays = _rows(chosen, 1, 0, 1)
        signed = aten.where.self(stays, pivot, aten.neg.default(pivot))
        determinant = signed if determinant is None else aten.mul.Tensor(determinant, signed)
        scaled = aten.div.Tensor(
            _rows(pivot_row, 2, 1, width - step), aten.unsqueeze.default(pivot, 2)
        )
        others = [_rows(matrix, 1, 0, step)] if step else []
        if step + 1 < size:
            moved = aten.where.self(
                aten.unsqueeze.default(_rows(chosen, 1, 1, size - step), 2),
                _rows(below, 1, 0, 1),
                _rows(below, 1, 1, size - step),
            )
            others.append(moved)
        if not others:
            matrix = scaled
            continue
        rest = _joined(others, 1)
        factors = _rows(rest, 2, 0, 1)
        reduced = aten.sub.Tensor(_rows(rest, 2, 1, width - step), aten.mul.Tensor(factors, scaled))
        parts = [_rows(reduced, 1, 0, step)] if step else []
        parts.append(scaled)
        if step + 1 < size:
            parts.append(_rows(reduced, 1, step, size - 1))
        matrix = _joined(parts, 1)
    assert determinant is not None
    return matrix, determinant


def _regular(*shape: int) -> Tensor:
    """Matrices whose largest pivots do not lie on the diagonal."""
    return example_values(*shape) + 3 * torch.eye(shape[-1]).flip(0)


def _definite(*shape: int) -> Tensor:
    values = example_values(*shape)
    return values @ values.mT / shape[-1] + torch.eye(shape[-1])


def _inverses(function: Callable[[Tensor], Tensor]) -> Callable[[], list[Example]]:
    return lambda: [example(function, _regular(2, 3, 3))]


@composition(
    "aten.linalg_inv.default",
    "aten.inverse.default",
    examples=_inverses(torch.linalg.inv),
    refusal=_refusal,
    operand_names=_MATRIX_FIRST,
)
def inverse(call: Call, matrix: Tensor) -> Tensor:
    """Inverse of small matrices (torch.linalg.inv)."""
    size = call.operands["data_in_0"].shape[-1]
    # One times each row, as constants join no stream.
    unit = aten.mul.Tensor(_rows(matrix, 2, 0, 1), 0)
    sides = aten.add.Tensor(unit, torch.eye(size))
    return _eliminated(_joined([matrix, sides], 2), size, 2 * size)[0]


@composition(
    "aten.linalg_det.default",
    "aten.det.default",
    examples=_inverses(torch.linalg.det),
    refusal=_refusal,
    operand_names=_MATRIX_FIRST,
)
def determinant(call: Call, matrix: Tensor) -> Tensor:
    """Determinant of small matrices (torch.linalg.det): the product of the pivots."""
    size = call.operands["data_in_0"].shape[-1]
    unit = _rows(matrix, 2, 0, 1)
    _, value = _eliminated(_joined([matrix, unit], 2), size, size + 1)
    return aten.reshape.default(value, [-1])


@composition(
    "aten.linalg_solve.default",
    examples=lambda: [
        example(torch.linalg.solve, _regular(2, 3, 3), example_values(2, 3, 2)),
        example(Apply(lambda b, a: torch.linalg.solve(a, b), _regular(3, 3)), (2, 3, 2)),
    ],
    refusal=_refusal,
    operand_names=_MATRIX_FIRST,
)
def solve(call: Call, matrix: Tensor, right: Tensor) -> Tensor:
    """Solution of a few linear equations (torch.linalg.solve)."""
    size = call.operands["data_in_0"].shape[-1]
    is_vector = len(call.operands["data_in_1"].shape) < 3 and call.result.shape[-1] == size
    sides = aten.unsqueeze.default(right, 2) if is_vector else right
    if "data_in_0" in call.constants:
        inverted = torch.linalg.inv(call.constants["data_in_0"].double()).float()
        solved = aten.matmul.default(inverted, sides)
    else:
        count = 1 if is_vector else call.operands["data_in_1"].shape[-1]
        solved, _ = _eliminated(_joined([matrix, sides], 2), size, size + count)
    return aten.squeeze.dim(solved, 2) if is_vector else solved


def _substituted(triangle: Tensor, right: Tensor, size: int, *, upper: bool) -> Tensor:
    """Solution of triangular equations, row by row."""
    solved: list[Tensor] = []
    for step in reversed(range(size)) if upper else range(size):
        count = size - 1 - len(solved)
        place, first = (count, 0) if upper else (0, 1)
        diagonal = _rows(_rows(triangle, 1, step, step + 1), 2, step, step + 1)
        row = aten.div.Tensor(_rows(right, 1, place, place + 1) if count else right, diagonal)
        solved.append(row)
        if count:
            start, end = (0, step) if upper else (step + 1, size)
            factors = _rows(_rows(triangle, 1, start, end), 2, step, step + 1)
            rest = _rows(right, 1, first, first + count)
            right = aten.sub.Tensor(rest, aten.mul.Tensor(factors, row))
    return _joined(solved[::-1] if upper else solved, 1)


@composition(
    "aten.linalg_solve_triangular.default",
    examples=lambda: [
        example(
            lambda a, b: torch.linalg.solve_triangular(a.triu(), b, upper=True),
            _definite(2, 3, 3),
            example_values(2, 3, 2),
        )
    ],
    refusal=_refusal,
    operand_names=_MATRIX_FIRST,
)
def solve_triangular(call: Call, matrix: Tensor, right: Tensor) -> Tensor:
    """Solution of a few triangular equations (torch.linalg.solve_triangular)."""
    size, upper = call.operands["data_in_0"].shape[-1], bool(call.attributes["upper"])
    return _substituted(matrix, right, size, upper=upper)


@composition(
    "aten.linalg_cholesky.default",
    "aten.cholesky.default",
    examples=lambda: [example(torch.linalg.cholesky, _definite(2, 3, 3))],
    refusal=_refusal,
    operand_names=_MATRIX_FIRST,
)
def cholesky(call: Call, matrix: Tensor) -> Tensor:
    """Cholesky factor of small positive definite matrices (torch.linalg.cholesky)."""
    size, columns = call.operands["data_in_0"].shape[-1], []
    for step in range(size):
        root = aten.rsqrt.default(_rows(_rows(matrix, 1, 0, 1), 2, 0, 1))
        column = aten.mul.Tensor(_rows(matrix, 2, 0, 1), root)
        columns.append(aten.constant_pad_nd.default(column, [0, 0, step, 0]) if step else column)
        if step + 1 < size:
            below = _rows(column, 1, 1, size - step)
            product = aten.mul.Tensor(below, aten.transpose.int(below, 1, 2))
            inner = _rows(_rows(matrix, 1, 1, size - step), 2, 1, size - step)
            matrix = aten.sub.Tensor(inner, product)
    factor = _joined(columns, 2)
    return aten.transpose.int(factor, 1, 2) if call.attributes.get("upper") else factor


@composition(
    "aten.cholesky_solve.default",
    examples=lambda: [
        example(torch.cholesky_solve, (2, 3, 2), torch.linalg.cholesky(_definite(2, 3, 3)))
    ],
    refusal=_refusal,
    operand_names={"input2": "data_in_0", "self": "data_in_1"},
)
def cholesky_solve(call: Call, right: Tensor, factor: Tensor) -> Tensor:
    """Solution of a few equations from their Cholesky factor (torch.cholesky_solve)."""
    size, upper = call.operands["data_in_0"].shape[-1], bool(call.attributes.get("upper"))
    mirrored = aten.transpose.int(factor, 1, 2)
    first, second = (mirrored, factor) if upper else (factor, mirrored)
    return _substituted(second, _substituted(first, right, size, upper=False), size, upper=True)


@composition(
    "aten.linalg_matrix_power.default",
    "aten.matrix_power.default",
    examples=lambda: [example(lambda x: torch.linalg.matrix_power(x, 3), (2, 3, 3))],
    operand_names=_MATRIX_FIRST,
    refusal=lambda call: (
        ["its power is below one; invert before it"] if call.attributes["n"] < 1 else []
    ),
)
def matrix_power(call: Call, matrix: Tensor) -> Tensor:
    """Product of equal matrices (torch.linalg.matrix_power)."""
    power = matrix
    for digit in f"{int(call.attributes['n']):b}"[1:]:
        power = aten.matmul.default(power, power)
        power = aten.matmul.default(power, matrix) if digit == "1" else power
    return aten.alias.default(matrix) if power is matrix else power
