"""What ONNX Runtime computes of a file: the codes of every rounding."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime


class Runtime:
    """Runs a file as it is written, node by node, without fused layers."""

    def __init__(self, path):
        model = onnx.load(str(path))
        roundings = [node for node in model.graph.node if node.op_type == "QuantizeLinear"]
        self.names = [node.output[0] for node in roundings]
        del model.graph.output[:]
        for name in self.names:
            model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        (self.entry,) = [item.name for item in self.session.get_inputs()]

    def codes(self, values):
        """Return the codes of every QuantizeLinear by the name of its result."""
        rows = [self.session.run(self.names, {self.entry: row[None]}) for row in values]
        parts = zip(*rows, strict=True)
        return {name: np.concatenate(part) for name, part in zip(self.names, parts, strict=True)}
