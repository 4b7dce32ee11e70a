"""The modules of element-wise operators and casts against their references, bit by bit."""

import numpy as np
import torch

from mase_hw.formats import make_format
from mase_hw.ops import Call, TensorSpec, operators
from mase_hw.timing.order import room
from mase_hw.timing.stages import NodeStages

FIXED = {"name": "fixed", "width": 8, "frac_width": 4}
UNSIGNED = {**FIXED, "width": 6, "frac_width": 2, "signed": False, "rounding": "floor"}


def test_batch_norm_is_an_exact_product_and_a_rounded_sum():
    spec = TensorSpec((1, 4, 3), parallelism=(1, 3))
    fixed = make_format(FIXED)
    number = {
        name: TensorSpec((4,)).with_format(fixed) for name in ("weight", "bias", "mean", "variance")
    }
    operator = operators()["batch_norm"]
    given = Call(
        "norm",
        operator,
        {"data_in_0": spec.with_format(fixed), **number},
        {"data_out_0": spec.with_format(make_format(UNSIGNED))},
        {name: torch.arange(1, 5) / 4 for name in number},
        {"eps": 1e-5},
    )
    call = operator.bind(given)
    netlist = call.operator.hardware(call)
    product, total = netlist.cells["product_inst"], netlist.main
    assert (product.multipliers, total.multipliers, netlist.multipliers) == (3, 0, 3)
    assert product.data_out_0.width == 16 and product.data_out_0.fraction == 8
    arrivals = {"data_in_0": np.array([5, 9, 10, 30])}
    assert NodeStages(netlist, arrivals).run(arrivals)[1].tolist() == [15, 19, 20, 40]
    # The product alone has room for 7 beats.
    assert (room(netlist, "data_in_0", np.arange(4)) < 0).all()
