"""Every operator that keeps a state, by its examples: what one inference leaves to the next.

Nobody edits this file to add an operator.
"""

import pytest
import torch

import mase_hw
from mase_hw.emit.project import load_reference
from mase_hw.ops import Stateful, operators
from tests.engines import each, exact

EXAMPLES = {
    f"{operator.name} {number}": example
    for operator in operators().values()
    if isinstance(operator, Stateful)
    for number, example in enumerate(operator.examples())
}
STEPS = 12


@pytest.fixture(scope="module", params=EXAMPLES)
def project(request, tmp_path_factory):
    module, inputs = EXAMPLES[request.param]
    graph = mase_hw.quantize(mase_hw.trace(module, inputs))
    return mase_hw.emit_verilog(graph, output=tmp_path_factory.mktemp("state"), parallelism=2)


@pytest.mark.first(1)
@each
def test_a_sequence_is_exact_in_the_cycles_that_are_predicted(project, engine):
    report = mase_hw.simulate(project, samples=STEPS, seed=1, engine=engine)
    assert report.is_right, report.first_mismatch or report.violations
    for stalled in ("inputs", "outputs"):
        exact(project, samples=STEPS, seed=2, engine=engine, stall=0.4, stalled=stalled)


def test_the_reference_carries_the_state_and_begins_anew_with_every_call(project):
    generator = torch.Generator().manual_seed(0)
    codes = [
        stream.spec.quantized.random_codes((STEPS, *stream.spec.shape), generator)
        for stream in project.design.inputs
    ]
    reference, (output,) = load_reference(project.folder), project.design.outputs
    whole = reference(codes, ())[output.node]
    assert torch.equal(whole, reference(codes, ())[output.node])
    last = reference([item[-1:] for item in codes], ())[output.node]
    assert not torch.equal(whole[-1:], last)
