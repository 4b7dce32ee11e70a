"""A vision transformer (Dosovitskiy et al. 2021, arXiv:2010.11929) on handwritten digits."""

from __future__ import annotations

from torch import Tensor, nn

from mase_hw._kinds import Table
from mase_hw.models._base import EIGHT_BITS, RegisteredModel

SIZES: Table = {
    "image_size": 28,
    "patch_size": 7,
    "num_channels": 1,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "num_labels": 10,
}


class ImageClassifier(nn.Module):
    """A classifier from transformers: pixels to scores.

    Args:
        model: takes `pixel_values`.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """Return scores `[samples, classes]` of images."""
        scores: Tensor = self.model(pixel_values=pixels).logits
        return scores


class VitMnist(RegisteredModel):
    """Two layers of 64 with 4 heads, on 16 patches and a token for the class."""

    name = "vit-mnist"
    data = "mnist"
    config = EIGHT_BITS
    parallelism = "auto"
    epochs = 20
    learning_rate = 2e-3

    def build(self) -> nn.Module:
        from transformers import ViTConfig, ViTForImageClassification

        return ImageClassifier(ViTForImageClassification(ViTConfig(**SIZES)))
