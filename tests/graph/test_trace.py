"""Capture: what is captured, what it is called, where it comes from, what is refused."""

import gc
import importlib.util
import re
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


def test_the_graph_computes_what_the_model_computes_at_any_batch():
    model = Residual().eval()
    mg = trace(model, torch.randn(1, 16))
    assert mg.batched
    for batch in (1, 2, 7):
        x = torch.randn(batch, 16)
        torch.testing.assert_close(mg(x), model(x))


def test_names_follow_module_paths():
    assert calls(trace(Residual(), torch.randn(2, 16))) == [
        "view", "fc1", "bn", "relu", "fc2", "drop", "act", "add", "relu_1", "reshape", "mul",
    ]  # fmt: skip


def test_names_of_nested_shared_and_reserved_modules():
    mg = trace(Nested(), torch.randn(2, 4))
    assert calls(mg) == [
        "block_0", "block_1_sigmoid", "block_1_mul", "shared",
        "linear_output", "shared_1", "op_sum",
    ]  # fmt: skip
    assert "linear_output_weight" in [node.name for node in mg.nodes]
    assert metadata(mg.node("block_1_mul")).module_path == "block.1"


def test_names_are_valid_in_python_and_systemverilog_and_unique():
    names = [
        node.name
        for node in trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.ones(2, 4)).nodes
    ]
    assert names == [
        "linear_0_weight",
        "linear_0_bias",
        "model_input",
        "linear_0",
        "relu_1",
        "output",
    ]
    for model, size in ((Residual(), 16), (Nested(), 4)):
        names = [
            node.name for node in trace(model, torch.randn(2, size)).nodes if node.op != "output"
        ]
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


def test_a_sequential_has_module_paths_but_no_line_of_the_user():
    known = metadata(trace(nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)).node("linear_0"))
    assert known.module_path == "0"
    assert str(known.source) == "-"


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
    class Accumulate(nn.Module):
        def forward(self, x):
            y = x * 2
            y += x
            z = y + 1
            y.mul_(z)
            return y, z

    x = torch.randn(3, 4)
    mg = trace(Accumulate(), x)
    assert targets(mg) == [
        "aten.mul.Tensor",
        "aten.add.Tensor",
        "aten.add.Tensor",
        "aten.mul.Tensor",
    ]
    assert mg(x)[0].equal(Accumulate()(x.clone())[0])


def test_outputs_keep_their_structure_and_keywords_are_inputs():
    mg = trace(Nested(), {"x": torch.randn(2, 4)})
    x = torch.randn(3, 4)
    outputs = mg(x=x)
    assert set(outputs) == {"first", "rest"}
    assert isinstance(outputs["rest"], list)
    assert torch.equal(outputs["rest"][1], x.sum(-1))


class Pairwise(nn.Module):
    def forward(self, x):
        return torch.softmax(x @ x.T, -1) @ x


class FixedBatch(nn.Module):
    def forward(self, x):
        return torch.relu(x.view(1, 4, 4))


class Centered(nn.Module):
    def forward(self, x):
        return x - x.mean(0, keepdim=True)


class Prefix(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 16))

    def forward(self, x):
        return torch.cat([self.token.expand(x.size(0), 16), x], 1)


@pytest.mark.parametrize("model", [Pairwise(), FixedBatch(), Centered()])
def test_rows_that_depend_on_each_other_or_a_fixed_batch_are_captured_as_they_are(model):
    x = torch.randn(1, 16)
    mg = trace(model, x)
    assert not mg.batched
    torch.testing.assert_close(mg(x), model(x))
    with pytest.raises(CaptureError, match="no dynamic batch"):
        trace(model, x, batched=True)


def test_a_constant_that_is_joined_with_every_inference_is_kept_once():
    model = Prefix()
    mg = trace(model, torch.randn(1, 16))
    assert mg.batched
    x = torch.randn(5, 16)
    assert torch.equal(mg(x), model(x))


