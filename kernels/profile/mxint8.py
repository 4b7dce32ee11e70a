"""What MXINT8 saves: speed, error and memory of a converted model, every byte accounted for.

A weight in float32 takes 32 bits, in MXINT8 with blocks of 32 it takes 8 + 8/32: the weight itself
shrinks by 74.2 % (86.7 % at four bits). A model shrinks by less, and the table says why, term by
term: embeddings that stay, norms, biases, buffers, rounding by the allocator.
"""

from __future__ import annotations

import copy
import ctypes
import ctypes.util
import gc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from mase_hw.kernels.mxint import (
    DEFAULT_BLOCK,
    MXInt8Embedding,
    MXInt8Linear,
    convert_to_mxint8,
    selected,
)
from mase_hw.kernels.profile._measure import check_device, interleaved, peak_memory_bytes
from mase_hw.kernels.profile._models import Subject, load_subject
from mase_hw.kernels.profile._report import Report, Table, mebibytes, new_figure, setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCH_SIZES = (1, 4, 16)
ROUNDING = "allocator: rounding"
BOOKKEEPING = "allocator: bookkeeping of tensors"
TOTAL = "total, measured"
SPEED_COLUMNS = (
    "batch",
    "tokens",
    "float_ms",
    "float_spread_ms",
    "mxint8_ms",
    "mxint8_spread_ms",
    "speedup",
    "float_activations_mib",
    "mxint8_activations_mib",
)
MEMORY_COLUMNS = ("term", "float_bytes", "mxint8_bytes", "saved_bytes", "saved_share_of_float")
ERROR_COLUMNS = ("output", "relative_error", "largest_error", "top_1_agreement")


def profile_mxint8(
    model: str,
    device: str = "cpu",
    batch_sizes: Sequence[int] = BATCH_SIZES,
    length: int = 64,
    embeddings: bool = True,
    quantize_values: bool = False,
    rounds: int = 7,
) -> Report:
    """Measure `model` in float32 against itself converted by `convert_to_mxint8`.

    Args:
        model: see `load_subject`.
        device: `cpu` or `cuda`.
        batch_sizes: batches to time.
        length: tokens per sequence for language models.
        embeddings: also convert embeddings.
        quantize_values: W8A8 rather than weight-only.
        rounds: measurements per figure.

    Raises:
        ConfigError: for an unknown device.
        DataError: when the model cannot be loaded.
    """
    target = check_device(device)
    subject = load_subject(model, target, length)
    converted = convert_to_mxint8(
        copy.deepcopy(subject.module), embeddings=embeddings, quantize_values=quantize_values
    )
    batch = max(batch_sizes)
    error = output_error(subject.call(batch)(), subject.call(batch, converted)())
    speed = [
        _speed(subject, converted, target, batch, tokens, rounds)
        for tokens in dict.fromkeys((min(1, subject.length), subject.length))
        for batch in batch_sizes
    ]
    terms = memory_terms(subject.module, converted, target)
    tables = (
        Table("mxint8_speed", f"{model}: float32 against MXINT8 on {device}", SPEED_COLUMNS, speed),
        Table(
            "mxint8_memory", f"{model}: where the bytes of the weights are", MEMORY_COLUMNS, terms
        ),
        Table("mxint8_error", f"{model}: error of the output", ERROR_COLUMNS, [astuple(error)]),
    )
    operation = "linear_both" if quantize_values else "linear"
    notes = (
        "one token is bound by reading the weights, which MXINT8 shrinks; many tokens are bound by "
        "the matrix product, before which the weights are decoded anew at every call",
        f"linear layers ran on the implementation {selected(operation, target).name!r}",
        *_saving_notes(terms),
    )
    command = f"mase-hw profile mxint8 {model} --device {device}"
    return Report(
        "mxint8",
        tables,
        notes,
        lambda: _draw(tables[0], tables[1], model),
        setting(command, target),
    )


@dataclass(frozen=True)
class OutputError:
    """How far the converted model's output is from the float model's.

    Attributes:
        shape: of the output.
        relative: norm of the difference over norm of the float output.
        largest: largest absolute difference.
        agreement: share of positions with the same largest entry.
    """

    shape: str
    relative: float
    largest: float
    agreement: float


def output_error(expected: Tensor, actual: Tensor) -> OutputError:
    """Compare the outputs of the float model and of the converted one."""
    difference = actual.double() - expected.double()
    agreement = (expected.argmax(-1) == actual.argmax(-1)).double().mean()
    return OutputError(
        "x".join(str(size) for size in expected.shape),
        float(difference.norm() / expected.double().norm()),
        float(difference.abs().max()),
        float(agreement),
    )


def memory_terms(
    module: nn.Module, converted: nn.Module, device: torch.device
) -> list[tuple[str, int, int, int, float]]:
    """Return the bytes of both models term by term; the terms add up to the measured totals.

    Measured: what the heap (CPU) or the caching allocator (CUDA) grows by when every tensor of
    the model is cloned.
    """
    before, after = _bytes_by_term(module, device), _bytes_by_term(converted, device)
    names = [name for name in before if name != TOTAL]
    names += [name for name in after if name not in before]
    order = [name for name in names if name not in (ROUNDING, BOOKKEEPING)]
    rows = []
    whole = before[TOTAL]
    for name in (*order, ROUNDING, BOOKKEEPING, TOTAL):
        old, new = before.get(name, 0), after.get(name, 0)
        rows.append((name, old, new, old - new, (old - new) / whole))
    return rows


def weight_bytes(module: nn.Module) -> int:
    """Return the bytes of all parameters and buffers, shared memory counted once."""
    return sum(tensor.untyped_storage().nbytes() for _, tensor in _tensors(module))


