"""Products with constants become linear layers, and factors of sums products."""

import copy

import pytest
import torch
import transformers.integrations.moe  # noqa: F401
from torch import nn
from torch.nn.functional import linear

import mase_hw
from mase_hw.emit.flow import canonicalize, quantize
from mase_hw.emit.preflight import preflight
from mase_hw.formats.mx import MXInt
from mase_hw.graph import common, metadata, trace, update
from mase_hw.ops.products.grouped_product import grouped_linear
from mase_hw.passes.configuration import FLOAT
from tests.bench.architectures import model_and_inputs


def values(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class With(nn.Module):
    """Calls a function of the inputs and of parameters of the given shapes."""

    def __init__(self, function, *shapes):
        super().__init__()
        self.function = function
        self.constants = nn.ParameterList(
            nn.Parameter(values(*shape, seed=seed)) for seed, shape in enumerate(shapes, 1)
        )

    def forward(self, *inputs):
        return self.function(*inputs, *self.constants)


def operators_of(mg):
    return [common(node).operator for node in mg.nodes if node.op == "call_function"]


LAYERS = {
    "x @ W": (lambda x, w: x @ w, [(4, 5)], (3, 4)),
    "x @ W, rank 3": (lambda x, w: x @ w, [(4, 5)], (3, 2, 4)),
    "x @ W, rank 4": (lambda x, w: x @ w, [(4, 5)], (3, 2, 3, 4)),
    "x @ W, one inference": (lambda x, w: x @ w, [(4, 5)], (4,)),
    "x @ W.t()": (lambda x, w: x @ w.t(), [(5, 4)], (3, 4)),
    "x @ W.T": (lambda x, w: x @ w.T, [(5, 4)], (3, 2, 4)),
    "x @ [W]": (lambda x, w: x @ w, [(1, 4, 5)], (3, 2, 4)),
    "x @ w": (lambda x, w: x @ w, [(4,)], (3, 2, 4)),
    "W @ x": (lambda x, w: w @ x, [(5, 4)], (3, 4, 2)),
    "W @ x, one inference": (lambda x, w: w @ x, [(5, 4)], (4,)),
    "w @ x": (lambda x, w: w @ x, [(4,)], (3, 4, 2)),
    "mm": (torch.mm, [(4, 5)], (3, 4)),
    "addmm": (lambda x, w, b: torch.addmm(b, x, w), [(4, 5), (5,)], (3, 4)),
    "addmm of a row": (lambda x, w, b: torch.addmm(b, x, w), [(4, 5), (1, 5)], (3, 4)),
    "linear of a vector": (linear, [(4,)], (3, 2, 4)),
    "linear, transposed": (lambda x, w: linear(x, w.t()), [(4, 5)], (3, 4)),
    "einsum": (lambda x, w: torch.einsum("bld,de->ble", x, w), [(4, 5)], (3, 2, 4)),
    "einsum, dots": (lambda x, w: torch.einsum("...d,ed", x, w), [(5, 4)], (3, 2, 4)),
    "einsum, constant first": (lambda x, w: torch.einsum("ed,bd->be", w, x), [(5, 4)], (3, 4)),
    "einsum, columns": (lambda x, w: torch.einsum("bdl,de->bel", x, w), [(4, 5)], (3, 4, 2)),
    "einsum, two sums": (lambda x, w: torch.einsum("bhd,hde->be", x, w), [(2, 4, 5)], (3, 2, 4)),
    "einsum, two new": (lambda x, w: torch.einsum("bd,hed->bhe", x, w), [(2, 5, 4)], (3, 4)),
    "einsum, no new": (lambda x, w: torch.einsum("bhd,hd->b", x, w), [(2, 4)], (3, 2, 4)),
    "einsum, alone": (lambda x, w: torch.einsum("bld,de->be", x, w), [(4, 5)], (3, 2, 4)),
}


SEVERAL = {
    "einsum, matrices": (lambda x, w: torch.einsum("bld,lde->ble", x, w), [(2, 4, 5)], (3, 2, 4)),
    "einsum, diagonal": (lambda x, w: torch.einsum("bld,dde->ble", x, w), [(4, 4, 5)], (3, 2, 4)),
    "einsum, three": (
        lambda x, v, w: torch.einsum("bd,df,fe->be", x, v, w),
        [(4, 5), (5, 3)],
        (3, 4),
    ),
    "matrices of one": (lambda x, w: x.unsqueeze(1) @ w, [(2, 4, 5)], (3, 2, 4)),
    "matrices of matrices": (lambda x, w: x @ w, [(2, 3, 4, 5)], (3, 2, 3, 2, 4)),
}


@pytest.mark.parametrize("name", [*LAYERS, *SEVERAL])
def test_a_product_with_constants_is_written_with_linear_layers(name):
    function, shapes, shape = {**LAYERS, **SEVERAL}[name]
    model, x = With(function, *shapes), values(*shape)
    mg = canonicalize(trace(model, x))
    # One inference has no batch to join.
    more = torch.cat([x, x.flip(0)]) if mg.batched else x
    torch.testing.assert_close(mg(more), model(more))
    operators = operators_of(mg)
    assert "linear" in operators
    assert not {"matmul", "einsum"} & {*operators}
    if name in LAYERS:
        assert operators.count("linear") == 1
        assert not {"mul", "add", "addmm"} & {*operators}
        assert len(list(mg.model.parameters())) == len(shapes), "they are trained as before"
    assert preflight(quantize(mg)) == []


def test_factors_of_addmm_are_those_of_its_constants():
    model = With(lambda x, w, b: torch.addmm(b, x, w, beta=2, alpha=0.5), (4, 5), (5,))
    mg = canonicalize(trace(model, values(3, 4)))
    assert operators_of(mg) == ["linear"]
    torch.testing.assert_close(mg(values(7, 4)), model(values(7, 4)))


def test_a_parameter_that_others_read_does_not_become_two():
    model = With(lambda x, w: linear(linear(x, w), w.t()), (5, 4))
    mg = canonicalize(trace(model, values(3, 4)))
    assert len(list(mg.model.parameters())) == 1
    model = With(lambda x, w: x * w[:1].expand(4), (4,))
    assert not list(canonicalize(trace(model, values(3, 4))).model.parameters())


def test_pruned_elements_stay_so_when_their_parameter_is_turned():
    mg = trace(With(lambda x, w: x @ w, (4, 5)), values(3, 4))
    for node in mg.nodes:
        if node.op == "get_attr":
            update(node, pruned=True)
    (node,) = (node for node in canonicalize(mg).nodes if node.op == "get_attr")
    assert str(node.target).startswith("folded.")
    assert metadata(node).pruned


REFUSED = {
    "a repeated stream": (
        lambda x: x.unsqueeze(1) @ x.unsqueeze(-1),
        [],
        "repeated along a leading dimension to [1, 2, 2, 1]: expand it before",
    ),
    "dimensions": (lambda x, w: x @ w, [(1, 1, 4, 5)], "squeeze it before"),
    "einsum, batch": (lambda x: torch.einsum("bld,bmd->lbm", x, x), [], "batch first"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_products_are_refused_with_what_can_be_done(name):
    function, shapes, reason = REFUSED[name]
    found = preflight(quantize(trace(With(function, *shapes), values(3, 2, 4))))
    assert reason in found[0].reason


def test_the_fix_for_several_matrices_works():
    def stacked(x, w):
        return torch.stack([x @ w[0], x @ w[1]], 1)

    model, x = With(stacked, (2, 4, 5)), values(3, 2, 4)
    torch.testing.assert_close(model(x), x.unsqueeze(1) @ model.constants[0])
    assert preflight(quantize(trace(model, x))) == []


@pytest.mark.parametrize("shape", [(2, 4, 5), (1, 2, 4, 5)])
def test_a_constant_with_a_matrix_for_each_head_is_a_layer_for_each(shape):
    for function, x in (
        (lambda x, w: x @ w, values(3, 2, 6, 4)),
        (lambda x, w: w.mT @ x, values(3, 2, 4, 6)),
    ):
        model = With(function, shape)
        mg = canonicalize(trace(model, x))
        torch.testing.assert_close(mg(x), model(x))
        assert sum("linear" in str(node.target) for node in mg.nodes) == 2
        assert preflight(quantize(mg)) == []


EXPERT = {"name": "mxint", "data_in_width": 6, "weight_width": 4, "weight_block_size": 8}


@pytest.mark.full
def test_products_of_experts_are_configured_as_linear_layers():
    model, inputs = model_and_inputs("MixtralForCausalLM")
    mg = canonicalize(trace(model, inputs))
    experts = [node.name for node in mg.nodes if "grouped_linear" in str(node.target)]
    assert len(experts) == 4
    config = {"by": "type", "linear": {"config": EXPERT}}
    with torch.no_grad():
        torch.testing.assert_close(quantize(mg, FLOAT)(**inputs), mg(**inputs))
        found = quantize(mg, config)
        call = found.call(found.node(experts[0]))
        formats = {name: str(spec.format) for name, spec in call.operands.items()}
        assert formats == {"data_in_0": "mxint<6,32>", "weight": "mxint<4,8>", "ends": "None"}
        # Rounding their weights by hand changes the logits as far as the graph does.
        alone = {"by": "name"} | {
            name: {"config": {"name": "none", "weight_name": "mxint", "weight_width": 4}}
            for name in experts
        }
        rounded = copy.deepcopy(model)
        number_format = MXInt(4, 32)
        for name, weight in rounded.named_parameters():
            if ".experts." in name:
                weight.copy_(number_format.round_values(weight))
        expected = rounded(**inputs).logits
        assert not torch.allclose(expected, model(**inputs).logits, atol=1e-4)
        torch.testing.assert_close(quantize(mg, alone)(**inputs)["logits"], expected)
    (problem,) = [item for item in preflight(found) if item.node == experts[0]]
    assert "4 matrices" in problem.reason


def test_products_of_groups_are_differentiable():
    torch.manual_seed(0)
    ends = torch.tensor([2, 2, 5])
    x, weight = torch.randn(5, 4, dtype=torch.float64), torch.randn(3, 6, 4, dtype=torch.float64)
    x.requires_grad_()
    weight.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, w: grouped_linear(x, w, ends), (x, weight))
    parts = [x[:2] @ weight[0].T, x[2:] @ weight[2].T]
    torch.testing.assert_close(grouped_linear(x, weight, ends), torch.cat(parts))


def test_groups_are_linear_layers_where_their_matrices_are_constant():
    if not hasattr(torch.ops.transformers, "grouped_mm_fallback"):
        pytest.skip("this version of transformers has no products of groups")

    def alike(x, w):
        ends = torch.tensor([2, 4], dtype=torch.int32)
        return torch.ops.transformers.grouped_mm_fallback(x, w, ends)

    model, x = With(alike, (2, 8, 4)), values(4, 8)
    assert operators_of(canonicalize(trace(model, x))) == ["linear"]
    streams = trace(With(lambda x: alike(x, x.reshape(2, 8, 2).repeat(1, 1, 2))), values(4, 8))
    assert "grouped_product" in operators_of(canonicalize(streams))


SUMS = {
    "add": (lambda x, y: torch.add(x, y, alpha=2), ["mul", "add"]),
    "sub": (lambda x, y: torch.sub(x, y, alpha=0.5), ["mul", "sub"]),
    "add, negative": (lambda x, y: torch.add(x, y, alpha=-1), ["sub"]),
    "sub, negative": (lambda x, y: torch.sub(x, y, alpha=-1), ["add"]),
    "rsub": (lambda x, y: torch.rsub(x, y, alpha=2), ["mul", "sub"]),
    "rsub, negative": (lambda x, y: torch.rsub(x, y, alpha=-1), ["add"]),
    "constant": (lambda x, y: torch.add(x, torch.ones(4), alpha=3) * y, ["add", "mul"]),
    "number": (lambda x, y: torch.add(x, 3, alpha=2) * y, ["add", "mul"]),
    "number, sub": (lambda x, y: torch.sub(x, 3, alpha=2) * y, ["sub", "mul"]),
    "number, rsub": (lambda x, y: torch.rsub(x, 3, alpha=2) * y, ["mul", "rsub", "mul"]),
}


@pytest.mark.parametrize("name", SUMS)
def test_alpha_is_a_product_or_a_sign(name):
    function, expected = SUMS[name]
    inputs = values(3, 4), values(3, 4, seed=1)
    mg = canonicalize(trace(With(function), inputs))
    assert operators_of(mg) == expected
    torch.testing.assert_close(mg(*inputs), function(*inputs))
    assert preflight(quantize(mg)) == []


@pytest.mark.full
def test_sums_with_alpha_are_simulated_bit_for_bit(tmp_path):
    def sums(x, y, w):
        return torch.rsub(torch.sub(torch.add(x, y, alpha=1.5), w, alpha=2), 3, alpha=-1)

    inputs = values(6, 4), values(6, 4, seed=1)
    project = mase_hw.emit_verilog(With(sums, (4,)), inputs, output=tmp_path / "project")
    report = mase_hw.simulate(project, inputs)
    assert report.bit_exact
