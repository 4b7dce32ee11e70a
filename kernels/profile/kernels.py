"""The figures that the kernels promise, measured, each after its correctness check.

    for row in rows():
        print(row.what, row.measured, row.bar, row.met)

`mase-hw profile kernels` prints them. A figure that this machine cannot measure (no GPU, weights
that cannot be fetched) is a row whose `measured` says so and whose `met` is None. Figures are
ratios of medians taken in turn in one run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

import torch
from torch import Tensor

from mase_hw.errors import DataError
from mase_hw.kernels.mxint import DEFAULT_BLOCK, convert_to_mxint8, cpu, cuda, triton, vectorized
from mase_hw.kernels.mxint.reference import dequantize as dequantize_reference
from mase_hw.kernels.profile._measure import Timing, interleaved
from mase_hw.kernels.profile._report import Report, Row, Table, setting

ELEMENTS, QUICK_ELEMENTS = 64 << 20, 4 << 20
ROUNDS, QUICK_ROUNDS = 11, 3
GPU_BYTES = 1 << 30
GPU_ELEMENTS = (64 << 20, 512 << 20)
LAYERS = ((4096, 4096), (14336, 4096), (4096, 14336), (8192, 8192), (28672, 8192))
CPU_LAYER = (2048, 2048)
# Over torch's INT8, by rows of values.
CPU_BARS = {1: 1.43, 4: 1.11, 16: 0.91, 64: 0.91}
DECODE_BATCHES = (1, 4, 8, 16)
PREFILL_BATCHES = (1024, 4096)
LAYERS_IN_TURN = 8
DEQUANTIZE_BAR = 0.9
# Of device copy bandwidth, for one row of values and for more.
SINGLE_BAR, FEW_BAR = 0.9, 0.8
# Against bfloat16 F.linear, for few and for many rows.
DECODE_BAR, PREFILL_BAR = 1.75, 0.9
MODELS = ("minilm", "smollm2-135m")
MODEL_BAR = 0.27


def profile_kernels(*, quick: bool = False) -> Report:
    """Measure the kernels of this machine's CPU and GPU; some minutes, or less when `quick`.

    Args:
        quick: fewer elements and rounds, and no converted models.
    """
    columns = ("what", "measured", "bar", "met")
    cells = [(row.what, row.measured, row.bar, row.verdict) for row in rows(quick=quick)]
    table = Table("kernels", "MXINT8 kernels: ratios of medians, taken in turn", columns, cells)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    command = "mase-hw profile kernels" + " --quick" * quick
    return Report("kernels", (table,), (), setting=setting(command, device))


def rows(*, quick: bool = False) -> Iterator[Row]:
    """Yield the figures one by one; for `quick` see `profile_kernels`."""
    elements, rounds = (QUICK_ELEMENTS, QUICK_ROUNDS) if quick else (ELEMENTS, ROUNDS)
    for threads in _thread_counts():
        with _threads(threads):
            yield from _cpu_rows(elements, rounds, threads)
    yield from _cpu_linear(rounds)
    yield from _gpu_rows(rounds)
    for model in () if quick else MODELS:
        yield from _model_rows(model)


def _cpu_rows(elements: int, rounds: int, threads: int) -> Iterator[Row]:
    where = f"CPU dequantize to float32, {elements >> 20} Mi elements, {threads} threads"
    reason = cpu.unavailable()
    if reason:
        yield Row(where, f"unmeasured: {reason}", ">= 80 % of memset", None)
        return
    codes, exponents = _random_codes(elements)
    out, source = torch.empty(elements), torch.randn(elements)
    torch._dynamo.reset()
    compiled = torch.compile(vectorized.dequantize)
    arguments = (codes, exponents, DEFAULT_BLOCK, torch.float32)
    expected = vectorized.dequantize(*arguments)
    _require_equal(cpu.dequantize(*arguments, out=out), expected)
    _require_equal(compiled(*arguments), expected)
    _require_equal(
        expected[: 1 << 16],
        dequantize_reference(
            codes[: 1 << 16], exponents[: (1 << 16) // DEFAULT_BLOCK], DEFAULT_BLOCK, torch.float32
        ),
    )
    del expected
    times = interleaved(
        {
            "kernel into existing memory": lambda: cpu.dequantize(*arguments, out=out),
            "memset": lambda: ctypes.memset(out.data_ptr(), 1, out.nbytes),
            "fill": lambda: out.fill_(1.0),
            "kernel": lambda: cpu.dequantize(*arguments),
            "clone": lambda: source.clone(),
            "vectorized": lambda: vectorized.dequantize(*arguments),
            "compiled": lambda: compiled(*arguments),
        },
        rounds,
    )
    existing, fresh = times["kernel into existing memory"], times["kernel"]
    written = min(times["memset"], times["fill"], key=lambda time: time.median_s)
    yield _ratio_row(f"{where}, against memset of the output", written, existing, 0.8)
    yield _ratio_row(f"{where}, against clone of the output", times["clone"], fresh, 0.8)
    yield _ratio_row(f"{where}, against vectorized torch", times["vectorized"], fresh, 2.0)
    yield _ratio_row(f"{where}, against torch.compile of that", times["compiled"], fresh, 1.1)


def _cpu_linear(rounds: int) -> Iterator[Row]:
    """Compare linear layers with torch's of INT8 weights and bfloat16 values, on one thread."""
    if cpu.unavailable():
        return
    dense = torch.randn(CPU_LAYER)
    codes, exponents = cpu.quantize(dense, DEFAULT_BLOCK)
    largest = dense.abs().amax(1) / 127
    whole, scales = (dense / largest[:, None]).round().to(torch.int8), largest.bfloat16()
    exact = cpu.dequantize(codes, exponents, DEFAULT_BLOCK, torch.float32).double()
    with _threads(1):
        for batch, bar in CPU_BARS.items():
            values = torch.randn(batch, CPU_LAYER[1]).bfloat16()
            theirs = _bind(torch._weight_int8pack_mm, values, whole, scales)
            calls = {"torch": theirs}
            for dtype, error in ((torch.float32, 1e-4), (torch.bfloat16, 1e-2)):
                typed = values.to(dtype)
                calls[str(dtype)] = _bind(cpu.linear, typed, codes, exponents, None, DEFAULT_BLOCK)
                result, expected = calls[str(dtype)]().double(), values.double() @ exact.T
                torch.testing.assert_close(result, expected, rtol=error, atol=10 * error)
            times = interleaved(calls, rounds)
            for name in (item for item in calls if item != "torch"):
                what = f"CPU linear, {batch} x {CPU_LAYER[1]} x {CPU_LAYER[0]}, {name}, 1 thread"
                against = f"{what}, against torch's INT8"
                yield _ratio_row(against, times["torch"], times[name], bar)


