"""One step of a decoder as hardware, with its keys and values in a memory inside the design."""

import json

import pytest
import torch
from torch import nn

import mase_hw
from mase_hw.cells.cache import Cache
from mase_hw.emit.flow import canonicalize
from mase_hw.emit.preflight import preflight
from mase_hw.errors import CaptureError, ConfigError, DataError, SimulationError, UnsupportedError
from mase_hw.nn import DecoderStep, KeyValueCache
from mase_hw.ops import Stateful
from mase_hw.passes.formats.calibrate import observe
from tests.bench.architectures import spread_weights
from tests.engines import each, exact

# A number of places that is no power of two: the port can ask for places that there are not.
TOKENS, HEADS, SHARED, SIZE = 6, 4, 2, 4
WIDTH = HEADS * SIZE


class Layer(nn.Module):
    """Attention with rotary positions and keys that heads share: a step, or a whole sequence."""

    def __init__(self):
        super().__init__()
        self.query, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.key, self.value = (nn.Linear(WIDTH, SHARED * SIZE) for _ in range(2))
        self.cache = KeyValueCache(TOKENS, SHARED, SIZE)
        turns = torch.arange(TOKENS)[:, None] * torch.tensor([1.0, 0.1]).repeat(2)
        self.register_buffer("cos", turns.cos())
        self.register_buffer("sin", turns.sin())

    def heads(self, x, count):
        return x.reshape(1, -1, count, SIZE).transpose(1, 2)

    def turned(self, x, position):
        half = torch.cat((-x[..., SIZE // 2 :], x[..., : SIZE // 2]), -1)
        return x * self.cos[position] + half * self.sin[position]

    def projected(self, x, position):
        query = self.turned(self.heads(self.query(x), HEADS), position)
        key = self.turned(self.heads(self.key(x), SHARED), position)
        return query, key, self.heads(self.value(x), SHARED)

    def attended(self, query, key, value, **mask):
        attention = nn.functional.scaled_dot_product_attention
        result = attention(query, key, value, enable_gqa=True, **mask)
        return self.out(result.transpose(1, 2).reshape(1, -1, WIDTH))

    def forward(self, x, position):
        query, key, value = self.projected(x, position)
        keys, values = self.cache(key, value, position)
        return self.attended(query, keys, values, attn_mask=self.cache.seen(position))

    def sequence(self, x):
        """Return all steps of a sequence `[1, tokens, width]` at once."""
        return self.attended(*self.projected(x, torch.arange(x.shape[1])), is_causal=True)


def steps(tokens=TOKENS, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(tokens, 1, 1, WIDTH, generator=generator), torch.arange(tokens)[:, None]


def run(model, x, positions):
    with torch.no_grad():
        return torch.cat([model(*step) for step in zip(x, positions, strict=True)], 1)


@pytest.fixture(scope="module")
def layer():
    torch.manual_seed(0)
    return Layer().eval()


@pytest.fixture(scope="module")
def graph(layer):
    x, positions = steps()
    return mase_hw.trace(layer, (x[0], positions[0]), name="decoder")


@pytest.fixture(scope="module")
def quantized(graph):
    return mase_hw.quantize(graph, data=list(zip(*steps(), strict=True)))


@pytest.fixture(scope="module")
def project(quantized, tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoder")
    return mase_hw.emit_verilog(quantized, output=folder, parallelism=2)


def test_steps_are_the_rows_of_causal_attention(layer, graph):
    x, positions = steps()
    expected = layer.sequence(x.reshape(1, TOKENS, WIDTH))
    # The order of sums differs.
    torch.testing.assert_close(run(layer, x, positions), expected, rtol=1e-5, atol=1e-6)
    layer.cache.reset()
    assert graph.keeps_state
    assert not graph.batched
    torch.testing.assert_close(run(graph, x, positions), expected, rtol=1e-5, atol=1e-6)
    graph.reset()


def test_a_graph_forgets_when_it_is_reset(quantized):
    x, positions = steps()
    first = run(quantized, x, positions)
    again = run(quantized, x[-1:], positions[-1:])
    assert torch.equal(again, first[:, -1:])
    quantized.reset()
    assert not torch.equal(run(quantized, x[-1:], positions[-1:]), first[:, -1:])
    quantized.reset()
    assert torch.equal(run(quantized, x, positions), first)
    quantized.reset()


def test_ranges_are_those_of_the_whole_sequence(graph):
    """A step by itself sees one key alone, and its weights are ones and zeros."""
    x, positions = steps()
    one = mase_hw.quantize(graph, data=[(x[0], positions[0])])
    several = mase_hw.quantize(graph, data=list(zip(x, positions, strict=True)))
    expected = run(graph, x, positions)
    graph.reset()
    errors = [float((run(item, x, positions) - expected).abs().max()) for item in (one, several)]
    assert errors[1] < errors[0]
    assert errors[1] < 0.05


def test_calibration_sees_the_cache_fill(graph):
    mg = canonicalize(graph)
    calls = [node for node in mg.nodes if node.op == "call_function"]
    caches = [node for node in calls if isinstance(mg.call(node).operator, Stateful)]
    seen = observe(mg, list(zip(*steps(), strict=True)))
    empty = sum(TOKENS - step for step in range(1, TOKENS + 1)) / TOKENS**2
    assert len(caches) == 2
    for node in caches:
        values = seen[node.name]["data_out_0"].values
        assert float((values == 0).double().mean()) == pytest.approx(empty)


@each
def test_a_sequence_is_exact_in_the_cycles_that_are_predicted(project, quantized, engine):
    x, positions = steps()
    report = mase_hw.simulate(project, (x, positions), engine=engine)
    assert report.is_right, report.first_mismatch or report.violations
    software = run(quantized, x, positions)
    quantized.reset()
    # Softmax may be the neighbour of the correctly rounded one.
    step = 2.0 ** -project.design.outputs[0].spec.format.frac_width
    assert (report.values["data_out_0"].reshape(software.shape) - software).abs().max() <= step
    for stalled in ("inputs", "outputs") if engine == "native" else ("both",):
        exact(project, (x, positions), engine=engine, stall=0.4, stalled=stalled, seed=3)


def test_positions_may_come_in_any_order_and_again(project):
    x, _ = steps(20)
    positions = torch.randint(0, TOKENS, (20, 1), generator=torch.Generator().manual_seed(5))
    report = exact(project, (x, positions), stall=0.3)
    # Codes of the whole port: beyond the last place, the last place is meant.
    report = mase_hw.simulate(project, samples=30)
    assert report.is_right, report.first_mismatch or report.violations


@each
def test_a_reset_in_the_middle_empties_the_cache(project, engine):
    # Positions of any order: what was written before a reset would be seen behind it.
    report = mase_hw.simulate(project, samples=8, engine=engine, resets=12, stall=0.2)
    assert report.is_right, report.first_mismatch or report.violations
    assert report.followed >= 3


@pytest.mark.full
def test_a_cache_that_a_reset_does_not_empty_is_found(tmp_path):
    model = Written(copied)
    step = torch.randn(1, 2, 1, 3), torch.tensor([1])
    project = mase_hw.emit_verilog(model, step, output=tmp_path / "project")
    assert mase_hw.simulate(project, samples=4, resets=20).is_right
    (module,) = project.folder.rglob("mase_cache.sv")
    text = module.read_text()
    assert text.count("written_q <= '0;") == 1
    text = text.replace("      written_q <= '0;\n", "")
    module.write_text(text.replace("PLACES-1:0] written_q;", "PLACES-1:0] written_q = '0;"))
    exact(project, samples=4)
    assert not mase_hw.simulate(project, samples=4, resets=20).bit_exact


def test_steps_are_not_repeated(project):
    with pytest.raises(SimulationError, match="keeps state between them"):
        mase_hw.simulate(project, samples=4, repeats=2)


def test_a_full_cache_is_refused_at_the_port(project, layer):
    x, positions = steps(TOKENS + 1)
    expected = f"position {TOKENS} in inference {TOKENS}; the cache is full: it has {TOKENS} places"
    with pytest.raises(SimulationError, match=expected):
        mase_hw.simulate(project, (x, positions))
    with pytest.raises(SimulationError, match="position -1 in inference 0"):
        mase_hw.simulate(project, (x[:1], positions[:1] - 1))
    with pytest.raises(DataError, match=f"the cache is full: position {TOKENS} is none"):
        layer.cache(*torch.ones(2, 1, SHARED, 1, SIZE), positions[-1])
    entries = json.loads((project.folder / "design.json").read_text())["inputs"]
    assert [entry.get("places") for entry in entries] == [None, TOKENS]


def test_a_step_without_its_position_is_refused(project):
    x, positions = steps()
    with pytest.raises(SimulationError, match="1 inputs were given; the design has 2"):
        mase_hw.simulate(project, x)
    with pytest.raises(SimulationError, match=r"data_in_1 \(position\)"):
        mase_hw.simulate(project, {"x": x})
    with pytest.raises(SimulationError, match=r"dtype torch\.float32; expected int64"):
        mase_hw.simulate(project, (x, positions.float()))


SIZES = {
    "hidden_size": 16, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 32,
    "vocab_size": 20, "max_position_embeddings": TOKENS,
}  # fmt: skip
GROUPED = {**SIZES, "num_key_value_heads": 2}
SLIDING = {"use_sliding_window": True, "sliding_window": 2, "max_window_layers": 0}
GPT_NEO = {
    "hidden_size": 16, "num_heads": 4, "intermediate_size": 32, "vocab_size": 20,
    "max_position_embeddings": TOKENS, "num_layers": 1, "attention_types": [[["global"], 1]],
    "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
GPT2 = {"n_embd": 16, "n_head": 4, "n_layer": 1, "vocab_size": 20, "n_positions": TOKENS}
DECODERS = {
    "llama": ("LlamaConfig", GROUPED, "LlamaForCausalLM"),
    "gpt2": ("GPT2Config", {**GPT2, "bos_token_id": 0, "eos_token_id": 0}, "GPT2LMHeadModel"),
    "qwen3": ("Qwen3Config", {**GROUPED, "head_dim": 4}, "Qwen3ForCausalLM"),
    "sliding": ("Qwen3Config", {**GROUPED, "head_dim": 4, **SLIDING}, "Qwen3ForCausalLM"),
    "qwen2": ("Qwen2Config", GROUPED, "Qwen2ForCausalLM"),
    "gemma": ("GemmaConfig", {**SIZES, "num_key_value_heads": 1, "head_dim": 4, "pad_token_id": 0},
              "GemmaForCausalLM"),
    "gpt-neo": ("GPTNeoConfig", GPT_NEO, "GPTNeoForCausalLM"),
}  # fmt: skip


def decoder(name, tokens=TOKENS, **fields):
    """Return a model of transformers, one step of it, and the steps of a sequence."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config, known, model = DECODERS[name]
    whole = getattr(transformers, model)(getattr(transformers, config)(**{**known, **fields}))
    spread_weights(whole)
    ids = torch.randint(0, 20, (TOKENS, 1, 1))
    return whole.eval(), DecoderStep(whole, tokens), (ids, torch.arange(TOKENS)[:, None])


@pytest.mark.first("llama")
@pytest.mark.parametrize("name", DECODERS)
def test_a_step_of_a_decoder_has_hardware(name):
    whole, step, sequence = decoder(name)
    with torch.no_grad():
        expected = whole(sequence[0].reshape(1, TOKENS), use_cache=False).logits
    torch.testing.assert_close(run(step, *sequence), expected, rtol=1e-4, atol=1e-5)
    step.reset()
    graph = mase_hw.trace(step, tuple(item[0] for item in sequence))
    torch.testing.assert_close(run(graph, *sequence), expected, rtol=1e-4, atol=1e-5)
    graph.reset()
    assert preflight(mase_hw.quantize(graph, data=list(zip(*sequence, strict=True)))) == []


@pytest.mark.full
@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_is_exact_over_a_sequence(name, tmp_path):
    _, step, sequence = decoder(name)
    graph = mase_hw.trace(step, tuple(item[0] for item in sequence))
    quantized = mase_hw.quantize(graph, data=list(zip(*sequence, strict=True)))
    project = mase_hw.emit_verilog(quantized, output=tmp_path, parallelism=2)
    report = mase_hw.simulate(project, sequence)
    assert report.is_right, report.first_mismatch or report.violations
    exact(project, sequence, stall=0.4)


SHARED_LAYERS = {
    "llama": {"num_hidden_layers": 3},
    "llama, 1:1": {"num_hidden_layers": 3, "num_key_value_heads": 4},
    "llama, 3:1": {"num_hidden_layers": 3, "hidden_size": 24, "num_attention_heads": 6},
    "llama, 8:1": {"num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 1},
    "qwen2": {"num_hidden_layers": 3},
    "gpt2": {"n_layer": 3},
    "gemma": {"num_hidden_layers": 3},
    "sliding": {"num_hidden_layers": 3},
    "gpt-neo": {"num_layers": 3, "attention_types": [[["global"], 3]]},
}


@pytest.mark.first("llama")
@pytest.mark.parametrize("name", SHARED_LAYERS)
def test_layers_with_caches_run_on_the_hardware_of_one(name, tmp_path):
    _, step, sequence = decoder(name.split(",")[0], **SHARED_LAYERS[name])
    graph = mase_hw.trace(step, tuple(item[0] for item in sequence))
    quantized = mase_hw.quantize(graph, data=list(zip(*sequence, strict=True)), reuse=True)
    layers = 4 if name == "llama, 8:1" else 3
    project = mase_hw.emit_verilog(quantized, output=tmp_path / "project", parallelism=2)
    cells = [item.cell for item in project.design.instances]
    assert [cell.layers for cell in cells if isinstance(cell, Cache)] == [layers, layers]
    assert exact(project, sequence).as_predicted is True
    exact(project, sequence, stall=0.4)
    report = mase_hw.simulate(project, samples=6, resets=8, stall=0.2)
    assert report.is_right, report.first_mismatch or report.violations
    assert report.followed >= 2


@pytest.mark.full
@pytest.mark.parametrize("name", ["llama", "qwen2"])
@pytest.mark.parametrize("port", [{}, {"data_width": 32, "bytes_per_cycle": 2}])
def test_weights_of_layers_with_caches_come_from_outside(name, port, tmp_path):
    _, step, sequence = decoder(name, num_hidden_layers=3)
    graph = mase_hw.trace(step, tuple(item[0] for item in sequence))
    quantized = mase_hw.quantize(graph, data=list(zip(*sequence, strict=True)), reuse=True)
    memory = {"default": "external", **port}
    project = mase_hw.emit_verilog(quantized, output=tmp_path / "p", parallelism=4, memory=memory)
    if port:
        assert project.design.interval_cycles == project.design.external.cycles
    report = exact(project, tuple(item.repeat(4, *[1] * (item.ndim - 1)) for item in sequence))
    assert report.as_predicted is True
    assert report.latency_cycles == report.predicted_latency_cycles
    exact(project, sequence, stall=0.4)


def test_a_step_of_something_else_is_refused():
    with pytest.raises(ConfigError, match="takes a model of transformers, not a Linear"):
        DecoderStep(nn.Linear(2, 2), 4)
    with pytest.raises(ConfigError, match=f"of {TOKENS + 1} tokens; allowed for Llama"):
        decoder("llama", TOKENS + 1)
    fields = {"layer_types": ["linear_attention"] * 2}
    with pytest.raises(ConfigError, match="keeps a LinearAttentionLayer; allowed are layers"):
        decoder("llama", **fields)


class Written(nn.Module):
    """A step that writes a buffer, in some way, and returns what it holds."""

    def __init__(self, write, shape=(1, 2, 5, 3)):
        super().__init__()
        self.register_buffer("kept", torch.zeros(shape))
        self.write = write

    def forward(self, x, position):
        return self.write(self.kept, x * 2, position) + 1


def copied(kept, x, position):
    return kept.index_copy_(2, position, x)


def assigned(kept, x, position):
    kept[:, :, position] = x
    return kept


def replaced(kept, x, position):
    kept.copy_(kept.index_copy(2, position, x))
    return kept


def rows(kept, x, position):
    kept[:, position] = x.reshape(1, 1, 2, 3)
    return kept


@pytest.mark.parametrize(
    ("write", "shape"),
    [
        (copied, (1, 2, 5, 3)),
        (assigned, (1, 2, 5, 3)),
        (replaced, (1, 2, 5, 3)),
        (rows, (1, 5, 2, 3)),
    ],
)
def test_every_spelling_of_a_write_is_a_cache(write, shape):
    model = Written(write, shape)
    inputs = [(torch.randn(1, 2, 1, 3), torch.tensor([place])) for place in (3, 0, 3)]
    graph = mase_hw.trace(model, inputs[0])
    for step in inputs:
        assert torch.equal(graph(*step), model(*step))
    assert preflight(mase_hw.quantize(graph)) == []


def twice(kept, x, position):
    return kept.index_copy_(2, position, x).index_copy_(2, position, x)


def before(kept, x, position):
    seen = kept + 1
    return seen + kept.index_copy_(2, position, x)


def before_the_copy(kept, x, position):
    new = kept.index_copy(2, position, x)
    seen = kept + 1
    return seen + kept.copy_(new)


def added(kept, x, position):
    return kept.add_(x)


def several(kept, x, position):
    return kept.index_copy_(2, torch.cat((position, position + 1)), torch.cat((x, x), 2))


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (twice, "a step writes one place"),
        (before, "write first, then read"),
        (before_the_copy, "write first, then read"),
        (added, r"take the state as an input and return the next one"),
        (several, "writes 2 places at a time"),
    ],
)
def test_what_is_no_cache_is_refused_with_the_line(write, reason):
    with pytest.raises(CaptureError, match=reason) as refused:
        mase_hw.trace(Written(write), (torch.randn(1, 2, 1, 3), torch.tensor([1])))
    assert "test_decoding.py" in str(refused.value)


def test_a_cache_of_several_sequences_or_that_is_not_empty_is_refused():
    with pytest.raises(CaptureError, match="a cache of 2 sequences; a design holds one"):
        mase_hw.trace(Written(copied, (2, 2, 5, 3)), (torch.randn(2, 2, 1, 3), torch.tensor([1])))
    model = Written(copied)
    model.kept += 1
    with pytest.raises(CaptureError, match="hardware begins with zeros; reset it before"):
        mase_hw.trace(model, (torch.randn(1, 2, 1, 3), torch.tensor([1])))


def test_a_position_that_is_computed_is_refused():
    class Later(Written):
        def forward(self, x, position):
            return super().forward(x, position + 1)

    graph = mase_hw.trace(Later(copied), (torch.randn(1, 2, 1, 3), torch.tensor([1])))
    with pytest.raises(UnsupportedError, match="give the place itself as an input"):
        mase_hw.quantize(graph)


def test_fewer_positions_than_places_are_refused(layer):
    class Short(Layer):
        def __init__(self):
            super().__init__()
            self.cache = KeyValueCache(TOKENS + 1, SHARED, SIZE)

    x, positions = steps()
    graph = mase_hw.trace(Short().eval(), (x[0], positions[0]))
    with pytest.raises(UnsupportedError, match=f"not computed for position {TOKENS} of"):
        mase_hw.quantize(graph)


def test_a_cache_of_one_token_is_refused():
    with pytest.raises(ConfigError, match="KeyValueCache of 1 tokens"):
        KeyValueCache(1, 2, 3)
