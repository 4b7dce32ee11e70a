"""Heads of transformers with labels, in tiny configurations, and their losses written anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw._kinds import Setting, Table
from tests.bench.architectures import ARCHITECTURES, TOKENS, spread_weights
from tests.bench.loss_cases import IGNORED, Batch, LossCase

CLASSES = 4
WORDS = 50
Results = Table


@dataclass(frozen=True)
class _Head:
    """A head: whose configuration it takes, what it is given, and its loss."""

    like: str
    inputs: Callable[[int], Batch]
    labels: Callable[[int], Batch]
    loss: Callable[[Results, Batch], Tensor]
    options: Mapping[str, object] = field(default_factory=dict)


def _words(rows: int) -> Batch:
    mask = torch.ones(rows, TOKENS, dtype=torch.int64)
    mask[1::2, TOKENS - 2 :] = 0
    return {"input_ids": torch.randint(3, WORDS, (rows, TOKENS)), "attention_mask": mask}


def _choices(rows: int) -> Batch:
    known = _words(3 * rows)
    return {key: value.reshape(rows, 3, TOKENS) for key, value in known.items()}


def _image(rows: int) -> Batch:
    return {"pixel_values": torch.randn(rows, 3, 16, 16)}


def _sound(rows: int) -> Batch:
    return {"input_values": torch.randn(rows, 200)}


def _series(rows: int) -> Batch:
    return {"past_values": torch.randn(rows, 16, 2)}


def _classes(rows: int) -> Batch:
    return {"labels": torch.randint(0, CLASSES, (rows,))}


def _token_labels(limit: int) -> Callable[[int], Batch]:
    def labels(rows: int) -> Batch:
        found = torch.randint(0, limit, (rows, TOKENS))
        return {"labels": torch.where(torch.arange(TOKENS) % 4 == 1, IGNORED, found)}

    return labels


def _places(rows: int) -> Batch:
    found = {f"{end}_positions": torch.randint(0, TOKENS, (rows,)) for end in ("start", "end")}
    # A place behind the end does not count.
    found["end_positions"][1::3] = TOKENS + 2
    return found


def _by_class(results: Results, batch: Batch) -> Tensor:
    scores = results["logits"]
    return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), batch["labels"].reshape(-1))


def _by_next_word(results: Results, batch: Batch) -> Tensor:
    scores, labels = results["logits"][:, :-1], batch["labels"][:, 1:]
    return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), labels.reshape(-1))


def _by_places(results: Results, batch: Batch) -> Tensor:
    ends = [
        F.cross_entropy(
            results[f"{end}_logits"],
            batch[f"{end}_positions"].clamp(max=TOKENS),
            ignore_index=TOKENS,
        )
        for end in ("start", "end")
    ]
    return (ends[0] + ends[1]) / 2


def _by_bits(results: Results, batch: Batch) -> Tensor:
    return F.binary_cross_entropy_with_logits(results["logits"], batch["labels"])


def _by_number(results: Results, batch: Batch) -> Tensor:
    return F.mse_loss(results["logits"].squeeze(-1), batch["labels"])


def _by_pretraining(results: Results, batch: Batch) -> Tensor:
    words = _by_class({"logits": results["prediction_logits"]}, batch)
    return words + F.cross_entropy(results["seq_relationship_logits"], batch["next_sentence_label"])


def _by_segment(results: Results, batch: Batch) -> Tensor:
    labels = batch["labels"]
    scores = F.interpolate(
        results["logits"], size=labels.shape[-2:], mode="bilinear", align_corners=False
    )
    return F.cross_entropy(scores, labels, ignore_index=255)


def _by_future(results: Results, batch: Batch) -> Tensor:
    return F.mse_loss(results["prediction_outputs"], batch["future_values"])


def _bits(rows: int) -> Batch:
    return {"labels": torch.randint(0, 2, (rows, CLASSES)).float()}


def _numbers(rows: int) -> Batch:
    return {"labels": torch.randn(rows)}


def _pretraining(rows: int) -> Batch:
    return _token_labels(WORDS)(rows) | {"next_sentence_label": torch.randint(0, 2, (rows,))}


def _choice(rows: int) -> Batch:
    return {"labels": torch.randint(0, 2, (rows,))}


def _segments(rows: int) -> Batch:
    labels = torch.randint(0, CLASSES, (rows, 16, 16))
    labels[:, :2] = 255
    return {"labels": labels}


def _future(rows: int) -> Batch:
    return {"future_values": torch.randn(rows, 4, 2)}


def _text(labels: Any, loss: Any, like: str = "BertForMaskedLM", **options: Setting) -> _Head:
    return _Head(like, _words, labels, loss, options)


_BERT = "BertForMaskedLM"
HEADS: Mapping[str, _Head] = {
    "BertForSequenceClassification": _text(_classes, _by_class, num_labels=CLASSES),
    "BertForSequenceClassification multi-label": _text(
        _bits, _by_bits, num_labels=CLASSES, problem_type="multi_label_classification"
    ),
    "BertForSequenceClassification regression": _text(
        _numbers, _by_number, num_labels=1, problem_type="regression"
    ),
    "BertForTokenClassification": _text(_token_labels(CLASSES), _by_class, num_labels=CLASSES),
    "BertForMaskedLM": _text(_token_labels(WORDS), _by_class),
    "BertForPreTraining": _text(_pretraining, _by_pretraining),
    "BertForNextSentencePrediction": _text(_choice, _by_class),
    "BertForQuestionAnswering": _text(_places, _by_places),
    "BertForMultipleChoice": _Head(_BERT, _choices, _choice, _by_class),
    "DistilBertForQuestionAnswering": _text(
        _places, _by_places, "DistilBertForSequenceClassification"
    ),
    "RobertaForTokenClassification": _text(
        _token_labels(CLASSES), _by_class, "RobertaForSequenceClassification", num_labels=CLASSES
    ),
    "GPT2LMHeadModel": _text(_token_labels(WORDS), _by_next_word, "GPT2LMHeadModel"),
    "LlamaForCausalLM": _text(_token_labels(WORDS), _by_next_word, "LlamaForCausalLM"),
    "MambaForCausalLM": _Head(
        "MambaForCausalLM",
        lambda rows: {"input_ids": torch.randint(3, WORDS, (rows, TOKENS))},
        _token_labels(WORDS),
        _by_next_word,
    ),
    "T5ForConditionalGeneration": _text(
        _token_labels(WORDS), _by_class, "T5ForConditionalGeneration"
    ),
    "BartForConditionalGeneration": _text(
        _token_labels(WORDS), _by_class, "BartForConditionalGeneration"
    ),
    "ViTForImageClassification": _Head(
        "ViTForImageClassification", _image, _classes, _by_class, {"num_labels": CLASSES}
    ),
    "ResNetForImageClassification": _Head(
        "ResNetForImageClassification", _image, _classes, _by_class, {"num_labels": CLASSES}
    ),
    "SegformerForSemanticSegmentation": _Head(
        "SegformerForImageClassification",
        _image,
        _segments,
        _by_segment,
        {"num_labels": CLASSES, "decoder_hidden_size": 16},
    ),
    "Wav2Vec2ForSequenceClassification": _Head(
        "Wav2Vec2ForSequenceClassification", _sound, _classes, _by_class, {"num_labels": CLASSES}
    ),
    "PatchTSTForPrediction": _Head(
        "PatchTSTForPrediction", _series, _future, _by_future, {"loss": "mse"}
    ),
}


def head_cases() -> Iterator[LossCase]:
    """Yield a case for each of `HEADS`."""
    for name, head in HEADS.items():
        yield _case(name, head)


def _case(name: str, head: _Head) -> LossCase:
    def build() -> nn.Module:
        import transformers

        torch.manual_seed(0)
        kind = getattr(transformers, name.split()[0])
        known = {**ARCHITECTURES[head.like], **head.options}
        model: nn.Module = kind(kind.config_class(**known))
        spread_weights(model)
        return model.eval()

    return LossCase(name, build, lambda rows: {**head.inputs(rows), **head.labels(rows)}, head.loss)
