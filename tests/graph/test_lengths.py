"""Sequences of several lengths go through a graph of one: in calls, data, training and files."""

import pytest
import torch
from tokenizers import Tokenizer, models
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    TrainingArguments,
)
from transformers import Trainer as TransformersTrainer

import mase_hw
from mase_hw.emit.preflight import notes, preflight
from mase_hw.errors import MaseError
from mase_hw.graph import MaseGraph, trace
from mase_hw.ops import Apply
from mase_hw.training import Trainer
from tests.modules import Layers

LENGTH = 10
SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}


def text(batch, length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, 40, (batch, length), generator=generator)
    ends = torch.randint(2, length + 1, (batch, 1), generator=generator)
    mask = (torch.arange(length) < ends).long()
    return {"input_ids": ids * mask, "attention_mask": mask}


def build(kind=BertForSequenceClassification):
    torch.manual_seed(0)
    model = kind(BertConfig(intermediate_size=24, num_labels=3, **SIZES)).eval()
    with torch.no_grad():
        for item in model.parameters():
            item.copy_(torch.randn_like(item) * 10 ** (2 * torch.rand(item.shape[-1:]) - 1.5))
    return model


@pytest.fixture(scope="module")
def graph():
    return trace(build(), text(4, LENGTH), name="net")


@pytest.mark.first(2)
@pytest.mark.parametrize("kind", [BertForSequenceClassification, BertForTokenClassification])
@pytest.mark.parametrize("length", [2, 7, LENGTH])
def test_shorter_sequences_give_what_the_model_gives(kind, length):
    model = build(kind)
    mg = trace(model, text(4, LENGTH))
    given = text(5, length, seed=length)
    with torch.no_grad():
        expected, found = model(**given).logits, mg(**given)["logits"]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_copies_files_and_formats_keep_it(graph, tmp_path):
    given = text(3, 6, seed=3)
    expected = graph(**given)["logits"]
    loaded = MaseGraph.load(graph.save(tmp_path / "net.mase"))
    assert loaded.lengths == graph.lengths
    for mg in (graph.copy(), loaded):
        assert torch.equal(mg(**given)["logits"], expected)
    data = [text(4, length, seed=length) for length in (4, 9, LENGTH)]
    quantized = mase_hw.quantize(graph, data=data)
    padded = {name: nn.functional.pad(value, (0, LENGTH - 6)) for name, value in given.items()}
    assert torch.equal(quantized(**given)["logits"], quantized(**padded)["logits"])
    (note,) = [str(item) for item in notes(quantized) if "sequences" in str(item)]
    assert "hardware takes sequences of 10, as captured" in note


def mean():
    layers = {"table": nn.Embedding(40, 8), "scores": nn.Linear(8, 3)}
    return Layers(lambda m, ids: m.scores(m.table(ids).mean(1)), **layers)


@pytest.mark.parametrize("build", [build, mean])
def test_what_sees_the_padding_takes_one_length(build):
    ids = text(4, LENGTH)["input_ids"]
    mg = trace(build().eval(), ids)
    assert mg(ids[:2]) is not None
    with pytest.raises(MaseError, match="its results see what shorter ones are padded with"):
        mg(ids[:, :7])


def test_longer_sequences_are_refused(graph):
    with pytest.raises(MaseError, match="sequences of 10, and is given 12; give it examples of"):
        graph(**text(2, 12))


@pytest.mark.first(1)
@pytest.mark.parametrize("quantized", [False, True])
def test_the_trainer_of_transformers_pads_each_batch(graph, quantized, tmp_path):
    """Every batch has the length of its longest sample; at the end samples are told apart."""
    words = {"[PAD]": 0, **{f"w{number}": number for number in range(1, 40)}}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="w1")), pad_token="[PAD]"
    )
    generator = torch.Generator().manual_seed(0)
    samples = []
    for number in range(48):
        length = int(torch.randint(3, LENGTH + 1, (1,), generator=generator))
        ids = (torch.randint(0, 12, (length,), generator=generator) * 3 + 2 + number % 3).tolist()
        samples.append({"input_ids": ids, "labels": number % 3})
    mg = mase_hw.quantize(graph) if quantized else graph.copy()
    seen = set()
    collate = DataCollatorWithPadding(tokenizer)

    def collator(rows):
        batch = collate(rows)
        seen.add(batch["input_ids"].shape[1])
        return batch

    class WithLoss(TransformersTrainer):
        def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
            labels = inputs.pop("labels")
            outputs = model(inputs["input_ids"], inputs["attention_mask"])
            loss = nn.functional.cross_entropy(outputs["logits"], labels)
            return (loss, outputs) if return_outputs else loss

    options = TrainingArguments(
        str(tmp_path), num_train_epochs=4, learning_rate=3e-3, per_device_train_batch_size=4,
        report_to=[], save_strategy="no", logging_strategy="epoch", use_cpu=True, seed=0,
        disable_tqdm=True, remove_unused_columns=False,
    )  # fmt: skip
    trainer = WithLoss(mg, options, collator, samples)
    trainer.train()
    losses = [item["loss"] for item in trainer.state.log_history if "loss" in item]
    assert losses[-1] < 0.9 * losses[0]
    assert len(seen) > 1


