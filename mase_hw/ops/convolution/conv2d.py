"""Convolution of images (torch.nn.functional.conv2d), zeros outside."""

from __future__ import annotations

from torch import Tensor, nn

from mase_hw.geometry.window import Axis, image_size, pair
from mase_hw.ops._base import Call, Example, example_values
from mase_hw.ops.convolution._convolution import Convolution


class Conv2d(Convolution):
    """Cross-correlation with stride, padding, dilation and groups."""

    name = "conv2d"
    targets = ("aten.conv2d.default", "aten.conv2d.padding")
    dimensions = 2

    def axes(self, call: Call) -> tuple[Axis, Axis]:
        """Slide with stride, dilation and padding."""
        _, *sizes = image_size(call.operands["data_in_0"])
        _, *positions = image_size(call.result)
        kernel = pair(call.operands["weight"].shape[2:], self.dimensions, 1)
        stride = pair(call.attributes["stride"], self.dimensions, 1)
        dilation = pair(call.attributes["dilation"], self.dimensions, 1)
        padding = call.attributes["padding"]
        if isinstance(padding, str):
            # With `same`, an odd column of padding goes behind.
            spans = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
            before = [span // 2 if padding == "same" else 0 for span in spans]
        else:
            before = list(pair(padding, self.dimensions, 0))
        vertical, horizontal = (
            Axis.sliding(sizes[i], kernel[i], stride[i], dilation[i], before[i], positions[i])
            for i in (0, 1)
        )
        return vertical, horizontal

    def filters(self, call: Call, weight: Tensor) -> Tensor:
        return weight

    def examples(self) -> list[Example]:
        """Stride, padding, dilation and groups; each channel for itself."""
        return [
            (
                nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=1, bias=False),
                (example_values(2, 2, 7, 4),),
            ),
            (nn.Conv2d(6, 6, 3, groups=2, dilation=(1, 2)), (example_values(2, 6, 3, 6),)),
            (nn.Conv2d(4, 4, 3, padding="same", groups=4), (example_values(2, 4, 3, 4),)),
        ]
