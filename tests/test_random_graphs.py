"""Random graphs: `preflight` always answers, and what it lets pass is emitted and bit-exact."""

from tempfile import TemporaryDirectory

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import nn

import mase_hw
from mase_hw.emit.flow import quantize
from mase_hw.emit.preflight import preflight
from mase_hw.errors import CaptureError, ConfigError
from mase_hw.graph import trace

FIXED = {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8}
BLOCKS = {f"{name}_block_size": 4 for name in ("data_in", "weight", "bias")}
CONFIGS = {
    "fixed": {"default": {"config": FIXED}},
    "mxint": {"default": {"config": {"name": "mxint", **BLOCKS}}},
    "minifloat": {"default": {"config": {"name": "minifloat_denorm"}}},
    "linear alone": {"by": "type", "linear": {"config": FIXED}, "conv2d": {"config": FIXED}},
}
SHAPES = [(), (5,), (2, 2, 2, 2, 2), *[(3, 6), (2, 4, 3), (2, 3, 5, 4)] * 3]


def constant(*shape):
    return nn.Parameter(torch.randn(shape))


class Call(nn.Module):
    """A function of the stream, of a second one, and of parameters."""

    def __init__(self, function, *parameters):
        super().__init__()
        self.function = function
        self.parameters_ = nn.ParameterList(parameters)

    def forward(self, x, other):
        return self.function(x, other, *self.parameters_)


def layer(module):
    call = Call(lambda x, other: call.module(x))
    call.module = module
    return call


# What makes a module for a stream of a shape (with its batch) and a small number.
STEPS = {
    "linear": lambda s, n: layer(nn.Linear(s[-1], n + 1, bias=n % 2 == 0)),
    "conv1d": lambda s, n: layer(nn.Conv1d(s[1], n + 1, 2, padding=n % 2)),
    "conv2d": lambda s, n: layer(nn.Conv2d(s[1], n + 1, 2, stride=1 + n % 2)),
    "depthwise": lambda s, n: layer(nn.Conv2d(s[1], s[1], 2, groups=s[1])),
    "conv_transpose": lambda s, n: layer(nn.ConvTranspose2d(s[1], n + 1, 2)),
    "batch_norm": lambda s, n: layer((nn.BatchNorm2d if len(s) == 4 else nn.BatchNorm1d)(s[1],
        affine=n != 1, track_running_stats=n != 2)),
    "layer_norm": lambda s, n: layer(nn.LayerNorm(s[-1])),
    "prelu": lambda s, n: layer(nn.PReLU(s[1] if n % 2 else 1)),
    "activation": lambda s, n: layer((nn.ReLU(), nn.Sigmoid(), nn.GELU(), nn.Hardswish(),
        nn.ELU())[n % 5]),
    "softmax": lambda s, n: layer(nn.Softmax(-1)),
    "dropout": lambda s, n: layer(nn.Dropout()),
    "max_pool": lambda s, n: layer((nn.MaxPool2d if len(s) == 4 else nn.MaxPool1d)(2)),
    "avg_pool": lambda s, n: layer((nn.AvgPool2d if len(s) == 4 else nn.AvgPool1d)(2)),
    "adaptive_pool": lambda s, n: layer(nn.AdaptiveAvgPool2d(1 + n % 2)),
    "upsample": lambda s, n: layer(nn.Upsample(scale_factor=2)),
    "flatten": lambda s, n: layer(nn.Flatten(n % 3)),
    "reshape": lambda s, n: Call(lambda x, y: x.reshape(*x.shape[:1], -1, 1 + n % 2)),
    "merge": lambda s, n: Call(lambda x, y: x.reshape(-1)),
    "view": lambda s, n: Call(lambda x, y: x.transpose(-1, -2).contiguous().view(len(x), -1)),
    "transpose": lambda s, n: Call(lambda x, y: x.transpose(n % x.dim(), -1)),
    "unsqueeze": lambda s, n: Call(lambda x, y: x.unsqueeze(n % (x.dim() + 1))),
    "squeeze": lambda s, n: Call(lambda x, y: x.squeeze()),
    "slice": lambda s, n: Call(lambda x, y: x[..., n % 3 :]),
    "select": lambda s, n: Call(lambda x, y: x.select(-1 - n % 2, 0)),
    "chunk": lambda s, n: Call(lambda x, y: torch.mul(*x.chunk(2, -1))),
    "unbind": lambda s, n: Call(lambda x, y: sum(x.unbind(-1))),
    "pad": lambda s, n: Call(lambda x, y: nn.functional.pad(x, (1, n))),
    "expand": lambda s, n: Call(lambda x, y: x.expand(n + 1, *x.shape)),
    "cat": lambda s, n: Call(lambda x, y: torch.cat([x, x + 1], n % max(x.dim(), 1))),
    "stack": lambda s, n: Call(lambda x, y: torch.stack([x, y], -1)),
    "sum": lambda s, n: Call(lambda x, y: x.sum(-1 - n % 2, keepdim=n > 2)),
    "mean": lambda s, n: Call(lambda x, y: x.mean() if n == 4 else x.mean(-1)),
    "max": lambda s, n: Call(lambda x, y: x.max(-1)[n % 2]),
    "argmax": lambda s, n: Call(lambda x, y: x.argmax(-1)),
    "cumsum": lambda s, n: Call(lambda x, y: x.cumsum(-1)),
    "add": lambda s, n: Call(lambda x, y: torch.add(x, y, alpha=n - 2)),
    "mul": lambda s, n: Call(lambda x, y: x * y),
    "sub": lambda s, n: Call(lambda x, y: n - x),
    "div": lambda s, n: Call(lambda x, y: x / (n + 1)),
    "square": lambda s, n: Call(lambda x, y: torch.relu(x) ** 2),
    "matmul": lambda s, n: Call(lambda x, y, w: x @ w, constant(s[-1], n + 1)),
    "columns": lambda s, n: Call(lambda x, y, w: w @ x, constant(n + 1, s[-2])),
    "products": lambda s, n: Call(lambda x, y: x @ y.transpose(-1, -2)),
    "einsum": lambda s, n: Call(lambda x, y, w: torch.einsum("...d,de->...e", x, w),
        constant(s[-1], n + 1)),
    "constant": lambda s, n: Call(lambda x, y, c: x * c + 1, constant(s[-1])),
    "where": lambda s, n: Call(lambda x, y: torch.where(x > 0, x, y)),
    "int": lambda s, n: Call(lambda x, y: x.to(torch.int32)),
    "half": lambda s, n: Call(lambda x, y: x.to(torch.float16).to(torch.float32)),
    "clone": lambda s, n: Call(lambda x, y: x.clone().detach()),
    "in place": lambda s, n: Call(lambda x, y: x.clone().add_(1).relu_()),
    "empty": lambda s, n: Call(lambda x, y: x[..., :0]),
}  # fmt: skip