def test_our_trainer_takes_a_loader_of_several_lengths(graph):
    batches = [(text(4, length, seed=length), torch.arange(4) % 3) for length in (4, 7, LENGTH)]
    mg = graph.copy()
    before = mg.state_dict()["classifier.weight"].clone()
    history = Trainer(epochs=2, learning_rate=1e-3).fit(mg, batches)
    assert len(history.epochs) == 2
    assert not torch.equal(mg.state_dict()["classifier.weight"], before)


TOKENS, WIDTH, HEADS, ROWS = 3, 4, 2, 5
CAUSAL = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
PADDING = torch.tensor([[False, False, True], [False, True, False]])


class TimeFirst(nn.Module):
    """A layer between two transpositions."""

    def __init__(self, layer, **options):
        super().__init__()
        self.layer, self.options = layer, options
        self.register_buffer("positions", torch.arange(1.0 * TOKENS)[:, None, None])

    def forward(self, x, *padding):
        names = ("src_key_padding_mask",) * len(padding)
        given = dict(zip(names, padding, strict=True))
        moved = x.transpose(0, 1) + self.positions
        return self.layer(moved, **given, **self.options).transpose(0, 1)


class Attention(nn.Module):
    """Attention of one stream to another one, with its weights."""

    def __init__(self, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, **options)

    def forward(self, x, y, padding, mask=CAUSAL):
        if not self.attention.batch_first:
            x, y = x.transpose(0, 1), y.transpose(0, 1)
        result, weights = self.attention(x, y, y, key_padding_mask=padding, attn_mask=mask)
        return (result if self.attention.batch_first else result.transpose(0, 1)), weights


def encoder(**options):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 8, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


MODELS = {
    "encoder": (lambda: TimeFirst(encoder()), ()),
    "masked": (lambda: TimeFirst(encoder(norm_first=True), mask=CAUSAL), ()),
    "padded": (lambda: TimeFirst(encoder(), mask=CAUSAL), (PADDING,)),
    "attention": (Attention, (torch.ones(2, TOKENS, WIDTH), PADDING)),
    "more keys": (
        lambda: Attention(add_bias_kv=True, add_zero_attn=True, batch_first=True),
        (torch.ones(2, TOKENS, WIDTH), PADDING),
    ),
}


def rows_of(inputs, rows):
    torch.manual_seed(1)
    return [
        item[:1].expand(rows, *item.shape[1:]).clone()
        if item.dtype is torch.bool
        else torch.randn(rows, *item.shape[1:])
        for item in inputs
    ]


@pytest.mark.first(2)
@pytest.mark.parametrize("name", MODELS)
def test_time_before_the_batch_leaves_it_free(name):
    torch.manual_seed(0)
    build, others = MODELS[name]
    model, inputs = build().eval(), (torch.randn(2, TOKENS, WIDTH), *others)
    mg = mase_hw.trace(model, inputs)
    assert mg.batched
    assert preflight(mase_hw.quantize(mg)) == []
    given = rows_of(inputs, ROWS)
    torch.testing.assert_close(mg(*given), model(*given), rtol=1e-5, atol=1e-6)


def test_what_mixes_the_first_dimension_has_its_batch_in_the_second_one():
    model = Apply(lambda x: torch.softmax(x.transpose(0, 1), 1).transpose(0, 1))
    mg = mase_hw.trace(model, torch.randn(2, TOKENS, WIDTH))
    assert mg.batch_dims.of_input(0) == mg.batch_dims.of_result(0) == 1
    x = torch.randn(2, 7, WIDTH)
    torch.testing.assert_close(mg(x), model(x))
    assert preflight(mase_hw.quantize(mg)) == []


def test_a_padded_encoder_is_the_one_that_is_written():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 8, batch_first=True)
    x = torch.randn(2, TOKENS, WIDTH)
    inputs = {"src": x, "src_key_padding_mask": PADDING}
    mg = mase_hw.trace(nn.TransformerEncoder(layer, 1), inputs)
    # Gradients keep torch from its fast path, which gives zeros for the tokens of a padding.
    expected = nn.TransformerEncoder(layer, 1).eval()(**inputs).detach()
    torch.testing.assert_close(mg(x, PADDING), mg(*mg.example_inputs))
    torch.testing.assert_close(mg(*mg.example_inputs), expected, rtol=1e-5, atol=1e-6)
