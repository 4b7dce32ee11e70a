"""Random quantised files against double precision: every code is theirs, or they are refused.

The package onnx evaluates a file in double precision, ONNX Runtime in single. Codes are compared
where no number lies next to a tie: what is approximated is rounded from steps that are 2**8 times
finer. What the package onnx computes is compared with ONNX Runtime as well.
"""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from contextlib import redirect_stdout, suppress
from io import StringIO

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import mase_hw
from mase_hw.emit.flow import lowered, quantize
from mase_hw.errors import MaseError
from mase_hw.graph.nodes import common
from mase_hw.graph.reference import IntegerReference, spec
from mase_hw.importers.onnx._families import functions
from mase_hw.ops import Numeric, operators
from tests.doors.qonnx_execution import executed
from tests.doors.random_files import RECIPES, WITHOUT, File, Oracle, as_qonnx, random_file
from tests.doors.rational import NotRationalError, Rationals

# Steps from a tie within which a number that is approximated may have the neighbouring code.
NEXT_TO_TIE = 2.0**-7
KINDS = [*RECIPES]
_LOG = logging.getLogger(__name__)


def test_every_operator_has_a_recipe_or_is_named():
    known = {kind for domain, kind in functions() if domain == ""}
    missing = known - {kind.partition(" ")[0] for kind in RECIPES} - WITHOUT
    assert not missing


def judged(seed, folder):
    """Return what became of a random file: `taken`, `refused`, `unfit`, or what differs."""
    made = random_file(seed, KINDS[seed % len(KINDS)])
    return "unfit" if made is None else compared(*made, seed, folder)


def compared(f, outputs, seed, folder):
    """Return what became of a file, as `judged` does."""
    path = folder / f"f{seed}.onnx"
    onnx.save(f.model(outputs), str(path))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        runtime = onnxruntime.InferenceSession(str(path), options)
        low = lowered(quantize(mase_hw.trace(path)))
        reference = IntegerReference(low)
    except MaseError:
        return "refused"
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return "unfit"
    entry = spec(reference.inputs[0]).quantized
    x = inputs_of(f, seed, entry)
    found = reference([entry.encode(torch.from_numpy(x).flatten(0, 1))])
    oracle, apart = Oracle(f, outputs), []
    rationals, approximated = Rationals(f.model(outputs)), approximates(low)
    for row, given in enumerate(x):
        wanted, distance, finite = oracle(given)
        if not finite:
            continue
        # What is exact is judged next to ties as well.
        decided = distance > NEXT_TO_TIE
        with suppress(NotRationalError):
            wanted, decided = rationals(given), decided or not approximated
        theirs = runtime.run(None, {"x": given})
        for place, node in enumerate(reference.outputs):
            number, codes = spec(node).quantized, found[node.name].reshape(len(x), -1)[row]
            values = np.asarray(wanted[place], np.float64).ravel()
            near = 1e-4 * max(1e-9, np.abs(values).max())
            off = np.abs(number.decode(codes).numpy() - values) > near
            if off.any() and decided:
                apart.append(f"{off.sum()} of {off.size} codes of {node.name} in row {row}")
            unlike = np.abs(np.asarray(theirs[place], np.float64).ravel() - values) > near
            if unlike.any() and distance > NEXT_TO_TIE:
                apart.append(f"ONNX Runtime and the package onnx differ in row {row}")
    return "; ".join(apart[:3]) or "taken"


def approximates(low):
    found = (operators().get(str(common(node).operator)) for node in low.nodes)
    return any(item is not None and Numeric.of(item).approximates for item in found)


def inputs_of(f, seed, entry):
    """Return inputs, some of them ties of the first rounding; else what the port's format holds."""
    random = np.random.default_rng(seed + 1)
    x = (random.normal(size=(16, *f.shape)) * 2).astype(np.float32)
    scales = [scale for name, scale in f.rounded if name == "x"]
    if not scales:
        return entry.round_values(torch.from_numpy(x)).numpy()
    x[:4] = (np.round(x[:4] / scales[0]) + 0.5) * np.float32(scales[0])
    return x