def test_shape_arithmetic_that_carries_the_batch_is_removed():
    class Heads(nn.Module):
        def forward(self, x):
            b, n = x.shape
            y = x.reshape(b * 2, n // 2).reshape(b, 2, n // 2).transpose(1, 2)
            return y.reshape(b, -1)

    mg = trace(Heads(), torch.randn(1, 16))
    assert mg.batched
    x = torch.randn(5, 16)
    assert torch.equal(mg(x), Heads()(x))


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


class Window(nn.Module):
    def forward(self, x):
        y = x * 2
        y[:, 0] += 1
        return y


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.rand(16)


class Dropped(nn.Module):
    def forward(self, x):
        return nn.functional.scaled_dot_product_attention(x, x, x, dropout_p=0.5)


class Unused(nn.Module):
    def forward(self, x):
        nn.functional.dropout(-x, training=False)
        return x * 2


def test_a_result_that_nobody_takes_is_left_out():
    graph = trace(Unused(), torch.randn(2, 16))
    assert [node.name for node in graph.nodes if node.op == "call_function"] == ["mul"]


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
    for mg in (trace(nn.Sequential(first, second), torch.randn(2, 4)),):
        assert len(list(mg.model.parameters())) == len(list(mg.copy().model.parameters())) == 1


def test_in_place_on_one_of_several_results_that_share_no_memory():
    class Router(nn.Module):
        def forward(self, x):
            values, indices = x.topk(2, -1)
            values /= values.sum(-1, keepdim=True)
            return values, x.gather(-1, indices)

    x = torch.rand(3, 5)
    found, expected = trace(Router(), x)(x), Router()(x)
    assert all(map(torch.equal, found, expected))


class Halves(nn.Module):
    def forward(self, x):
        x = x + 1
        first, second = x.chunk(2, -1)
        first.mul_(2)
        return x, second


class Positions(nn.Module):
    """Writes to views of a constant, which is read as a whole."""

    def forward(self, x):
        positions = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij"))
        positions = positions.flatten(1).contiguous()
        positions[0] += 3
        positions[1] *= 2
        return x + positions.sum(0)


@pytest.mark.first(1)
@pytest.mark.parametrize("model", [Window(), Halves(), Positions()])
def test_in_place_on_a_view_of_what_is_read_afterwards(model):
    x = torch.rand(3, 16)
    mg = trace(model, x)
    assert mg.batched
    found, expected = mg(x), model(x)
    assert all(map(torch.equal, found, expected))


class AnyArguments(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x, **kwargs):
        return self.fc(x) + kwargs["bias"]


def test_arguments_without_names_of_their_own_leave_the_batch_free():
    model = AnyArguments()
    mg = trace(model, {"x": torch.randn(2, 4), "bias": torch.randn(2, 3)})
    assert mg.batched
    assert [node.name for node in mg.inputs] == ["x", "bias"]
    x, bias = torch.randn(7, 4), torch.randn(7, 3)
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


@pytest.mark.parametrize("form", ["gather", "scatter", "scatter_add", "bmm"])
def test_a_shared_constant_keeps_its_rows_where_it_does_not_broadcast(form):
    torch.manual_seed(0)
    model = SharedIndex(form)
    mg = trace(model, torch.randn(2, 3, 2, 4))
    assert mg.batched
    for count in (1, 2, 5):
        x = torch.randn(count, 3, 2, 4)
        torch.testing.assert_close(mg(x), model(x), rtol=0, atol=0)


@pytest.mark.parametrize(
    "fill", [torch.zeros_like, torch.ones_like, lambda ids: torch.full_like(ids, 3)]
)
def test_a_constant_of_an_inputs_shape_is_one_row(fill):
    table, other = nn.Embedding(9, 4), nn.Embedding(9, 4)
    model = nn.Module()
    model.table, model.other = table, other
    model.forward = lambda ids: table(ids) + other(fill(ids))
    ids = torch.randint(0, 9, (2, 3))
    mg = trace(model, ids)
    assert mg.batched
    assert not any("like" in str(node.target) for node in mg.nodes)
    ids = torch.randint(0, 9, (5, 3))
    assert torch.equal(mg(ids), model(ids))
    assert preflight(mase_hw.quantize(mg)) == []


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


def test_the_batch_is_free_where_only_some_whole_numbers_are_legal():
    model = Boxes()
    mg = trace(model, BOXES)
    assert mg.batched
    assert torch.equal(mg(BOXES.repeat(3, 1, 1)), model(BOXES.repeat(3, 1, 1)))


def test_the_batch_is_fixed_where_rows_cannot_be_told_apart():
    assert not trace(Boxes(), BOXES[:1].repeat(2, 1, 1)).batched


def test_a_batch_that_does_not_lead_every_tensor_inside_is_fixed():
    assert not trace(Boxes(across=True), BOXES).batched


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


class Masked(nn.Module):
    """Adds a mask that is made for every call, in the type of what is given."""

    def forward(self, x):
        mask = x.new_zeros((4, 4))
        mask[1:3, :2] = -1.0
        return x + mask.unsqueeze(0) + x.new_full((4,), 0.5)


def test_constants_like_another_tensor_are_constants():
    x = torch.randn(3, 4, 4)
    mg = trace(Masked(), x)
    assert mg.batched
    torch.testing.assert_close(mg(x), Masked()(x))
    folded = fold_constants_transform_pass(mg)[0]
    names = [str(node.target) for node in folded.nodes if node.op == "call_function"]
    assert names == ["aten.add.Tensor", "aten.add.Tensor"]


class Products(nn.Module):
    def forward(self, a, b):
        return a @ b.T


def test_one_tensor_that_is_given_twice_is_two_inputs():
    x = torch.randn(3, 5)
    model = Products()
    graph = trace(model, (x, x), batched=False)
    assert len([node for node in graph.nodes if node.op == "placeholder"]) == 2
    assert torch.equal(graph(x, 2 * x), x @ (2 * x).T)


class OneBefore(nn.Module):
    """A dimension of one before the batch, as layers make for a sample without a batch."""

    def forward(self, x):
        rows = functional.normalize(functional.instance_norm(x[None]), dim=-1)
        return rows.repeat_interleave(2, -1)[0]


def test_a_dimension_before_the_batch_is_put_behind_it():
    graph = canonicalize(trace(OneBefore(), (torch.randn(3, 4),)), {})
    x = torch.randn(7, 4)
    assert torch.allclose(graph(x), OneBefore()(x), atol=1e-5)


@pytest.mark.parametrize("enabled", [True, False])
def test_a_capture_leaves_the_garbage_collection_as_it_was(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        trace(nn.ReLU(), torch.randn(2, 3))
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