def _gpu_rows(rounds: int) -> Iterator[Row]:
    if not torch.cuda.is_available():
        for what, bar in (
            ("GPU dequantize to bfloat16, of device copy bandwidth", ">= 90 %"),
            ("GPU W8A16 linear, batch 1 to 16, against bfloat16 F.linear", ">= 1.75 x"),
            ("GPU W8A16 linear, batch 1, of device copy bandwidth", ">= 90 %"),
            ("GPU W8A16 linear, batch 2 to 16, of device copy bandwidth", ">= 80 %"),
            ("GPU W8A16 linear, batch >= 1024, against bfloat16 F.linear", ">= 0.9 x"),
        ):
            yield Row(what, "unmeasured: no CUDA device", bar, None)
        return
    bandwidth = _copy_bandwidth(rounds)
    yield Row("GPU copy of 1 GiB, read and written", f"{bandwidth / 1e9:,.0f} GB/s")
    for elements in GPU_ELEMENTS:
        yield from _gpu_dequantize(elements, bandwidth, rounds)
    for module in (cuda, triton):
        for shape in LAYERS:
            for batch in DECODE_BATCHES:
                yield from _gpu_linear(module, shape, batch, DECODE_BAR, bandwidth, rounds)
            for batch in PREFILL_BATCHES:
                yield from _gpu_linear(module, shape, batch, PREFILL_BAR, None, rounds)


