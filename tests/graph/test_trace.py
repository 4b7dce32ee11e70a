"""Capture: what is captured, what it is called, where it comes from, what is refused."""

import gc
import importlib.util
import re
from functools import partial
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import mase_hw
from mase_hw.emit.flow import canonicalize
from mase_hw.emit.preflight import preflight
from mase_hw.errors import CaptureError, MaseError
from mase_hw.graph import MaseGraph, check_finite, metadata, trace
from mase_hw.graph.naming import SYSTEMVERILOG_KEYWORDS
from mase_hw.ops import Apply
from mase_hw.passes import fold_constants_transform_pass


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 8)
        self.bn = nn.BatchNorm1d(8)
        self.drop = nn.Dropout()
        self.fc2 = nn.Linear(8, 8)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        x = x.view(x.size(0), -1)
        left = torch.relu(self.bn(self.fc1(x)))
        right = self.act(self.drop(self.fc2(left)))
        return torch.relu(left + right).reshape(x.shape[0], 2, 4) * 2.0


class Swish(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(x)


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(nn.Linear(4, 4), Swish())
        self.output = nn.Linear(4, 4)
        self.shared = nn.Linear(4, 4)

    def forward(self, x):
        y = self.shared(self.block(x))
        return {"first": self.output(y), "rest": [self.shared(y), torch.sum(x, -1)]}


def calls(mg):
    return [node.name for node in mg.nodes if node.op == "call_function"]


def targets(mg):
    return [str(node.target) for node in mg.nodes if node.op == "call_function"]


def line_of(text):
    lines = Path(__file__).read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if text in line)


def test_names_follow_module_paths_and_are_valid_and_unique():
    torch.manual_seed(0)
    residual, nested = trace(Residual(), torch.randn(2, 16)), trace(Nested(), torch.randn(2, 4))
    assert calls(residual) == [
        "view", "fc1", "bn", "relu", "fc2", "drop", "act", "add", "relu_1", "reshape", "mul",
    ]  # fmt: skip
    assert calls(nested) == [
        "block_0", "block_1_sigmoid", "block_1_mul", "shared",
        "linear_output", "shared_1", "op_sum",
    ]  # fmt: skip
    assert "linear_output_weight" in [node.name for node in nested.nodes]
    assert metadata(nested.node("block_1_mul")).module_path == "block.1"
    plain = trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.ones(2, 4))
    names = "linear_0_weight linear_0_bias model_input linear_0 relu_1 output"
    assert [node.name for node in plain.nodes] == names.split()
    assert metadata(plain.node("linear_0")).module_path == "0"
    assert str(metadata(plain.node("linear_0")).source) == "-"
    for mg in (residual, nested):
        names = [node.name for node in mg.nodes if node.op != "output"]
        assert len(names) == len(set(names))
        assert all(name.isidentifier() and name not in SYSTEMVERILOG_KEYWORDS for name in names)