def _bytes_by_term(module: nn.Module, device: torch.device) -> dict[str, int]:
    terms: dict[str, int] = {}
    owners = list(_tensors(module))
    for term, tensor in owners:
        terms[term] = terms.get(term, 0) + tensor.untyped_storage().nbytes()
    total, rounding = _measured_clone([tensor for _, tensor in owners], device)
    terms[ROUNDING] = rounding
    terms[BOOKKEEPING] = total - sum(terms.values())
    terms[TOTAL] = total
    return terms


def _tensors(module: nn.Module) -> Iterable[tuple[str, Tensor]]:
    """Yield every distinct tensor of `module` with the term that it belongs to."""
    seen: set[int] = set()
    for owner in module.modules():
        own = [*owner.named_parameters(recurse=False), *owner.named_buffers(recurse=False)]
        for name, tensor in own:
            address = tensor.untyped_storage().data_ptr()
            if tensor.numel() and address not in seen:
                seen.add(address)
                yield _term(owner, name), tensor


def _term(owner: nn.Module, name: str) -> str:
    if isinstance(owner, MXInt8Linear | nn.Linear) and name in ("weight", "codes", "exponents"):
        return "linear: exponents" if name == "exponents" else "linear: weights or codes"
    if isinstance(owner, MXInt8Embedding | nn.Embedding):
        return "embeddings: exponents" if name == "exponents" else "embeddings: weights or codes"
    if name == "bias" and isinstance(owner, MXInt8Linear | nn.Linear):
        return "biases of linear layers"
    if "norm" in type(owner).__name__.lower():
        return "norms"
    return "other buffers" if name in owner._buffers else "other parameters"


def _measured_clone(tensors: Sequence[Tensor], device: torch.device) -> tuple[int, int]:
    """Clone `tensors`; return the growth of allocated memory, and what rounding adds to it."""
    requested = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
    clones: list[Tensor | None] = [None] * len(tensors)
    gc.collect()
    before = _allocated(device)
    for index, tensor in enumerate(tensors):
        clones[index] = tensor.detach().clone()
    total = _allocated(device) - before
    if device.type == "cuda":
        return total, total - requested
    usable = sum(_usable_size(clone.data_ptr()) for clone in clones if clone is not None)
    return total, usable - requested


def _allocated(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.memory_allocated(device))
    return _heap_in_use()


class _MallInfo2(ctypes.Structure):
    """`struct mallinfo2` of glibc, malloc.h."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _heap_in_use() -> int:
    """Return bytes in use on the heap, memory mapped for large blocks included."""
    function = _libc().mallinfo2
    function.restype = _MallInfo2
    info = function()
    return int(info.uordblks + info.hblkhd)


def _usable_size(address: int) -> int:
    function: Any = _libc().malloc_usable_size
    function.restype = ctypes.c_size_t
    return int(function(ctypes.c_void_p(address)))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(ctypes.util.find_library("c"))


def _speed(
    subject: Subject,
    converted: nn.Module,
    device: torch.device,
    batch: int,
    tokens: int,
    rounds: int,
) -> tuple[float, ...]:
    calls: dict[str, Callable[[], Tensor]] = {
        "float": subject.call(batch, length=tokens),
        "mxint8": subject.call(batch, converted, tokens),
    }
    times = interleaved(calls, rounds)
    peaks = [mebibytes(peak_memory_bytes(call, device)) for call in calls.values()]
    return (
        batch,
        tokens,
        times["float"].median_s * 1e3,
        times["float"].spread_s * 1e3,
        times["mxint8"].median_s * 1e3,
        times["mxint8"].spread_s * 1e3,
        times["float"].median_s / times["mxint8"].median_s,
        *peaks,
    )


def _saving_notes(terms: Sequence[tuple[str, int, int, int, float]]) -> tuple[str, ...]:
    by_name = {row[0]: row for row in terms}
    total = by_name[TOTAL]
    ideal = 1 - (8 + 8 / DEFAULT_BLOCK) / 32
    weights = sum(row[1] for name, row in by_name.items() if name.endswith("weights or codes"))
    converted = sum(
        row[1] for name, row in by_name.items() if name.endswith("codes") and row[1] != row[2]
    )
    return (
        f"a converted weight shrinks by {ideal:.1%}; the model by {total[4]:.1%} "
        f"({total[1]:,} to {total[2]:,} bytes measured, {total[2] / total[1]:.4f} x)",
        f"of the float model {weights / total[1]:.1%} is weights of linear layers and embeddings, "
        f"{converted / total[1]:.1%} was converted: {converted / total[1]:.1%} x {ideal:.1%} = "
        f"{converted / total[1] * ideal:.1%}",
    )


def _draw(speed: Table, memory: Table, model: str) -> Figure:
    figure, (left, right) = new_figure(2)
    labels = [f"{row[0]}x{row[1]}" if row[1] else str(row[0]) for row in speed.rows]
    left.axhline(1, color="black", linewidth=0.8)
    left.bar(labels, speed.column("speedup"), color="tab:blue")
    for index, speedup in enumerate(speed.column("speedup")):
        left.annotate(f"{speedup:.2f} x", (index, speedup), ha="center", va="bottom")
    left.set(xlabel="batch x tokens", ylabel="speed, float32 = 1", title=model)
    bottoms = [0.0, 0.0]
    for row in memory.rows[:-1]:
        heights = [mebibytes(float(row[1] or 0)), mebibytes(float(row[2] or 0))]
        right.bar(["float32", "MXINT8"], heights, bottom=bottoms, width=0.6, label=str(row[0]))
        bottoms = [low + height for low, height in zip(bottoms, heights, strict=True)]
    right.set(ylabel="memory of the weights, MiB", title="where the bytes are", xlim=(-0.5, 3.2))
    right.legend(frameon=False, fontsize=8, loc="center right")
    return figure