def _gpu_dequantize(elements: int, bandwidth: float, rounds: int) -> Iterator[Row]:
    codes, exponents = (each.cuda() for each in _random_codes(elements))
    moved = codes.nbytes + exponents.nbytes + 2 * elements
    sample = slice(0, 1 << 20)
    for module in (cuda, triton):
        name = module.__name__.rsplit(".", 1)[-1]
        size = f"{elements >> 20} Mi elements"
        what = f"GPU dequantize to bfloat16, {size}, {name}, of device copy bandwidth"
        reason = module.unavailable()
        if reason:
            yield Row(what, f"unmeasured: {reason}", f">= {DEQUANTIZE_BAR:.0%}", None)
            continue
        run = _bind(module.dequantize, codes, exponents, DEFAULT_BLOCK, torch.bfloat16)
        _require_equal(
            run()[sample].cpu(),
            dequantize_reference(
                codes[sample].cpu(),
                exponents[: (1 << 20) // DEFAULT_BLOCK].cpu(),
                DEFAULT_BLOCK,
                torch.bfloat16,
            ),
        )
        yield _share_row(
            what, moved, interleaved({"run": run}, rounds)["run"], bandwidth, DEQUANTIZE_BAR
        )


def _gpu_linear(
    module: ModuleType,
    shape: tuple[int, int],
    batch: int,
    bar: float,
    bandwidth: float | None,
    rounds: int,
    device: str = "cuda",
) -> Iterator[Row]:
    outputs, inputs = shape
    name = module.__name__.rsplit(".", 1)[-1]
    what = f"GPU W8A16 linear, {batch} x {inputs} x {outputs}, {name}"
    reason = module.unavailable()
    if reason:
        yield Row(what, f"unmeasured: {reason}", f">= {bar} x bfloat16 F.linear", None)
        return
    codes, exponents = module.quantize(torch.randn(outputs, inputs, device=device), DEFAULT_BLOCK)
    values = torch.randn(batch, inputs, device=device, dtype=torch.bfloat16)
    dense = vectorized.dequantize(codes, exponents, DEFAULT_BLOCK, torch.bfloat16)
    exact = values.double() @ dense.double().T
    result = module.linear(values, codes, exponents, None, DEFAULT_BLOCK)
    error = float((result.double() - exact).norm() / exact.norm())
    if not error < 1e-2:
        raise ArithmeticError(f"{what}: relative error {error}")
    # A model's layers take turns: no weight is in the cache from the call before.
    copies = max(LAYERS_IN_TURN, 1 + 2 * _cache_bytes(device) // codes.nbytes)
    weights = [(codes.clone(), exponents.clone()) for _ in range(copies)]
    denses = [dense.clone() for _ in range(copies)]
    fused = [_bind(module.linear, values, *each, None, DEFAULT_BLOCK) for each in weights]
    plain = [_bind(torch.nn.functional.linear, values, each) for each in denses]
    times = interleaved(
        {"fused": _one_after_another(fused, device), "torch": _one_after_another(plain, device)},
        rounds,
    )
    yield _ratio_row(f"{what}, against bfloat16 F.linear", times["torch"], times["fused"], bar)
    if bandwidth is not None:
        moved = codes.nbytes + exponents.nbytes + values.nbytes + 2 * batch * outputs
        least = SINGLE_BAR if batch == 1 else FEW_BAR
        what = f"{what}, of device copy bandwidth"
        yield _share_row(what, copies * moved, times["fused"], bandwidth, least)


def _one_after_another(calls: Sequence[Callable[[], Tensor]], device: str) -> Callable[[], object]:
    """Return one call that makes all `calls`; on a GPU without Python's time between them."""
    if torch.device(device).type != "cuda":
        return lambda: [call() for call in calls]
    calls[0]()  # builds the kernel, which a capture cannot
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph.replay


def _cache_bytes(device: str) -> int:
    if torch.device(device).type != "cuda":
        return 0
    return int(torch.cuda.get_device_properties(device).L2_cache_size)


def _model_rows(name: str) -> Iterator[Row]:
    from mase_hw.kernels.profile._models import load_subject
    from mase_hw.kernels.profile.mxint8 import output_error, weight_bytes

    what = f"converted {name}: weight memory against float32, whole model"
    try:
        subject = load_subject(name, torch.device("cpu"))
    except DataError as error:
        yield Row(what, f"unmeasured: {error}", f"<= {MODEL_BAR} x", None)
        return
    before = weight_bytes(subject.module)
    expected = subject.call(4)()
    converted = convert_to_mxint8(subject.module)
    ratio = weight_bytes(converted) / before
    yield Row(what, f"{ratio:.4f} x", f"<= {MODEL_BAR} x", ratio <= MODEL_BAR)
    outcome = output_error(expected, subject.call(4, converted)())
    yield Row(
        f"converted {name}: output against float",
        f"relative error {outcome.relative:.4f}, largest {outcome.largest:.4f}, "
        f"top-1 agreement {outcome.agreement:.1%}",
        "stated",
        True,
    )


def _ratio_row(what: str, baseline: Timing, ours: Timing, bar: float) -> Row:
    ratio = baseline.median_s / ours.median_s
    figure = f"{ratio:.2f} x ({ours.median_s * 1e3:.2f} ms, spread {ours.spread_s * 1e3:.2f})"
    return Row(what, figure, f">= {bar} x", ratio >= bar)


def _share_row(what: str, moved: int, time: Timing, bandwidth: float, bar: float) -> Row:
    """Return the row of a call that moves `moved` bytes, as a share of `bandwidth`."""
    share = moved / time.median_s / bandwidth
    spread = share * time.spread_s / time.median_s
    return Row(what, f"{share:.1%} (spread {spread:.1%})", f">= {bar:.0%}", share >= bar)


def _random_codes(elements: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(-127, 128, (elements,), dtype=torch.int8, generator=generator)
    size = (elements // DEFAULT_BLOCK,)
    return codes, torch.randint(100, 150, size, dtype=torch.uint8, generator=generator)


def _copy_bandwidth(rounds: int) -> float:
    """Return bytes per second, read plus written, of a large copy on the device."""
    source = torch.empty(GPU_BYTES, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    time = interleaved({"copy": lambda: target.copy_(source)}, rounds)["copy"]
    return 2 * GPU_BYTES / time.median_s


def _bind(function: Callable[..., Tensor], *arguments: object) -> Callable[[], Tensor]:
    return lambda: function(*arguments)


def _require_equal(actual: Tensor, expected: Tensor) -> None:
    if not torch.equal(actual, expected):
        raise ArithmeticError("a kernel differs from the reference; no figure is reported")


def _thread_counts() -> Sequence[int]:
    most = torch.get_num_threads()
    return sorted({1, most})


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