class Clash(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Sequential(nn.Linear(4, 4))
        self.a_0 = nn.Linear(4, 4)

    def forward(self, x):
        return self.a_0(self.a(x))


def test_two_paths_that_read_the_same_stay_apart():
    names = calls(trace(Clash(), torch.randn(2, 4)))
    assert names == ["a_0", "a_0_1"]
    assert names == calls(trace(Clash(), torch.randn(2, 4)))


def test_copies_keep_names_even_where_torch_would_renumber():
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.relu_3 = nn.Linear(4, 4)

        def forward(self, x):
            return torch.relu(self.relu_3(x))

    mg = trace(Late(), torch.randn(2, 4))
    assert calls(mg) == calls(mg.copy()) == ["relu_3", "relu"]


def test_source_lines_are_the_users():
    mg = trace(Residual(), torch.randn(2, 16))
    for name, text in (
        ("fc1", "left = torch.relu("),
        ("act", "right = self.act("),
        ("mul", "* 2.0"),
    ):
        source = metadata(mg.node(name)).source
        assert (source.file, source.line) == (__file__, line_of(text))
        assert text.strip() in source.code


def test_source_lines_of_a_file_in_any_folder(tmp_path):
    folder = tmp_path / "lib" / "torch" / "project"
    folder.mkdir(parents=True)
    file = folder / "net.py"
    file.write_text(
        "import torch\nclass Net(torch.nn.Module):\n"
        "    def forward(self, x):\n        return x + 1\n"
    )
    spec = importlib.util.spec_from_file_location("net_of_a_user", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    source = metadata(trace(module.Net(), torch.randn(2, 4)).node("add")).source
    assert (source.file, source.line, source.code) == (str(file), 4, "return x + 1")


def test_the_callers_model_is_left_as_it_was():
    model = Residual()
    model.bn.eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    modes = {name: module.training for name, module in model.named_modules()}
    mg = trace(model, torch.randn(2, 16))
    with torch.no_grad():
        for parameter in mg.model.parameters():
            parameter.zero_()
    assert modes == {name: module.training for name, module in model.named_modules()}
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in mg.model.parameters())


def test_no_guards_assertions_or_dead_state_remain():
    mg = trace(Residual(), torch.randn(2, 16))
    assert not any(node.op == "call_module" for node in mg.nodes)
    assert "aten.sym_size.int" not in targets(mg)
    assert not any("num_batches_tracked" in str(node.target) for node in mg.nodes)
    assert all(node.users for node in mg.nodes if node.op != "output")


def test_in_place_operations_become_functional():
    def accumulated(x):
        y = x * 2
        y += x
        z = y + 1
        y.mul_(z)
        return y, z

    x = torch.randn(3, 4)
    mg = trace(Apply(accumulated), x)
    names = ("mul", "add", "add", "mul")
    assert targets(mg) == [f"aten.{name}.Tensor" for name in names]
    assert mg(x)[0].equal(accumulated(x.clone())[0])


def test_outputs_keep_their_structure_and_keywords_are_inputs():
    mg = trace(Nested(), {"x": torch.randn(2, 4)})
    x = torch.randn(3, 4)
    outputs = mg(x=x)
    assert set(outputs) == {"first", "rest"}
    assert isinstance(outputs["rest"], list)
    assert torch.equal(outputs["rest"][1], x.sum(-1))


class Prefix(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 16))

    def forward(self, x):
        return torch.cat([self.token.expand(x.size(0), 16), x], 1)


def heads(x):
    b, n = x.shape
    y = x.reshape(b * 2, n // 2).reshape(b, 2, n // 2).transpose(1, 2)
    return y.reshape(b, -1)


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x - 1


class Item(nn.Module):
    def forward(self, x):
        return x * x.max().item()


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += 1
        return x * self.count


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.rand(16)


class Dropped(nn.Module):
    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5)


def unused(x):
    nn.functional.dropout(-x, training=False)
    return x * 2


def test_a_result_that_nobody_takes_is_left_out():
    assert calls(trace(Apply(unused), torch.randn(2, 16))) == ["mul"]


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (Branch(), torch.randn(2, 16), r"depends on a tensor's values.*if x\.sum\(\) > 0"),
        (Item(), torch.randn(2, 16), r"number is read from a tensor.*x\.max\(\)\.item"),
        (Counter(), torch.randn(2, 16), r"\(count\).*take the state as an input"),
        (Noise(), torch.randn(2, 16), r"not a function of its.*rand.*torch\.rand.*draws random"),
        (Dropped(), torch.randn(2, 4, 8), r"attention.*dropout_p=0\.5.*draws random numbers"),
        (nn.Identity(), torch.randn(2, 16), "no operators"),
        (nn.Linear(16, 2), torch.randn(2, 3), r"float32\[2, 3\].*2x3 and 16x2.*shapes and dtypes"),
        (nn.Linear(16, 2), torch.ones(2, 16, dtype=torch.int64), r"int64\[2, 16\].*same dtype"),
        (nn.Linear(16, 2), 3, "hold a int"),
        (nn.Linear(16, 2), "text", "hold a str"),
        (nn.Linear(16, 2), (), "are empty"),
        (nn.Linear(16, 2), {"input": [1.0]}, "hold a float"),
        (torch.relu, torch.randn(2, 16), "is a torch.nn.Module, not builtin"),
    ],
)
def test_what_cannot_be_captured_is_one_clear_message(model, inputs, message, capfd):
    with pytest.raises(CaptureError, match=message) as error:
        trace(model, inputs)
    assert "\n" not in str(error.value)
    assert capfd.readouterr().err == ""


def test_the_users_line_of_a_wrong_shape_is_named():
    with pytest.raises(
        CaptureError, match=re.escape(f"{__file__}:{line_of('left = torch.relu(')}")
    ):
        trace(Residual(), torch.randn(2, 15))


