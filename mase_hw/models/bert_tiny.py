"""BERT-tiny (Turc et al. 2019, arXiv:1908.08962) as a classifier of short texts."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mase_hw._checks import check_choice
from mase_hw._kinds import Table
from mase_hw.models._base import RegisteredModel
from mase_hw.models.hub import load_pretrained

PRETRAINED = "bert-tiny"
LINEAR, IDENTITY = "linear", "identity"


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
        query: str = LINEAR,
        key: str = LINEAR,
        value: str = LINEAR,
        output: str = LINEAR,
    ) -> nn.Module:
        """Return the classifier with the pretrained weights that fit; other sizes start anew.

        Args:
            layers: encoder layers, of which the first ones are kept.
            heads: attention heads, a divisor of `hidden`.
            hidden: width of the encoder.
            intermediate: width of the feed-forward layers.
            query: `linear`, or `identity` to leave this square layer out of every attention, as for
                the others.
            key: see `query`.
            value: see `query`.
            output: see `query`.

        Raises:
            ConfigError: for another word.
        """
        from transformers import BertForSequenceClassification

        pretrained: Any = load_pretrained(PRETRAINED).module
        config = type(pretrained.config).from_dict(pretrained.config.to_dict())
        for size, number in (
            ("num_hidden_layers", layers),
            ("num_attention_heads", heads),
            ("hidden_size", hidden),
            ("intermediate_size", intermediate),
        ):
            if number is not None:
                setattr(config, size, number)
        config.num_labels = 2
        model = BertForSequenceClassification(config)
        own = model.state_dict()
        fits = {
            name: weight
            for name, weight in pretrained.state_dict().items()
            if name in own and own[name].shape == weight.shape
        }
        with torch.no_grad():
            model.load_state_dict(fits, strict=False)
        for name, word in (("query", query), ("key", key), ("value", value), ("output", output)):
            check_choice(f"bert-tiny: {name}", word, (LINEAR, IDENTITY))
            for layer in model.bert.encoder.layer if word == IDENTITY else ():
                attention: Any = layer.attention
                owner = attention.output if name == "output" else attention.self
                setattr(owner, "dense" if name == "output" else name, nn.Identity())
        return TextClassifier(model)
