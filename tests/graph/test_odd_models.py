"""Models of unusual modules, tensors and numbers: captured, or refused with one clear message."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import mase_hw
from mase_hw.errors import CaptureError, MaseError, UnitError
from mase_hw.graph import trace
from mase_hw.graph.source import naming_units

ROOT = Path(__file__).resolve().parents[2]


class With(nn.Module):
    """A layer, and a function of its result and a buffer."""

    def __init__(self, use: Callable[..., Any], table: torch.Tensor | None = None):
        super().__init__()
        self.fc, self.use = nn.Linear(8, 4), use
        self.register_buffer("table", torch.randn(4) if table is None else table)

    def forward(self, x):
        return self.use(self.fc(x), self.table)


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 4), nn.Dropout(0.5))


def layers() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))


def exported(model: nn.Module, x: torch.Tensor) -> nn.Module:
    return torch.export.export(model, (x,)).module()


@pytest.mark.parametrize(
    "wrap",
    [
        lambda module: module,
        lambda module: nn.Sequential(module, nn.Sigmoid()),
        lambda module: exported(nn.Sequential(module), torch.randn(32, 8)),
    ],
)
def test_a_module_that_torch_exported_is_captured_with_a_free_batch(wrap):
    model = wrap(exported(layers().eval(), torch.randn(32, 8)))
    mg = trace(model, torch.randn(32, 8))
    assert mg.batched
    x = torch.randn(32, 8)
    torch.testing.assert_close(mg(x), model(x))
    torch.testing.assert_close(mg(x[:5]), mg(x)[:5])
    with pytest.raises(AssertionError, match="Guard failed"):
        model(x[:5])


def test_a_module_that_was_exported_in_training_mode_says_what_it_draws():
    with pytest.raises(CaptureError, match=r"dropout.* draws random numbers"):
        trace(exported(dropping().train(), torch.randn(6, 8)), torch.randn(6, 8))
    mg = trace(exported(dropping().eval(), torch.randn(6, 8)), torch.randn(6, 8))
    assert mg.batched


class Wrapped(torch.Tensor):
    """Numbers that compute in a way of their own, as torchao's weights."""

    @staticmethod
    def __new__(cls, codes: torch.Tensor):
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=torch.float32)

    def __init__(self, codes: torch.Tensor):
        self.codes = codes

    def __tensor_flatten__(self):
        return ["codes"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["codes"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return cls(args[0].codes)
        raise NotImplementedError(func)


def with_own_tensors() -> nn.Module:
    model = layers()
    codes = torch.ones(6, 8, dtype=torch.int8)
    model[0].weight = nn.Parameter(Wrapped(codes), requires_grad=False)
    return model


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "no results": (lambda: nn.Linear(8, 0), r"linear .* leaves no element: .* \[6, 0\]"),
    "no results inside": (
        lambda: nn.Sequential(nn.Linear(8, 0), nn.Linear(0, 2)),
        r"linear_0 \(module 0\) leaves no element",
    ),
    "no elements": (lambda: With(lambda y, t: y.repeat(1, 0)), "leaves no element"),
    "nothing chosen": (lambda: With(lambda y, t: y.topk(0).values), "leaves no element"),
    "infinite epsilon": (
        lambda: nn.LayerNorm(8, eps=float("inf")),
        "its eps is inf; allowed is a finite number from 0",
    ),
    "negative epsilon": (lambda: nn.RMSNorm(8, eps=-1.0), "its eps is -1.0"),
    "infinite slope": (
        lambda: With(lambda y, t: functional.leaky_relu(y, float("inf"))),
        r"leaky_relu .*it gives no number \(NaN\)",
    ),
    "sparse buffer": (
        lambda: With(lambda y, t: torch.sparse.mm(t, y.T).T, torch.eye(4).to_sparse()),
        r"table of the model is sparse_coo; only dense real tensors .* to_dense\(\)",
    ),
    "compressed buffer": (
        lambda: With(lambda y, t: (t @ y.T).T, torch.eye(4).to_sparse_csr()),
        "table of the model is sparse_csr",
    ),
    "sparse inside": (
        lambda: With(
            lambda y, t: torch.sparse.mm(t.to_sparse(), y.T).T, torch.eye(4)
        ),
        r"the result of to_sparse \(.*\) is sparse_coo",
    ),
    "sparse result": (lambda: With(lambda y, t: y.to_sparse()), "a result of the model is sparse"),
    "nested buffer": (
        lambda: With(
            lambda y, t: y + t[0].sum(),
            torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        ),
        "table of the model is nested",
    ),
    "nested inside": (
        lambda: With(
            lambda y, t: torch.nested.nested_tensor([y, y]).to_padded_tensor(0.0)[0]
        ),
        r"torch.export refused the model: .*nested_tensor.* \(at .*test_odd_models.py:\d+: ",
    ),
    "integers of torch": (
        lambda: With(
            lambda y, t: y + t.dequantize(),
            torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.qint8),
        ),
        "table of the model is quantized",
    ),
    "no values": (
        lambda: With(lambda y, t: y + t, torch.empty(4, device="meta")),
        "table of the model is on the meta device, without values",
    ),
    "a tensor of its own class": (
        with_own_tensors, "0.weight of the model is of the class .*Wrapped; .* number formats"
    ),
    "eight-bit floats": (
        lambda: With(lambda y, t: y.to(torch.float8_e4m3fn).float()),
        "is of the dtype float8_e4m3fn, .*: use float32, and give the number format",
    ),
    "large unsigned numbers": (
        lambda: With(lambda y, t: y.hash_tensor(1)), "is of the dtype uint64, .*: use int64"
    ),
    "compiled": (
        lambda: torch.jit.trace(layers(), torch.randn(6, 8)),
        "the model is a ScriptModule, which is not captured: give the module",
    ),
    "parallel": (
        lambda: nn.Sequential(nn.DataParallel(layers())),
        "0 of the model is a DataParallel, .*: give its `module`",
    ),
    "the end": (lambda: With(lambda y, t: sys.exit(3)), r"it ends the program \(at .*sys.exit"),
    "a generator": (
        lambda: With(lambda y, t: (item for item in [y])),
        "returns an object of the class generator; allowed are tensors",
    ),
    "arrays": (lambda: With(lambda y, t: y.numpy()), "returns an object of the class ndarray"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", REFUSED)
def test_an_odd_model_is_refused_with_one_message(name, tmp_path):
    model, message = REFUSED[name]
    torch.manual_seed(0)
    with pytest.raises(MaseError, match=message) as found:
        mase_hw.emit_verilog(model(), torch.randn(6, 8), output=tmp_path / "out")
    assert not isinstance(found.value, UnitError)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("use", "table"),
    [
        (lambda y, t: y + t.float(), torch.randn(4).to(torch.float8_e4m3fn)),
        (lambda y, t: y * t.to(y.dtype), torch.randn(4).to(torch.float8_e5m2)),
        (lambda y, t: torch.cat([y[:, :0], y, t.expand(y.shape[0], 0)], 1), torch.zeros(1, 0)),
    ],
)
def test_constants_of_few_bits_and_of_no_element_are_taken(use, table, tmp_path):
    project = mase_hw.emit_verilog(With(use, table), torch.randn(6, 8), output=tmp_path / "out")
    assert project.design.outputs[0].spec.shape == (1, 4)


def test_a_float_of_eight_bits_that_is_not_finite_is_named(tmp_path):
    table = torch.tensor([1.0, float("nan"), 0.0, 2.0]).to(torch.float8_e4m3fn)
    model = With(lambda y, t: y + t.float(), table)
    with pytest.raises(CaptureError, match=r"table\[1\] of net is nan"):
        mase_hw.emit_verilog(model, torch.randn(6, 8), output=tmp_path / "out", name="net")


FILE = "mase_hw/ops/functions/powers.py"
FAULTS = {
    "import": ("import nothing_like_it\n", "ModuleNotFoundError", 1),
    "syntax": ("def f(:\n", "SyntaxError", 1),
    "hardware": ("    def hardware(self, call):\n        return nothing\n", "NameError", 2),
    "reference": ("    def reference(self, call):\n        return lambda x: x.nothing()\n",
                  "AttributeError", 2),
    "patterns": ("    def patterns(self, x):\n        yield x.nothing()\n", "nothing", 2),
}  # fmt: skip
SCRIPT = """
import sys
import torch
import mase_hw
from mase_hw.cli import main
sys.argv = ["mase-hw", "emit-verilog", "net.py:factory", "-o", "out", "--simulate"]
main()
"""
NET = """
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return torch.reciprocal(x)


def factory():
    return Net(), (torch.randn(6, 4),)
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the sources, whose files a fault may be written to."""
    folder = tmp_path_factory.mktemp("tree")
    for name in ("mase_hw", "rtl", "sim", "templates", "kernels"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("rtl", "sim", "templates", "kernels"):
        (folder / "mase_hw" / name).symlink_to(folder / name)
    (folder / "net.py").write_text(NET)
    return folder


@pytest.mark.full
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_an_operators_own_file_is_reported_as_that(tree, name):
    text, kind, line = FAULTS[name]
    path, sound = tree / FILE, (ROOT / FILE).read_text()
    path.write_text(sound + text)
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tree, capture_output=True, text=True, check=False
    )
    path.write_text(sound)
    wanted = line + len(sound.splitlines())
    assert ended.returncode == 1
    assert ended.stderr.count("error: ") == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "torch.export" not in ended.stderr
    assert kind in ended.stderr
    assert f"{path}:{wanted}" in ended.stderr


def test_a_fault_elsewhere_is_left_as_it_is():
    with pytest.raises(KeyError), naming_units():
        raise KeyError("nothing")
