"""The table of noise of a graph, measured part by part and kept in a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from mase_hw._results import result_file
from mase_hw.graph.mase_graph import MaseGraph
from mase_hw.passes.formats.agreement import checksum
from mase_hw.precision.noise import NoiseMeter, NoiseTable, Progress, parts
from mase_hw.precision.operands import Operand
from mase_hw.precision.propagation import Measure
from mase_hw.precision.samples import Samples

# Examples on which the noise of options is measured.
EXAMPLES = 96
STATE = "noise.json"


def measured_noise(
    mg: MaseGraph,
    operands: Sequence[Operand],
    measure: Measure,
    samples: Samples,
    seed: int,
    output: Path | None,
    advance: Progress,
) -> NoiseTable:
    """Return the noise of every option, as far as it is not in a file already.

    Args:
        mg: a canonical graph.
        operands: what is rounded.
        measure: which outputs count.
        samples: of which `EXAMPLES` are run.
        seed: of the random vectors.
        output: the folder of the file `STATE`; None for none.
        advance: told of parts.
    """
    table = NoiseTable(operands, len(measure.targets))
    meter = NoiseMeter(mg, operands, measure, seed)
    key = _key(mg, operands, measure, samples, seed)
    state = output / STATE if output else None
    known = json.loads(state.read_text()) if state and state.is_file() else {}
    if key in known:
        table.load(known[key])
    chunks = parts(mg, samples.spread(mg, EXAMPLES), EXAMPLES)
    for number, inputs in enumerate(chunks):
        if number >= table.done:
            meter.add(table, inputs)
            if state:
                with result_file(state) as made:
                    made.write_text(json.dumps({**known, key: table.to_dict()}))
        advance(number + 1, len(chunks))
    return table


def _key(
    mg: MaseGraph, operands: Sequence[Operand], measure: Measure, samples: Samples, seed: int
) -> str:
    options = [[item.name, [str(o.number_format) for o in item.options]] for item in operands]
    targets = [(item.node.name, item.channels.tolist()) for item in measure.targets]
    counted = [measure.weigh.__name__, targets]
    known = [checksum(mg), samples.digest(), seed, counted, options]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()