def check(seeds, folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = {seed: judged(seed, folder) for seed in seeds}
    counts = Counter(item if item in KNOWN else "differ" for item in results.values())
    _LOG.info("%s", dict(counts))
    assert not {seed: item for seed, item in results.items() if item not in KNOWN}
    return counts


KNOWN = {"taken", "refused", "unfit"}


def test_codes_are_those_of_the_file_or_it_is_refused(tmp_path):
    counts = check(range(40), tmp_path)
    assert counts["taken"] >= 26


def _clipped(f, x):
    return f.node("Clip", x, *map(f.tensor, np.float32([0.337, 1.313])))


def _shrunk(f, x):
    return f.node("Shrink", x, lambd=0.5, bias=0.0)


def _padded(f, x):
    pads = f.tensor(np.array([0, 0, 0, 0, 0, 0, 0, 1]))
    return f.node("Pad", x, pads, f.tensor(np.float32(0.347)))


def _masked(f, x):
    kept = f.tensor(np.arange(16).reshape(1, 2, 4, 2) % 3 > 0)
    return f.node("Where", kept, x, f.tensor(np.float32(0.347)))


def _resized(f, x, mode="cubic"):
    scales = f.tensor(np.float32([1, 1, 1.5, 1]))
    where = {"coordinate_transformation_mode": "align_corners"}
    return f.node("Resize", x, "", scales, mode=mode, **where)


@pytest.mark.parametrize("between", [_clipped, _shrunk, _padded, _masked, _resized])
@pytest.mark.parametrize("roundings", [1, 2, 3])
def test_bounds_and_weights_between_roundings_are_exact(between, roundings, tmp_path):
    f = File(0, [1, 2, 4, 2])
    made = between(f, f.quantise("x", np.float32(0.0712), 0)[0])
    for scale in (0.0413, 0.0197, 0.0531)[:roundings]:
        made = f.quantise(made, np.float32(scale))[0]
    result = compared(f, [made], 0, tmp_path)
    assert result == "taken" or (between in (_shrunk, _masked) and result == "refused")


@pytest.mark.full
@pytest.mark.parametrize("part", range(20))
def test_codes_of_two_thousand_files(part, tmp_path):
    counts = check(range(100 * part, 100 * part + 100), tmp_path)
    assert counts["taken"] >= 65


def qonnx_judged(seed, folder):
    """Return what became of a random file of `Quant` nodes, as `judged` does."""
    made = random_file(seed)
    model = made and as_qonnx(made[0].model(made[1]), made[0].random)
    if not model:
        return "unfit"
    path = folder / f"q{seed}.onnx"
    onnx.save(model, str(path))
    try:
        reference = IntegerReference(lowered(quantize(mase_hw.trace(path))))
    except MaseError:
        return "refused"
    entry = spec(reference.inputs[0]).quantized
    x = entry.round_values(torch.from_numpy(inputs_of(made[0], seed, entry)))
    found = reference([entry.encode(x.flatten(0, 1))])
    with redirect_stdout(StringIO()):
        theirs, names = executed(path, [x.flatten(0, 1)])
    rationals = Rationals(model)
    for place, node in enumerate(reference.outputs):
        codes = spec(node).quantized.decode(found[node.name]).numpy().reshape(len(x), -1)
        for row, (own, other) in enumerate(
            zip(codes, theirs[names[place]].numpy().reshape(codes.shape), strict=True)
        ):
            # Zero over zero is no number.
            if np.isfinite(other).all() and differ(own, other).any():
                # Single precision is off next to a tie.
                try:
                    exact = rationals(x[row].numpy())[place].reshape(-1)
                except NotRationalError:
                    return f"codes of qonnx differ in row {row}"
                if differ(own, exact).any():
                    return f"codes of rational numbers differ in row {row}"
    return "taken"


def differ(first, second):
    return np.abs(first - second) > 1e-4 * max(1e-9, np.abs(second).max())


def test_codes_of_quant_nodes_are_those_of_qonnx(tmp_path):
    pytest.importorskip("qonnx")
    results = {seed: qonnx_judged(seed, tmp_path) for seed in range(24)}
    assert not {seed: item for seed, item in results.items() if item not in KNOWN}
    assert Counter(results.values())["taken"] >= 8


@pytest.mark.full
@pytest.mark.parametrize("number", range(5))
def test_verilog_of_a_random_file_gives_its_codes(number, tmp_path):
    seeds = range(100 * number, 100 * number + 100)
    seed = next(seed for seed in seeds if judged(seed, tmp_path) == "taken")
    graph = quantize(mase_hw.trace(tmp_path / f"f{seed}.onnx"))
    project = mase_hw.emit_verilog(graph, output=tmp_path / "design")
    report = mase_hw.simulate(project, mase_hw.trace(tmp_path / f"f{seed}.onnx").example_inputs)
    assert report.bit_exact


def test_a_code_that_is_off_by_one_is_noticed(tmp_path, monkeypatch):
    seed = next(seed for seed in range(40) if judged(seed, tmp_path) == "taken")
    plain = IntegerReference.__call__

    def wrong(self, inputs, probes=()):
        return {name: codes ^ 1 for name, codes in plain(self, inputs, probes).items()}

    monkeypatch.setattr(IntegerReference, "__call__", wrong)
    assert "codes of" in judged(seed, tmp_path)
