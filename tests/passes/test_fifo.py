"""Queues lie behind forks, and none holds what need not be computed yet."""

import numpy as np
import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.emit.flow import to_hardware
from mase_hw.graph.reference import spec
from mase_hw.models import models
from mase_hw.timing.back_pressure import Network
from mase_hw.timing.prediction import predict
from mase_hw.timing.queue_tree import queues_behind
from tests.modules import Layers

TOKENS, WIDTH, HEADS = 8, 16, 2


class Block(nn.Module):
    """Attention with a residual."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x):
        heads = (
            layer(x).reshape(x.shape[0], TOKENS, HEADS, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        y = nn.functional.scaled_dot_product_attention(*heads)
        return x + self.out(y.transpose(1, 2).flatten(2))


def queues_of(model, *inputs, parallelism=2):
    torch.manual_seed(0)
    mg = mase_hw.quantize(mase_hw.trace(model.eval(), inputs))
    mg = to_hardware(mg, parallelism=parallelism)
    return {
        node.name: (node.args[1], spec(node))
        for node in mg.nodes
        if node.op == "call_function" and "fifo" in str(node.target)
    }


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_attention_keeps_queries_and_the_residual_beside_keys_and_values(parallelism):
    """Each once, tokens x width codes, and what is in flight."""
    found = queues_of(Block(), torch.randn(2, TOKENS, WIDTH), parallelism=parallelism)
    codes = sum(depth * result.lanes for depth, result in found.values())
    assert TOKENS * WIDTH * 0.8 < codes < TOKENS * WIDTH * 3


def test_a_queue_lies_before_what_repeats():
    """A mask waits as one row, not as one for every query."""

    def masked(m, x, kept):
        heads = x.reshape(x.shape[0], TOKENS, HEADS, -1).transpose(1, 2)
        mask = kept.bool()[:, None, None, :]
        attention = nn.functional.scaled_dot_product_attention
        first = attention(heads, heads, heads, attn_mask=mask)
        return attention(first, first, first, attn_mask=mask).transpose(1, 2).flatten(2)

    inputs = torch.randn(2, TOKENS, WIDTH), torch.ones(2, TOKENS, dtype=torch.int64)
    found = queues_of(Layers(masked), *inputs)
    depths = {name: depth for name, (depth, _) in found.items() if name.startswith("kept")}
    assert depths
    assert all(depth * 2 <= 2 * TOKENS for depth in depths.values())


def test_results_that_never_meet_need_no_queue():
    apart = Layers(lambda m, x: (m.slow(x), x * 0.5), slow=nn.Linear(16, 16))
    assert queues_of(apart, torch.randn(2, 16)) == {}


def test_a_layer_that_bounds_the_interval_is_not_held_up(tmp_path):
    """Its results wait in a queue while what it is joined with is taken."""

    torch.manual_seed(0)
    model = Layers(lambda m, x: torch.cat([x, x, m.layer(x)], 1), layer=nn.Conv2d(4, 4, 1))
    project = mase_hw.emit_verilog(
        model.eval(), torch.randn(3, 4, 3, 3), output=tmp_path / "joined", parallelism=1
    )
    report = mase_hw.simulate(project, samples=9)
    assert report.bit_exact
    assert report.interval_cycles == report.predicted_interval_cycles == 144


def power(times):
    """Return a model whose input meets itself at once, with nothing but wires between."""

    def function(m, x):
        y = x
        for _ in range(times):
            y = y * x.reshape(x.shape)
        return y + 1

    return Layers(function)


@pytest.mark.first(1)
@pytest.mark.parametrize("times", [1, 2])
def test_an_input_that_meets_itself_is_ready_whatever_is_there(times, tmp_path):
    """The rules of streams hold at the port, at full rate."""
    mg = mase_hw.quantize(mase_hw.trace(power(times), torch.randn(8, 6)))
    project = mase_hw.emit_verilog(mg, output=tmp_path, parallelism=1)
    report = mase_hw.simulate(project, samples=10)
    assert report.bit_exact, report.violations
    assert report.interval_cycles == report.predicted_interval_cycles
    assert report.latency_cycles == report.predicted_latency_cycles
    report = mase_hw.simulate(project, samples=10, stall=0.4, stalled="inputs")
    assert report.bit_exact, report.violations


def intervals(mg, inferences):
    """Return the cycles between inferences, from the moves of every beat of several."""
    netlists = {node: mg.netlist(node) for node in mg.nodes if node.op == "call_function"}
    network = Network(mg, netlists, (), inferences)
    network.run({})
    ends = [network.offered(node).reshape(inferences, -1)[:, -1] for node in mg.outputs]
    return set(np.diff(np.max(ends, axis=0)).tolist())


@pytest.mark.parametrize("parallelism", [1, 3, "auto"])
def test_a_result_that_also_leaves_goes_on_inside_when_that_is_ready(parallelism):
    """The port takes it early, and the sum late: it waits before, where a queue is."""

    torch.manual_seed(0)
    model = Layers(lambda m, x: (y := x.relu(), y + m.linear(x)), linear=nn.Linear(WIDTH, WIDTH))
    mg = mase_hw.quantize(mase_hw.trace(model, torch.randn(4, 6, WIDTH)))
    mg = to_hardware(mg, parallelism=parallelism)
    assert intervals(mg, 5) == {predict(mg).interval_cycles}


def test_a_queue_holds_what_comes_while_beats_pass_others():
    """Each takes a cycle: a residual waits longer for what comes through several."""
    torch.manual_seed(0)
    model = models()["vit-mnist"].build().eval()
    mg = mase_hw.quantize(mase_hw.trace(model, torch.randn(2, 1, 28, 28)))
    mg = to_hardware(mg, parallelism="auto", multipliers=256)
    assert intervals(mg, 6) == {predict(mg).interval_cycles}


FIRST, SECOND, THIRD = (("node", name) for name in "abc")
STEADY = np.arange(40)


def waiting(gone, taken):
    come = np.searchsorted(gone, taken, side="right")
    return int((come - np.arange(taken.size)).max())


def queues(taken, left=STEADY, passing=1):
    return queues_behind(taken, left, waiting, passing)


def test_the_later_follows_the_queue_of_the_earlier():
    found = queues({FIRST: STEADY + 10, SECOND: STEADY + 14})
    assert found == [(FIRST, 0, 11), (SECOND, 1, 5)]


def test_what_is_taken_with_another_shares_its_queue():
    assert queues({FIRST: STEADY + 10, SECOND: STEADY + 10}) == [(FIRST, 0, 11), (SECOND, 1, 1)]


def test_what_is_taken_at_the_fork_needs_none():
    assert queues({FIRST: STEADY, SECOND: STEADY}) == []


def test_a_queue_that_would_come_late_follows_one_that_beats_leave_earlier():
    """The first operand takes a few beats at once, and then as late as the second."""
    first = np.maximum(STEADY, STEADY + 10 - 4 * (STEADY < 4))
    taken = {FIRST: first, SECOND: STEADY + 10}
    assert queues(taken) == [(None, 0, 10), (FIRST, 1, 2), (SECOND, 1, 4)]
    assert queues(taken, passing=0) == [(FIRST, 0, 11), (SECOND, 1, 4)]


def test_where_nothing_can_be_sent_earlier_each_has_its_own_queue():
    first = np.maximum(STEADY, STEADY + 1 - (STEADY < 4))
    second = STEADY + 1
    found = queues({FIRST: first, SECOND: second})
    assert found == [(FIRST, 0, 2), (SECOND, 0, 2)]
    assert queues({**dict.fromkeys((FIRST, SECOND), second), THIRD: second + 5})[2] == (THIRD, 1, 6)


def test_one_that_needs_no_queue_before_its_own_stays_at_the_fork():
    """Its beats are sparse; the queue of one that is late now and then is not for it."""
    left = 6 * STEADY
    other = np.where((STEADY > 1) & (STEADY < 5), STEADY + 28, left + 1)
    first = np.where(STEADY < 2, 3 * STEADY + 6, left + 3)
    second = np.where(STEADY < 2, STEADY + 9, left + 3)
    found = queues({FIRST: other, SECOND: first, THIRD: second}, left)
    assert found == [(FIRST, 0, 4), (SECOND, 0, 2), (THIRD, 0, 2)]
