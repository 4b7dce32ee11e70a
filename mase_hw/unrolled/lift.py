"""Integer references as integer programs: what an operator computes is what its logic does.

The reference of an operator is run once on tensors whose elements are numbers of forms. Operators
of ATen that move elements move the numbers; those that compute make forms and atoms. So every
operator is unrolled whose reference consists of the operators below, and none is named here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from mase_hw.errors import UnsupportedError
from mase_hw.unrolled.program import MOST_ENTRIES, Integers, Kind, Program

# Operators that move elements: they do to the numbers of forms what they do to codes.
_MOVING = """
view _unsafe_view reshape permute transpose t slice select expand squeeze unsqueeze clone alias
detach unbind split split_with_sizes cat stack flip roll repeat diagonal unfold lift_fresh
pixel_shuffle pixel_unshuffle reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d
"""
MOVES = frozenset(_MOVING.split())


class Lifted(Tensor):
    """A tensor whose elements are forms of a program.

    Args:
        numbers: int64 numbers of the forms.
        program: to which they belong.
        dtype: that the reference sees.
    """

    numbers: Tensor
    program: Program

    @staticmethod
    def __new__(cls, numbers: Tensor, program: Program, dtype: torch.dtype) -> Lifted:
        """Return a tensor without storage."""
        lifted: Lifted = torch.Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=dtype)
        lifted.numbers, lifted.program = numbers, program
        return lifted

    def __repr__(self) -> str:  # type: ignore[override]
        return f"Lifted({list(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Compute on the numbers of forms."""
        name, arguments = func.overloadpacket.__name__, dict(kwargs or {})
        given = [item for item in tree_leaves((args, arguments)) if isinstance(item, Lifted)]
        lifter = _Lifter(given[0].program)
        if name in MOVES:
            return lifter.moved(func, args, arguments)
        in_place = name.endswith("_") and not name.startswith("__")
        compute = getattr(lifter, f"on_{name.strip('_')}", None)
        if compute is None:
            return lifter.constant(func, args, arguments)
        result = compute(*args, **arguments)
        return lifter.into(args[0], result) if in_place else result


def tabulate(
    program: Program, reference: Callable[..., Tensor], operand: Tensor, result: Sequence[int]
) -> Tensor:
    """Return the numbers of the forms of an element-wise function, tabulated.

    Args:
        program: takes the forms.
        reference: of codes to codes, element by element.
        operand: int64 numbers of the forms of its operand.
        result: shape of the result.

    Raises:
        UnsupportedError: where the operand takes too many codes.
    """
    forms = operand.reshape(-1).tolist()
    low = min(program.range(form)[0] for form in forms)
    high = max(program.range(form)[1] for form in forms)
    if high - low >= MOST_ENTRIES:
        bits = MOST_ENTRIES.bit_length() - 1
        raise UnsupportedError(f"a table takes {MOST_ENTRIES} codes: give it {bits} bits or fewer")
    codes = torch.arange(low, high + 1)
    rows = codes.reshape(-1, *[1] * (operand.dim() - 1)).expand(-1, *operand.shape[1:])
    tables = reference(rows).reshape(len(codes), -1).t().numpy()
    if len(tables) != len(forms):
        raise UnsupportedError("its result has other elements than its operand")
    numbers = []
    for form, table in zip(forms, tables, strict=True):
        first = program.range(form)[0] - low
        numbers.append(program.table(form, partial(_words, table, first)))
    return torch.tensor(numbers).reshape(*result)


def _words(table: Integers, first: int, codes: Integers) -> Integers:
    """Return the words of a table for the codes in a row that begin at a place."""
    return table[first : first + len(codes)]


def lift(program: Program, reference: Callable[..., Tensor], operands: Sequence[Tensor]) -> Tensor:
    """Return the numbers of the forms of a result.

    Args:
        program: takes the forms.
        reference: of codes to codes.
        operands: int64 numbers of the forms of its operands, in their shapes.

    Raises:
        UnsupportedError: where the reference computes what has no logic here.
    """
    try:
        result = reference(*(Lifted(item, program, torch.int64) for item in operands))
    except (RuntimeError, TypeError, NotImplementedError) as error:
        # What decides by values, or writes into memory of its own, is no fixed program.
        raise UnsupportedError(f"its reference is no fixed program of integers: {error}") from None
    return _Lifter(program).numbers(result)


