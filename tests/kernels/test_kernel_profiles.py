"""The measurements on a small model: what is counted adds up, and files are written."""

import csv

import pytest
import torch
from typer.testing import CliRunner

from mase_hw.cli import build_app
from mase_hw.errors import ConfigError
from mase_hw.kernels.profile import _measure, _models, kernels, mxint8
from mase_hw.kernels.profile.formats import profile_formats
from mase_hw.kernels.profile.mxint8 import profile_mxint8
from mase_hw.kernels.profile.sdpa import backend_of, profile_sdpa
from mase_hw.kernels.profile.torch_compile import profile_torch_compile
from tests.bench import benchmarks

FACTORY = """
import torch
from types import SimpleNamespace

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.config = SimpleNamespace(num_attention_heads=4, hidden_size=32)
        self.first, self.norm = torch.nn.Linear(70, 64), torch.nn.LayerNorm(64)
        self.second = torch.nn.Linear(64, 10, bias=False)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x):
        x = self.norm(self.first(x))
        BREAK
        return self.second(x) * self.scale[0]

def make():
    return Model(), (torch.randn(3, 70),)
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "small.py"
    path.write_text(FACTORY.replace("BREAK", "pass"))
    return f"{path}:make"


@pytest.mark.full
def test_mxint8_terms_add_up_to_the_measured_bytes(model, tmp_path):
    report = profile_mxint8(model, batch_sizes=(1, 3), rounds=3)
    speed, memory, error = report.tables
    terms = {row[0]: row for row in memory.rows}
    total = terms.pop(mxint8.TOTAL)
    for column in (1, 2, 3):
        assert sum(row[column] for row in terms.values()) == total[column]
    assert terms["linear: weights or codes"][1:3] == ((70 * 64 + 640) * 4, 70 * 64 + 640)
    assert terms["linear: exponents"][1:3] == (0, 3 * 64 + 2 * 10)
    assert terms["biases of linear layers"][1:3] == (256, 256)
    assert terms["norms"][1:3] == (512, 512)
    assert terms["other buffers"][1:3] == (12, 12)
    for column in (1, 2):
        assert 0 <= terms[mxint8.ROUNDING][column] < 64 * 8
        assert 0 <= terms[mxint8.BOOKKEEPING][column] < 2000 * 8
    assert 0 < error.column("relative_error")[0] < 0.03
    assert speed.column("batch") == [1, 3]
    paths = report.save(tmp_path / "out")
    assert {path.suffix for path in paths} == {".csv", ".png", ".txt"}
    with (tmp_path / "out" / "mxint8_memory.csv").open() as handle:
        assert len(list(csv.reader(handle))) == len(memory.rows) + 1


def test_sdpa_finds_the_heads_of_a_module_inside(tmp_path):
    path = tmp_path / "outer.py"
    path.write_text(
        FACTORY.replace("BREAK", "pass")
        + "\n\ndef outer():\n    return torch.nn.Sequential(make()[0]), make()[1]\n"
    )
    report = profile_sdpa(f"{path}:outer", lengths=(16,), rounds=1)
    assert "heads of 8" in report.tables[0].title


def test_sdpa_counts_the_scores(model, tmp_path):
    report = profile_sdpa(model, lengths=(64, 256), rounds=3)
    (table,) = report.tables
    assert table.column("heads") == [1, 1, 4, 4]
    by_shape = {row[:2]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
    naive = by_shape[4, 256]
    assert naive["naive_peak_mib"] >= 4 * 256 * 256 * 4 / 2**20
    assert naive["fused_peak_mib"] < naive["naive_peak_mib"]
    assert naive["backend"] == "flash_for_cpu"
    report.save(tmp_path)
    assert backend_of(["aten::add"]) == "unknown"


@pytest.mark.full
def test_formats_lists_every_format(model, tmp_path):
    (table,) = (report := profile_formats(model, rounds=3)).tables
    ratio = dict(zip(table.column("format"), table.column("weight_snr_db"), strict=True))
    assert ratio["fixed width=4"] < ratio["fixed width=6"] < ratio["fixed width=8"]
    report.save(tmp_path)


def test_a_factory_has_named_inputs_and_a_neighbour(tmp_path):
    (tmp_path / "neighbour_of_factory.py").write_text(
        "import torch\n"
        "class Named(torch.nn.Module):\n"
        "    def forward(self, first, *, scale, shift):\n"
        "        return first * scale + shift\n"
    )
    path = tmp_path / "named.py"
    path.write_text(
        "import torch\nfrom neighbour_of_factory import Named\n"
        "def make():\n"
        "    named = {'first': torch.ones(3, 2), 'scale': torch.ones(3, 2)}\n"
        "    return Named(), {**named, 'shift': torch.tensor(2.0)}\n"
    )
    subject = _models.load_subject(f"{path}:make", torch.device("cpu"))
    assert torch.equal(subject.call(5)(), torch.full((5, 2), 3.0))


@pytest.mark.full
def test_torch_compile_counts_breaks_and_recompilations(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text(FACTORY.replace("BREAK", "torch._dynamo.graph_break()"))
    report = profile_torch_compile(f"{path}:make", batch_sizes=(2, 8), rounds=3)
    (table,) = report.tables
    assert table.column("batch") == [2, 8]
    assert max(table.column("max_difference")) < 1e-5
    assert all(0 < share <= 1 for share in table.column("matrix_share"))
    assert any("graph breaks: 1" in note for note in report.notes)
    assert any("recompilations" in note and "(at batch 8)" in note for note in report.notes)
    report.save(tmp_path)


def test_peak_memory_is_what_lived_at_once():
    def call() -> None:
        for _ in range(3):
            torch.empty(1 << 20).exp()

    found = _measure.peak_memory_bytes(call, torch.device("cpu"))
    assert 2 * 4 << 20 <= found < 2.1 * (4 << 20)


def test_profile_prints_and_writes(model, tmp_path):
    out = tmp_path / "figures"
    arguments = ["profile", "sdpa", model, "--lengths", "32", "-o", str(out)]
    result = CliRunner().invoke(build_app(), arguments)
    assert result.exit_code == 0, result.output
    assert "attention with heads" in " ".join(result.output.split())
    assert "flash_for_cpu" in (out / "sdpa.csv").read_text()
    assert (out / "sdpa.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sdpa", "nowhere.py:make"], "nowhere.py is no file"),
        (["mxint8", "x.py:f", "--device", "tpu"], "device is 'tpu'; allowed: cpu, cuda"),
        (["sdpa", "x.py:f", "--lengths", "1,a"], "positive integers separated by commas"),
    ],
)
def test_command_errors_are_one_message(arguments, message):
    result = CliRunner().invoke(build_app(), ["profile", *arguments])
    assert result.exit_code != 0
    plain = " ".join(f"{result.output} {result.exception}".replace("│", " ").split())
    assert message in plain
    assert "Traceback" not in result.output


def test_no_cuda_device_is_said():
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="no CUDA device; allowed: cpu"):
            _measure.check_device("cuda")


def test_what_cannot_be_measured_is_listed(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    rows = list(kernels._gpu_rows(3))
    assert len(rows) == 5
    assert all(row.met is None and row.measured.startswith("unmeasured") for row in rows)


def test_linear_layers_are_measured_on_any_device(monkeypatch):
    arguments = (kernels.vectorized, (48, 64), 3, 1.6, 1e9, 1, "cpu")
    faster, share = kernels._gpu_linear(*arguments)
    assert faster.what == "GPU W8A16 linear, 3 x 64 x 48, vectorized, against bfloat16 F.linear"
    assert " x (" in faster.measured
    assert "% (spread " in share.measured
    right = kernels.vectorized.linear
    monkeypatch.setattr(kernels.vectorized, "linear", lambda *operands: right(*operands) * 1.1)
    with pytest.raises(ArithmeticError, match="relative error"):
        list(kernels._gpu_linear(*arguments))


@pytest.mark.full
def test_the_cpu_is_measured():
    found = benchmarks()["kernels"].rows(quick=True)
    rows = [row for row in found if row.what.startswith("CPU")]
    assert len(rows) - 2 * len(kernels.CPU_BARS) in (4, 8)
    assert all(row.met is not None for row in rows)


def test_a_wrong_kernel_has_no_figure(monkeypatch):
    right = kernels.cpu.dequantize
    monkeypatch.setattr(torch, "compile", lambda function: function)
    monkeypatch.setattr(
        kernels.cpu, "dequantize", lambda *arguments, out=None: right(*arguments, out=out).neg()
    )
    with pytest.raises(ArithmeticError, match="no figure is reported"):
        list(kernels._cpu_rows(1 << 17, 1, 1))