# Most of what is drawn should have hardware.
RARE = {
    "layer_norm", "softmax", "merge", "transpose", "unsqueeze", "squeeze", "expand", "mean",
    "cumsum", "products", "where", "int", "empty", "prelu", "max", "argmax", "stack", "unbind",
}  # fmt: skip
NAMES = sorted([*STEPS, *(set(STEPS) - RARE), *(set(STEPS) - RARE), *(set(STEPS) - RARE)])

RETURNS = {
    "last": lambda values: values[-1],
    "two": lambda values: (values[-1], values[len(values) // 2]),
    "nested": lambda values: {"last": values[-1], "rest": [values[-1], (values[0], None)]},
    "constant": lambda values: (values[-1], torch.ones(2)),
    "number": lambda values: (values[-1], 2),
}
RETURNED = ["last", "last", "last", "two", "nested", *RETURNS]


class Graph(nn.Module):
    """Steps in a row; each sees the result before it and an earlier one."""

    def __init__(self, steps, earlier, returns):
        super().__init__()
        self.steps = nn.ModuleList(steps)
        self.earlier = earlier
        self.returns = returns

    def forward(self, x):
        values = [x]
        for step, index in zip(self.steps, self.earlier, strict=True):
            values.append(step(values[-1], values[index % len(values)]))
        return RETURNS[self.returns](values)


@st.composite
def graphs(draw):
    """Draw a module that runs and the tensor that it takes."""
    torch.manual_seed(0)
    shape = draw(st.sampled_from(SHAPES))
    values, steps, earlier = [torch.randn(shape)], [], []
    for _ in range(draw(st.integers(1, 5))):
        name, number = draw(st.sampled_from(NAMES)), draw(st.integers(0, 4))
        index = draw(st.integers(0, 5))
        try:
            step = STEPS[name](values[-1].shape, number)
            with torch.no_grad():
                result = step.eval()(values[-1], values[index % len(values)])
        except (RuntimeError, IndexError, ValueError, TypeError, ZeroDivisionError):
            continue
        if isinstance(result, torch.Tensor) and result.numel() <= 400:
            values.append(result)
            steps.append(step)
            earlier.append(index)
    assume(steps)
    return Graph(steps, earlier, draw(st.sampled_from(RETURNED))).eval(), values[0]


def emitted(case, config, parallelism, folder):
    """Return the project of a random graph; None where it is refused."""
    model, example = case
    try:
        mg = trace(model, example)
    except CaptureError:
        return None
    try:
        mg = quantize(mg, CONFIGS[config])
    except ConfigError as error:
        assert "selects nothing" in str(error)
        return None
    problems = preflight(mg)
    assert all(problem.node and problem.reason for problem in problems)
    if problems:
        return None
    return mase_hw.emit_verilog(mg, output=folder, parallelism=parallelism)


def budget(examples):
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


CASES = given(
    graphs(),
    st.sampled_from(["fixed", "fixed", "mxint", *CONFIGS]),
    st.sampled_from([1, 2, 3, "auto"]),
)


@pytest.mark.full
@budget(600)
@CASES
def test_what_preflight_lets_pass_is_emitted_of_many(case, config, parallelism):
    with TemporaryDirectory() as folder:
        emitted(case, config, parallelism, f"{folder}/project")


@pytest.mark.full
# Seed 107 shares layers whose recurrences sum words of a memory over several inferences.
@pytest.mark.parametrize("seed", [107, *range(500, 512)])
def test_random_designs_are_exact_in_the_predicted_cycles(seed):
    # What draws the designs takes steps from here.
    from tests.random_designs import fate

    found = fate(seed)
    assert found is None or found.what in ("exact", "refused"), found.why