def test_a_weight_that_is_no_number_is_named():
    model = nn.Sequential(nn.Linear(4, 3))
    mg = trace(model, torch.randn(2, 4))
    check_finite(mg)
    with torch.no_grad():
        mg.model.get_parameter("0.weight")[2, 1] = float("nan")
    with pytest.raises(CaptureError, match=r"0\.weight\[2, 1\] of sequential is nan"):
        check_finite(mg)


def test_an_unknown_node_lists_the_known():
    mg = trace(nn.Linear(4, 3), torch.randn(2, 4), name="3 layers")
    assert mg.name == "model_3_layers"
    with pytest.raises(MaseError, match=r"no node called 'fc9'; known: .*linear"):
        mg.node("fc9")


def test_one_inference_has_a_batch_of_one():
    assert trace(nn.Linear(4, 3), torch.randn(5, 4)).one_inference()[0].shape == (1, 4)
    assert trace(nn.Linear(4, 3), torch.randn(4)).one_inference()[0].shape == (4,)
    assert isinstance(trace(nn.Linear(4, 3), torch.randn(5, 4)).copy(), MaseGraph)


def test_tied_weights_stay_tied():
    first = nn.Linear(4, 4, bias=False)
    second = nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    mg = trace(nn.Sequential(first, second), torch.randn(2, 4))
    assert len(list(mg.model.parameters())) == len(list(mg.copy().model.parameters())) == 1


def routed(x):
    values, indices = x.topk(2, -1)
    values /= values.sum(-1, keepdim=True)
    return values, x.gather(-1, indices)


def window(x):
    y = x * 2
    y[:, 0] += 1
    return y


def halves(x):
    x = x + 1
    first, second = x.chunk(2, -1)
    first.mul_(2)
    return x, second


def positions(x):
    """Write to views of a constant, which is read as a whole."""
    positions = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij"))
    positions = positions.flatten(1).contiguous()
    positions[0] += 3
    positions[1] *= 2
    return x + positions.sum(0)


class AnyArguments(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x, **kwargs):
        return self.fc(x) + kwargs["bias"]


def test_arguments_without_names_of_their_own_leave_the_batch_free():
    model, x, bias = AnyArguments(), torch.randn(7, 4), torch.randn(7, 3)
    mg = trace(model, {"x": x[:2], "bias": bias[:2]})
    assert mg.batched
    assert [node.name for node in mg.inputs] == ["x", "bias"]
    assert torch.equal(mg(x=x, bias=bias), model(x, bias=bias))
    assert "forward" not in vars(model)


class SharedIndex(nn.Module):
    """Picks the same elements of every head of every row, and puts them elsewhere."""

    def __init__(self, form):
        super().__init__()
        self.form = form
        self.register_buffer("index", torch.tensor([[2, 0, 1], [1, 1, 3]]))
        self.register_buffer("matrix", torch.randn(4, 4))

    def forward(self, x):
        rows = x.size(0)
        x = x.reshape(-1, 2, 4)
        return self.picked(x).reshape(rows, 3, 2, -1)

    def picked(self, x):
        index = self.index.unsqueeze(0).expand(x.size(0), 2, 3)
        if self.form == "gather":
            return torch.gather(x, -1, index)
        if self.form == "scatter":
            return torch.scatter(x, -1, index, x[..., :3] * 2)
        if self.form == "scatter_add":
            return torch.scatter_add(x, -1, index, x[..., :3])
        return torch.bmm(x, self.matrix.expand(x.size(0), 4, 4))


class Filled(nn.Module):
    """Looks up a constant of the input's shape."""

    def __init__(self, fill):
        super().__init__()
        self.table, self.other, self.fill = nn.Embedding(9, 4), nn.Embedding(9, 4), fill

    def forward(self, ids):
        return self.table(ids) + self.other(self.fill(ids))


class Boxes(nn.Module):
    """Looks up the width of boxes, which is never negative."""

    def __init__(self, across=False):
        super().__init__()
        self.widths = nn.Embedding(9, 4)
        self.across = across

    def forward(self, boxes):
        y = self.widths(boxes[..., 1] - boxes[..., 0])
        return y - y.mean(0) if self.across else y * 2


BOXES = torch.tensor([[[1, 4], [2, 2]], [[0, 8], [3, 5]]])


def masked(x):
    """Add a mask that is made for every call, in the type of what is given."""
    mask = x.new_zeros((4, 4))
    mask[1:3, :2] = -1.0
    return x + mask.unsqueeze(0) + x.new_full((4,), 0.5)


