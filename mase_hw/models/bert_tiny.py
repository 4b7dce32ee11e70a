"""BERT-tiny (Turc et al. 2019, arXiv:1908.08962) as a classifier of short texts."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mase_hw._kinds import Table
from mase_hw.models._base import RegisteredModel
from mase_hw.models.hub import load_pretrained

PRETRAINED = "bert-tiny"


class TextClassifier(nn.Module):
    """A classifier from transformers whose mask follows from its input: ids to scores.

    The mask and the token types are given in full, since what transformers makes of less fixes the
    batch when the model is captured.

    Args:
        model: a BERT that pads with the id 0.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor) -> Tensor:
        """Return scores `[samples, classes]` of token ids."""
        scores: Tensor = self.model(
            input_ids=input_ids,
            attention_mask=input_ids.ne(0)[:, None, None, :],
            token_type_ids=torch.zeros_like(input_ids),
        ).logits
        return scores


class BertTiny(RegisteredModel):
    """The pretrained encoder, 2 layers of 128 with 2 heads, and a new classifier, fine-tuned."""

    name = "bert-tiny"
    data = "snippets"
    # Layer norm, softmax and the mask stay real: their ranges are not those of the layers.
    config: ClassVar[Table] = {
        "by": "type",
        "default": {"config": {"name": None}},
        "linear": {
            "config": {"name": "fixed", "data_in_width": 8, "weight_width": 8, "bias_width": 8}
        },
    }
    epochs = 3
    learning_rate = 3e-4

    def build(
        self,
        layers: int | None = None,
        heads: int | None = None,
        hidden: int | None = None,
        intermediate: int | None = None,
    ) -> nn.Module:
        """Return the classifier with the pretrained weights that fit; other sizes start anew.

        Args:
            layers: encoder layers, of which the first ones are kept.
            heads: attention heads, a divisor of `hidden`.
            hidden: width of the encoder.
            intermediate: width of the feed-forward layers.
        """
        from transformers import BertForSequenceClassification

        pretrained: Any = load_pretrained(PRETRAINED).module
        config = type(pretrained.config).from_dict(pretrained.config.to_dict())
        for key, value in (
            ("num_hidden_layers", layers),
            ("num_attention_heads", heads),
            ("hidden_size", hidden),
            ("intermediate_size", intermediate),
        ):
            if value is not None:
                setattr(config, key, value)
        config.num_labels = 2
        model = BertForSequenceClassification(config)
        own = model.state_dict()
        fits = {
            name: value
            for name, value in pretrained.state_dict().items()
            if name in own and own[name].shape == value.shape
        }
        with torch.no_grad():
            model.load_state_dict(fits, strict=False)
        return TextClassifier(model)
