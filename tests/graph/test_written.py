"""What models write in place: parts of values, states of a stream; rows that they make."""

import copy

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.preflight import preflight
from mase_hw.errors import CaptureError
from tests.modules import Layers

SIXTEEN_BITS = {"name": "fixed", "data_in_width": 16, "weight_width": 16, "bias_width": 16}


def model_of(function, state=(), sizes=(4, 6)):
    return Layers(
        function,
        linear=nn.Linear(*sizes),
        gru=nn.GRU(*sizes),
        vector=nn.Parameter(torch.randn(sizes[0])),
        state=torch.zeros(state),
    ).eval()


def part(m, x):
    x[:, 2:] = 0
    return x * 1.5


def scaled(m, x):
    x[:, 2:] *= 2
    return x + 1


def column(m, x):
    x[:, 1] = x[:, 0]
    return m.linear(x)


def before_the_batch(m, x):
    places = torch.empty(3, x.shape[0], 4)
    places[0, :, :] = x
    places[1] = 2 * x
    places[2] = places[0] + places[1]
    return places.permute(1, 0, 2)


def step(m, x):
    return m.gru(x.unsqueeze(0), torch.zeros(1, x.shape[0], 6))[1].squeeze(0)


FREE = {
    "part": part,
    "scaled": scaled,
    "column": column,
    "before the batch": before_the_batch,
    "step": step,
    "expand_as": lambda m, x: (m.linear(x), m.vector.expand_as(x) * x.abs()),
    "broadcast_to": lambda m, x: x * torch.broadcast_to(m.vector, x.shape),
    "joined": lambda m, x: torch.cat([x, m.vector.expand_as(x)], 1),
    "layer of a constant": lambda m, x: m.linear(m.vector.expand_as(x)) + m.linear(x),
    "returned": lambda m, x: (m.linear(x), m.vector.expand_as(x)),
    "rows that are said": lambda m, x: torch.tanh(torch.zeros(8, 6) + m.linear(x)),
    "states that are said": lambda m, x: m.gru(x[None], m.state.repeat(1, 8, 6))[1][0],
    "rows of a view": lambda m, x: m.linear(x).view(8, 2, 3).sum(1),
}


@pytest.mark.parametrize("name", FREE)
def test_what_is_written_or_made_for_the_rows_leaves_the_batch_free(name):
    torch.manual_seed(0)
    model = model_of(FREE[name], (1, 1, 1))
    graph = mase_hw.trace(model, torch.randn(8, 4))
    assert graph.batched
    x = torch.randn(8, 4)
    outputs = graph(x), model(x.clone())
    torch.testing.assert_close(*outputs)
    graph(torch.randn(5, 4))
    assert preflight(mase_hw.quantize(graph)) == []


@pytest.mark.parametrize("place", ["state", "attribute"])
@pytest.mark.parametrize("equal", [True, False])
def test_equal_rows_of_a_constant_are_one_row(place, equal):
    rows = torch.randn(1, 6).repeat(8, 1) if equal else torch.randn(8, 6)
    model = model_of(lambda m, x: m.linear(x) * getattr(m, place))
    setattr(model, place, rows)
    graph = mase_hw.trace(model, torch.randn(8, 4))
    assert graph.batched == equal
    x = torch.randn(8, 4)
    torch.testing.assert_close(graph(x), model(x))
    assert torch.equal(model(x), model.linear(x) * rows)


def frames(count, write):
    def function(m, x):
        seen = torch.cat([m.state, x], -1)
        write(m, seen[..., -count:], x)
        return nn.functional.conv1d(seen, torch.ones(1, 2, count + 1))

    return model_of(function, (1, 2, count))


def rolled(m, last, x):
    m.state.copy_(m.state.roll(-1, -1))
    m.state[..., -1] = x[..., 0]


def copied(m, last, x):
    m.state.copy_(last)


def assigned(m, last, x):
    m.state = last


def sliced(m, last, x):
    m.state[:] = last


STREAMS = [(2, copied, 4), (2, assigned, 1), (5, sliced, 3), (3, rolled, 1)]


@pytest.mark.parametrize(("count", "write", "size"), STREAMS)
def test_a_cache_of_frames_is_kept_from_inference_to_inference(count, write, size, tmp_path):
    torch.manual_seed(0)
    model = frames(count, write).eval()
    steps = [(torch.randn(1, 2, size),) for _ in range(6)]
    graph = mase_hw.trace(model, steps[0])
    assert graph.keeps_state
    assert not graph.batched
    stepped = copy.deepcopy(model)
    for step in steps:
        torch.testing.assert_close(graph(*step), stepped(*step))
    config = {"by": "type", "default": {"config": SIXTEEN_BITS}}
    project = mase_hw.emit_verilog(mase_hw.quantize(graph, config, data=steps), output=tmp_path)
    report = mase_hw.simulate(project, torch.stack([step for (step,) in steps]), stall=0.3)
    assert report.bit_exact


def counted(m, x):
    m.state += 1
    return x * m.state


def leaky(m, x):
    m.state.mul_(0.5).add_(x)
    return m.state * 2


@pytest.mark.parametrize("write", [counted, leaky])
def test_a_state_that_is_computed_of_itself_is_refused_with_what_to_write(write):
    with pytest.raises(CaptureError, match=r"\(state\) at /.*take the state as an"):
        mase_hw.trace(model_of(write, (1, 4)), torch.randn(1, 4))


def test_a_mask_that_hides_nothing_is_no_mask():
    def masked(m, x):
        scores = torch.where(torch.ones(1, 4, dtype=torch.bool), x, -3.4e38)
        return torch.softmax(scores + torch.zeros(1, 4), -1)

    graph = mase_hw.quantize(mase_hw.trace(Layers(masked), torch.randn(8, 4)))
    assert [node.name for node in graph.nodes if node.op == "call_function"] == ["softmax"]