def one_before(x):
    """Compute with a dimension of one before the batch, as layers make for a single sample."""
    rows = functional.normalize(functional.instance_norm(x[None]), dim=-1)
    return rows.repeat_interleave(2, -1)[0]


def reals(rows, *shape):
    return torch.rand(rows, *shape, generator=torch.Generator().manual_seed(rows))


def ids(rows):
    return torch.arange(rows * 3).reshape(rows, 3) % 9


FREE = {
    "layers": (lambda: Residual().eval(), 1, lambda rows: reals(rows, 16)),
    "a constant joined with each row": (Prefix, 1, lambda rows: reals(rows, 16)),
    "shape arithmetic": (lambda: Apply(heads), 1, lambda rows: reals(rows, 16)),
    "results in place": (lambda: Apply(routed), 3, lambda rows: reals(rows, 5)),
    "a view in place": (lambda: Apply(window), 3, lambda rows: reals(rows, 16)),
    "halves in place": (lambda: Apply(halves), 3, lambda rows: reals(rows, 16)),
    "a constant in place": (lambda: Apply(positions), 3, lambda rows: reals(rows, 16)),
    "constants like a tensor": (lambda: Apply(masked), 3, lambda rows: reals(rows, 4, 4)),
    "a dimension before the batch": (lambda: Apply(one_before), 3, lambda rows: reals(rows, 4)),
    "some whole numbers are legal": (Boxes, 2, lambda rows: BOXES.repeat(rows, 1, 1)[:rows]),
    **{
        form: (partial(SharedIndex, form), 2, lambda rows: reals(rows, 3, 2, 4))
        for form in ("gather", "scatter", "scatter_add", "bmm")
    },
    **{
        fill.__name__: (partial(Filled, fill), 2, ids)
        for fill in (torch.zeros_like, torch.ones_like)
    },
    "full_like": (lambda: Filled(lambda ids: torch.full_like(ids, 3)), 2, ids),
}


@pytest.mark.parametrize("name", FREE)
def test_the_batch_is_free_and_any_number_of_rows_is_the_models(name):
    torch.manual_seed(0)
    build, rows, inputs = FREE[name]
    model = build()
    mg = trace(model, inputs(rows))
    assert mg.batched
    if isinstance(model, Filled):
        assert not any("like" in target for target in targets(mg))
        assert preflight(mase_hw.quantize(mg)) == []
    graphs = [mg, canonicalize(mg, {})] if name == "a dimension before the batch" else [mg]
    for rows, graph in product((1, 2, 7), graphs):
        torch.testing.assert_close(graph(inputs(rows)), model(inputs(rows)))


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (Apply(lambda x: torch.softmax(x @ x.T, -1) @ x), reals(1, 16)),
        (Apply(lambda x: torch.relu(x.view(1, 4, 4))), reals(1, 16)),
        (Apply(lambda x: x - x.mean(0, keepdim=True)), reals(1, 16)),
        (Boxes(across=True), BOXES),
        # Rows that cannot be told apart.
        (Boxes(), BOXES[:1].repeat(2, 1, 1)),
    ],
)
def test_rows_that_depend_on_each_other_or_a_fixed_batch_are_captured_as_they_are(model, x):
    mg = trace(model, x)
    assert not mg.batched
    torch.testing.assert_close(mg(x), model(x))
    with pytest.raises(CaptureError, match="no dynamic batch"):
        trace(model, x, batched=True)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.embedding(ids))


def test_a_parameter_of_two_names_keeps_the_first():
    model = Tied()
    mg = trace(model, torch.randint(0, 9, (3, 2)))
    names = [name for name, _ in model.named_parameters()]
    assert [name for name, _ in mg.model.named_parameters()] == names == ["embedding.weight"]
    model.load_state_dict(mg.model.state_dict(), strict=False)


def test_constants_like_another_tensor_are_constants():
    folded = fold_constants_transform_pass(trace(Apply(masked), reals(3, 4, 4)))[0]
    assert targets(folded) == ["aten.add.Tensor", "aten.add.Tensor"]


def test_one_tensor_that_is_given_twice_is_two_inputs():
    x = torch.randn(3, 5)
    graph = trace(Apply(lambda a, b: a @ b.T), (x, x), batched=False)
    assert len(graph.inputs) == 2
    assert torch.equal(graph(x, 2 * x), x @ (2 * x).T)


@pytest.mark.parametrize("enabled", [True, False])
def test_a_capture_leaves_the_garbage_collection_as_it_was(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        trace(nn.ReLU(), torch.randn(2, 3))
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