class _Lifter:
    """The operators of ATen on numbers of forms."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def numbers(self, value: object) -> Tensor:
        """Return the numbers of the forms of a lifted tensor, a tensor or a number."""
        if isinstance(value, Lifted):
            return value.numbers
        tensor = torch.as_tensor(value)
        whole = tensor.to(torch.int64)
        if tensor.is_floating_point() and not torch.equal(whole.to(tensor.dtype), tensor):
            raise UnsupportedError("its reference computes with fractions")
        unique, places = torch.unique(whole, return_inverse=True)
        forms = torch.tensor([self.program.form(int(item)) for item in unique], dtype=torch.int64)
        return forms[places].reshape(tensor.shape)

    def made(self, numbers: Tensor, dtype: torch.dtype = torch.int64) -> Lifted:
        """Return a lifted tensor."""
        return Lifted(numbers, self.program, dtype)

    def moved(self, func: Any, args: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """Move the numbers; tensors that are joined with them become numbers too."""
        lifted = [item for item in tree_leaves((args, arguments)) if isinstance(item, Lifted)]
        dtype = lifted[0].dtype
        joins = isinstance(args[0], list | tuple)

        def inner(item: Any) -> Any:
            return self.numbers(item) if isinstance(item, Tensor) else item

        first = tree_map(inner, args[0]) if joins else self.numbers(args[0])
        if func.overloadpacket.__name__ in ("view", "_unsafe_view"):
            return self.made(first.reshape(args[1]), dtype)
        result = func(first, *args[1:], **arguments)
        return tree_map(lambda item: self.made(item, dtype), result)

    def constant(self, func: Any, args: tuple[Any, ...], arguments: dict[str, Any]) -> Any:
        """Compute on numbers that are constant."""

        def codes(item: Any) -> Any:
            if not isinstance(item, Lifted):
                return item
            values = [self.program.value(form) for form in item.numbers.reshape(-1).tolist()]
            if None in values:
                name = func.overloadpacket.__name__
                raise UnsupportedError(f"its reference computes {name}, which has no logic")
            return torch.tensor(values, dtype=item.dtype).reshape(item.shape)

        return func(*tree_map(codes, args), **tree_map(codes, arguments))

    def each(
        self, function: Callable[..., int], *operands: object, dtype: torch.dtype = torch.int64
    ) -> Lifted:
        """Return a function of the forms at each place; operands broadcast."""
        tensors = torch.broadcast_tensors(*map(self.numbers, operands))  # type: ignore[no-untyped-call]
        known: dict[tuple[int, ...], int] = {}
        rows = zip(*(item.reshape(-1).tolist() for item in tensors), strict=True)
        results = []
        for row in rows:
            if row not in known:
                known[row] = function(*row)
            results.append(known[row])
        return self.made(torch.tensor(results, dtype=torch.int64).reshape(tensors[0].shape), dtype)

    # Tensors of numbers

    def on_to_copy(self, data: Lifted, dtype: torch.dtype | None = None, **_: object) -> Lifted:
        return self.made(data.numbers, dtype or data.dtype)

    def on_zeros_like(self, data: Tensor, dtype: torch.dtype | None = None, **_: object) -> Lifted:
        return self.made(self.numbers(torch.zeros(data.shape)), dtype or data.dtype)

    def on_full_like(self, data: Tensor, value: int, **_: object) -> Lifted:
        return self.made(self.numbers(torch.full(data.shape, value)), data.dtype)

    def on_constant_pad_nd(self, data: Lifted, padding: list[int], value: int = 0) -> Lifted:
        fill = self.program.form(int(value))
        return self.made(torch.constant_pad_nd(data.numbers, padding, fill), data.dtype)

    def on_copy(self, data: Tensor, source: Tensor, *_: object) -> Lifted:
        return self.into(data, self.made(self.numbers(source).expand(data.shape)))

    def into(self, data: Tensor, result: Lifted) -> Lifted:
        """Write a result in place."""
        if not isinstance(data, Lifted):
            raise UnsupportedError("its reference writes into a constant")
        data.numbers = result.numbers
        return data

    # Arithmetic

    def on_add(self, first: object, second: object, *, alpha: int = 1) -> Lifted:
        add, simpler = self.program.add, self.simpler
        return self.each(lambda a, b: simpler(add(a, b, alpha)), first, second)

    def on_sub(self, first: object, second: object, *, alpha: int = 1) -> Lifted:
        return self.on_add(first, second, alpha=-alpha)

    def on_rsub(self, first: object, second: object, *, alpha: int = 1) -> Lifted:
        return self.on_add(second, first, alpha=-alpha)

    def on_neg(self, data: object) -> Lifted:
        return self.each(lambda form: self.program.scale(form, -1), data)

    def on_mul(self, first: object, second: object) -> Lifted:
        return self.each(self.program.multiply, first, second)

    def on_abs(self, data: object) -> Lifted:
        return self.each(lambda form: self.larger(form, self.program.scale(form, -1)), data)

    def on_lshift(self, first: object, second: object) -> Lifted:
        return self.shifted(first, second, lambda form, by: self.program.scale(form, 1 << by))

    def on_rshift(self, first: object, second: object) -> Lifted:
        return self.shifted(first, second, self.program.floor)

    on_bitwise_left_shift, on_bitwise_right_shift = on_lshift, on_rshift

    def shifted(self, first: object, second: object, shift: Callable[[int, int], int]) -> Lifted:
        """Return forms shifted by constant distances."""

        def one(form: int, distance: int) -> int:
            by = self.program.value(distance)
            if by is None:
                raise UnsupportedError("its reference shifts by a distance that it computes")
            return shift(form, min(by, 63)) if by else form

        return self.each(one, first, second)

    def on_mm(self, first: Tensor, second: Tensor) -> Lifted:
        left, right = self.numbers(first), self.numbers(second)
        if not isinstance(second, Lifted):
            return self.made(self.product(right.t(), left.t()).t(), first.dtype)
        return self.made(self.product(left, right), first.dtype)

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Return a product of matrices, the first of constants if any is."""
        program, rows, columns = self.program, left.tolist(), right.t().tolist()
        results = []
        for row in rows:
            factors = [program.value(form) for form in row]
            fixed = all(factor is not None for factor in factors)
            for column in columns:
                if fixed:
                    results.append(program.weighted(column, factors))  # type: ignore[arg-type]
                else:
                    terms = [program.multiply(a, b) for a, b in zip(row, column, strict=True)]
                    results.append(program.weighted(terms, [1] * len(terms)))
        return torch.tensor(results, dtype=torch.int64).reshape(len(rows), len(columns))

    def on_bmm(self, first: Tensor, second: Tensor) -> Lifted:
        pairs = zip(first.unbind(0), second.unbind(0), strict=True)
        parts = [self.on_mm(left, right).numbers for left, right in pairs]
        return self.made(torch.stack(parts), first.dtype)

    def on_mv(self, first: Tensor, second: Tensor) -> Lifted:
        return self.made(self.on_mm(first, second.unsqueeze(1)).numbers[:, 0], first.dtype)

    def reduced(
        self,
        data: Lifted,
        dim: Any,
        keepdim: bool,
        function: Callable[[list[int]], int],
        dtype: torch.dtype = torch.int64,
    ) -> Lifted:
        """Return a function of the forms along dimensions, all of them for None."""
        rank = data.dim()
        dims = [dim] if isinstance(dim, int) else list(dim or range(rank))
        dims = sorted(item % max(1, rank) for item in dims)
        kept = [item for item in range(rank) if item not in dims]
        rows = data.numbers.permute(*kept, *dims).reshape(*(data.shape[item] for item in kept), -1)
        results = [function(row) for row in rows.reshape(-1, rows.shape[-1]).tolist()]
        numbers = torch.tensor(results, dtype=torch.int64).reshape(rows.shape[:-1])
        for item in dims if keepdim else ():
            numbers = numbers.unsqueeze(item)
        return self.made(numbers, dtype)

    def on_sum(self, data: Lifted, dim: Any = None, keepdim: bool = False, **_: object) -> Lifted:
        return self.reduced(
            data, dim, keepdim, lambda row: self.program.weighted(row, [1] * len(row))
        )

    def on_amax(self, data: Lifted, dim: Any = (), keepdim: bool = False) -> Lifted:
        return self.reduced(data, dim, keepdim, lambda row: self.tree(row, self.larger))

    def on_amin(self, data: Lifted, dim: Any = (), keepdim: bool = False) -> Lifted:
        return self.reduced(data, dim, keepdim, lambda row: self.tree(row, self.smaller))

    def on_any(self, data: Lifted, dim: Any = None, keepdim: bool = False) -> Lifted:
        join = self.gate(0b1110)
        return self.reduced(data, dim, keepdim, lambda row: self.tree(row, join), torch.bool)

    def on_all(self, data: Lifted, dim: Any = None, keepdim: bool = False) -> Lifted:
        join = self.gate(0b1000)
        return self.reduced(data, dim, keepdim, lambda row: self.tree(row, join), torch.bool)

    @staticmethod
    def tree(row: list[int], join: Callable[[int, int], int]) -> int:
        """Return an associative function of forms, as a balanced tree."""
        while len(row) > 1:
            pairs = [join(a, b) for a, b in zip(row[::2], row[1::2], strict=False)]
            row = pairs + row[len(row) & ~1 :]
        return row[0]

    def on_argmax(self, data: Lifted, dim: int | None = None, keepdim: bool = False) -> Lifted:
        def first_of_largest(row: list[int]) -> int:
            pairs = [(form, self.program.form(place)) for place, form in enumerate(row)]
            while len(pairs) > 1:
                joined = [
                    self.larger_pair(a, b) for a, b in zip(pairs[::2], pairs[1::2], strict=False)
                ]
                pairs = joined + pairs[len(pairs) & ~1 :]
            return pairs[0][1]

        return self.reduced(data, dim, keepdim, first_of_largest)

    def larger_pair(self, first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
        """Return the larger form and its place; of equals the first."""
        wins = self.at_least(first[0], second[0])
        value, place = (self.program.choose(wins, a, b) for a, b in zip(first, second, strict=True))
        return value, place

    # Order

    def at_least(self, first: int, second: int) -> int:
        """Return 1 where a form is at least another."""
        return self.program.positive(self.simpler(self.program.add(first, second, -1)))

    def larger(self, first: int, second: int) -> int:
        """Return the larger of two forms."""
        value = self.program.value(second)
        if value is not None:
            return self.program.clamp(first, value, max(value, self.program.range(first)[1]))
        if self.program.value(first) is not None:
            return self.larger(second, first)
        return self.program.choose(self.at_least(first, second), first, second)

    def smaller(self, first: int, second: int) -> int:
        """Return the smaller of two forms."""
        value = self.program.value(second)
        if value is not None:
            return self.program.clamp(first, min(value, self.program.range(first)[0]), value)
        if self.program.value(first) is not None:
            return self.smaller(second, first)
        return self.program.choose(self.at_least(first, second), second, first)

    def on_maximum(self, first: object, second: object) -> Lifted:
        return self.each(self.larger, first, second)

    def on_minimum(self, first: object, second: object) -> Lifted:
        return self.each(self.smaller, first, second)

    def on_clamp(self, data: Any, min: Any = None, max: Any = None) -> Lifted:
        result = data if min is None else self.on_maximum(data, min)
        return result if max is None else self.on_minimum(result, max)

    def on_clamp_min(self, data: object, bound: object) -> Lifted:
        return self.on_maximum(data, bound)

    def on_clamp_max(self, data: object, bound: object) -> Lifted:
        return self.on_minimum(data, bound)

    def on_relu(self, data: object) -> Lifted:
        return self.on_maximum(data, 0)

    def on_ge(self, first: object, second: object) -> Lifted:
        return self.each(self.at_least, first, second, dtype=torch.bool)

    def on_le(self, first: object, second: object) -> Lifted:
        return self.on_ge(second, first)

    def on_lt(self, first: object, second: object) -> Lifted:
        return self.on_logical_not(self.on_ge(first, second))

    def on_gt(self, first: object, second: object) -> Lifted:
        one = self.program.form(-1)
        return self.each(
            lambda a, b: self.at_least(self.program.add(a, one), b),
            first,
            second,
            dtype=torch.bool,
        )

    def on_eq(self, first: object, second: object) -> Lifted:
        return self.each(
            lambda a, b: self.program.zero(self.simpler(self.program.add(a, b, -1))),
            first,
            second,
            dtype=torch.bool,
        )

    def on_ne(self, first: object, second: object) -> Lifted:
        return self.on_logical_not(self.on_eq(first, second))

    def on_sign(self, data: object) -> Lifted:
        def sign(form: int) -> int:
            above = self.program.positive(self.program.add(form, self.program.form(-1)))
            bits = self.program.weighted((above, self.program.positive(form)), (1, 1), -1)
            return bits

        return self.each(sign, data)

    # Bits and choices

    def on_where(self, condition: object, first: object, second: object) -> Lifted:
        return self.each(self.program.choose, condition, first, second)

    def on_masked_fill(self, data: object, mask: object, value: object) -> Lifted:
        return self.on_where(mask, value, data)

    def gate(self, truth: int) -> Callable[[int, int], int]:
        """Return a function of two bits."""
        return lambda first, second: self.program.logic(first, second, truth)

    def bitwise(self, first: object, second: object, truth: int) -> Lifted:
        """Return a function of the bits of two numbers; one is constant, or both are bits."""
        program = self.program

        def one(a: int, b: int) -> int:
            if all(program.range(form) in ((0, 1), (0, 0), (1, 1)) for form in (a, b)):
                return program.logic(a, b, truth)
            for form, other in ((a, b), (b, a)):
                mask = program.value(other)
                if truth == 0b1000 and mask is not None and mask >= 0 and not mask & (mask + 1):
                    return program.low_bits(form, mask.bit_length())
                if mask is not None:
                    return program.table(form, partial(_BITWISE[truth], mask))
                whole = program.forms[form]
                factors = [whole.constant, *(factor for _, factor in whole.terms)]
                is_bit = truth == 0b1110 and program.range(other) == (0, 1)
                if is_bit and not any(factor & 1 for factor in factors):
                    # What ends with a zero takes a bit as its last.
                    return program.add(form, other)
            raise UnsupportedError("its reference joins the bits of two computed numbers")

        both_bool = all(getattr(item, "dtype", None) == torch.bool for item in (first, second))
        return self.each(one, first, second, dtype=torch.bool if both_bool else torch.int64)

    def on_bitwise_and(self, first: object, second: object) -> Lifted:
        return self.bitwise(first, second, 0b1000)

    def on_bitwise_or(self, first: object, second: object) -> Lifted:
        return self.bitwise(first, second, 0b1110)

    def on_bitwise_xor(self, first: object, second: object) -> Lifted:
        return self.bitwise(first, second, 0b0110)

    on_and, on_or, on_xor = on_bitwise_and, on_bitwise_or, on_bitwise_xor
    on_logical_and, on_logical_or, on_logical_xor = on_and, on_or, on_xor

    def on_logical_not(self, data: object) -> Lifted:
        program = self.program
        return self.each(
            lambda form: program.add(program.form(1), form, -1), data, dtype=torch.bool
        )

    def on_bitwise_not(self, data: Any) -> Lifted:
        if data.dtype == torch.bool:
            return self.on_logical_not(data)
        return self.each(lambda form: self.program.add(self.program.form(-1), form, -1), data)

    # Tables

    def on_index(self, data: Tensor, indices: Sequence[Tensor | None]) -> Lifted:
        lifted = [item for item in indices if isinstance(item, Lifted)]
        if not lifted:
            return self.made(self.numbers(data)[tuple(_all(indices))], data.dtype)
        if len(indices) != 1 or data.dim() != 1:
            raise UnsupportedError("its reference reads a table of several dimensions")
        return self.looked_up(self.numbers(data), lifted[0])

    def on_gather(self, data: Tensor, dim: int, index: Tensor) -> Lifted:
        if not isinstance(index, Lifted):
            return self.made(self.numbers(data).gather(dim, index), data.dtype)
        if data.dim() != 1:
            raise UnsupportedError("its reference reads a table of several dimensions")
        return self.looked_up(self.numbers(data), index)

    def on_take(self, data: Tensor, index: Lifted) -> Lifted:
        return self.looked_up(self.numbers(data).reshape(-1), index)

    def on_index_select(self, data: Tensor, dim: int, index: Tensor) -> Lifted:
        if not isinstance(index, Lifted):
            return self.made(self.numbers(data).index_select(dim, index), data.dtype)
        return self.on_index(data, [index])

    def on_bucketize(
        self, data: Lifted, bounds: Tensor, *, right: bool = False, **_: Any
    ) -> Lifted:
        return self.each(
            lambda form: self.program.table(
                form,
                lambda codes: torch.bucketize(torch.from_numpy(codes), bounds, right=right).numpy(),
            ),
            data,
        )

    def looked_up(self, words: Tensor, index: Lifted) -> Lifted:
        """Return constant words at computed places."""
        values = [self.program.value(form) for form in words.tolist()]
        if any(value is None for value in values):
            raise UnsupportedError("its reference reads computed numbers at computed places")
        table = torch.tensor(values)

        def one(form: int) -> int:
            low, high = self.program.range(form)
            if high - low >= len(table) or low < -len(table):
                raise UnsupportedError("its reference reads beyond a table")
            return self.program.table(form, lambda codes: table[torch.from_numpy(codes)].numpy())

        return self.each(one, index)

    def on_div(self, data: object, divisor: object, *, rounding_mode: str | None = None) -> Lifted:
        def one(form: int, by: int) -> int:
            number = self.program.value(by)
            if number is None or number < 1 or rounding_mode != "floor":
                raise UnsupportedError("its reference divides by a computed number")
            return self.program.quotient(form, number)

        return self.each(one, data, divisor)

    def on_floor_divide(self, data: object, divisor: object) -> Lifted:
        return self.on_div(data, divisor, rounding_mode="floor")

    def simpler(self, form: int) -> int:
        """Return a form in which the words of a rounding are one atom."""
        program = self.program
        whole = program.forms[form]
        for atom, factor in whole.terms:
            kind = program.atoms[atom].kind
            if kind is Kind.FLOOR:
                (inside,), (shift,) = program.atoms[atom].forms, program.atoms[atom].values
                if factor == -(1 << shift):
                    floor = program.form(0, ((atom, 1),))
                    if program.add(form, floor, 1 << shift) == inside:
                        return program.low_bits(inside, shift)
            elif kind is Kind.POSITIVE:
                for other, weight in whole.terms:
                    if weight == factor and program.atoms[other].kind is Kind.FLOOR:
                        rounded = self.rounded(other, program.atoms[atom].forms[0])
                        if rounded is not None:
                            parts = program.form(0, tuple(sorted(((other, 1), (atom, 1)))))
                            rest = program.add(form, parts, -factor)
                            return program.add(rest, rounded, factor)
        return form

    def rounded(self, floor: int, carry: int) -> int | None:
        """Return a floor and its carry as one form; None where the carry is none of its own."""
        program = self.program
        (inside,), (shift,) = program.atoms[floor].forms, program.atoms[floor].values
        half = 1 << shift >> 1
        low = program.low_bits(inside, shift)
        if carry == program.add(low, program.form(-half)):
            return program.floor(program.add(inside, program.form(half)), shift)
        last = program.low_bits(program.form(0, ((floor, 1),)), 1)
        if carry == program.add(program.add(low, last), program.form(-half - 1)):
            return program.atom(Kind.EVEN, (inside,), shift)
        return None


_BITWISE: Mapping[int, Callable[[int, Any], Any]] = {
    0b1000: lambda mask, codes: codes & mask,
    0b1110: lambda mask, codes: codes | mask,
    0b0110: lambda mask, codes: codes ^ mask,
}


def _all(indices: Sequence[Tensor | None]) -> list[Any]:
    return [slice(None) if item is None else item for item in indices]
