"""Layers that compute with quantised operands: drop-in modules for model constructors.

Every pair of a layer of `torch.nn` (`Linear`, `Conv1d`, `Conv2d`) and a number format is a class of
this module, made when it is first asked for: `LinearInteger`, `LinearMXInt`, `Conv2dBinaryScaling`,
`LinearMinifloatIEEE`, ... The format is the one whose name or alias the rest of the word spells.

    >>> from mase_hw.nn import LinearMXInt
    >>> layer = LinearMXInt(64, 32, config={"data_in_width": 8, "weight_width": 4})

`quantize_layers` replaces the layers of a whole model, `calibrate` shows them data. A captured
model keeps the formats of its layers, and `mase_hw.emit_verilog` makes hardware of them.

`KeyValueCache` keeps keys and values from step to step, in software and in hardware; `DecoderStep`
is one step of a decoder of transformers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw._kinds import Record
from mase_hw.errors import ConfigError, DataError
from mase_hw.formats import Format, format_class, formats
from mase_hw.graph.declared import capturing, declare, decode_format, encode_format, is_capturing
from mase_hw.registry import nearest

BASES: dict[str, type[nn.Module]] = {
    "Linear": nn.Linear,
    "Conv1d": nn.Conv1d,
    "Conv2d": nn.Conv2d,
}
OPERANDS = ("data_in", "weight", "bias")
# Two ranges: a format that is another one for each has a range to be fitted.
_RANGES = ((-1.0, 1.0), (-1024.0, 1024.0))


class KeyValueCache(nn.Module):
    """The keys and values of one sequence, which a decoder writes one token of in every step.

    It is a layer of a model whose `forward` is one step: one token in, and its position. Captured,
    it becomes a memory inside the design: a reset empties it, every inference is the next step. It
    is for inference: gradients would reach back through all steps, and are cut off.

    Args:
        tokens: places: the longest sequence.
        heads: of keys and values.
        size: elements of a head.

    Raises:
        ConfigError: for fewer than 2 tokens, or no elements.
        DataError: for a position beyond the last place: the cache is full.

    Examples:
        >>> cache = KeyValueCache(tokens=4, heads=2, size=3)
        >>> position = torch.tensor([0])
        >>> keys, values = cache(torch.ones(1, 2, 1, 3), torch.ones(1, 2, 1, 3), position)
        >>> keys.shape, cache.seen(position).tolist()
        (torch.Size([1, 2, 4, 3]), [[[[True, False, False, False]]]])
    """

    keys: Tensor
    values: Tensor

    def __init__(self, tokens: int, heads: int, size: int) -> None:
        super().__init__()
        if tokens < 2 or heads < 1 or size < 1:
            raise ConfigError(
                f"KeyValueCache of {tokens} tokens and {heads} heads of size {size}; allowed: at "
                "least 2 tokens, 1 head and size 1"
            )
        self.tokens = tokens
        self.register_buffer("keys", torch.zeros(1, heads, tokens, size), persistent=False)
        self.register_buffer("values", torch.zeros(1, heads, tokens, size), persistent=False)

    def forward(self, key: Tensor, value: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Write a token's key and value; return those of all places, zero where none was written.

        Args:
            key: `[1, heads, 1, size]`.
            value: of the same shape.
            position: the token's place, one whole number in any shape.
        """
        _check_place(position, self.tokens)
        place = position.reshape(1)
        self.keys.index_copy_(2, place, key.detach())
        self.values.index_copy_(2, place, value.detach())
        return self.keys, self.values

    def seen(self, position: Tensor) -> Tensor:
        """Return `[1, 1, 1, tokens]`, the mask of attention: true up to the position."""
        return (torch.arange(self.tokens) <= position.reshape(1)).reshape(1, 1, 1, -1)

    def reset(self) -> None:
        """Empty it: the next step is the first one."""
        self.keys.zero_()
        self.values.zero_()


class DecoderStep(nn.Module):
    """One step of a causal language model of transformers: a token and its position to logits.

    Keys and values of all tokens before lie in a static cache, which becomes memories inside the
    design; a sliding window hides the older ones. Weights are the model's own.

    Args:
        model: one that takes `past_key_values`, as `LlamaForCausalLM`.
        tokens: places of the cache: the longest sequence.

    Raises:
        ConfigError: for more tokens than positions, or layers that keep something else.
        DataError: for a position beyond the last place: the cache is full.

    Examples:
        >>> step = DecoderStep(LlamaForCausalLM(config), tokens=32)
        >>> logits = step(torch.tensor([[5]]), torch.tensor([0]))  # [1, 1, vocabulary]
    """

    def __init__(self, model: nn.Module, tokens: int) -> None:
        super().__init__()
        from transformers import StaticCache

        config: Any = getattr(model, "config", None)
        if config is None:
            raise ConfigError(
                f"DecoderStep takes a model of transformers, not a {type(model).__name__}; a model "
                "of your own keeps its keys and values in a KeyValueCache"
            )
        most = getattr(config, "max_position_embeddings", None) or tokens
        if not 2 <= tokens <= most:
            raise ConfigError(
                f"DecoderStep of {tokens} tokens; allowed for {type(model).__name__}: 2 to {most}"
            )
        cache: Any = StaticCache(config=config, max_cache_len=tokens)
        cache.layers = [_plain(model, layer, tokens) for layer in cache.layers]
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        weight = next(model.parameters())
        cache.early_initialization(1, heads, size, weight.dtype, weight.device)
        self.model = model
        self.tokens = tokens
        self._cache = cache
        for number, layer in enumerate(cache.layers):
            self.register_buffer(f"keys_{number}", layer.keys, persistent=False)
            self.register_buffer(f"values_{number}", layer.values, persistent=False)

    def forward(self, input_ids: Tensor, position: Tensor) -> Tensor:
        """Return the logits `[1, 1, vocabulary]` of the next token.

        Args:
            input_ids: the token `[1, 1]`.
            position: its place, one whole number in any shape.
        """
        _check_place(position, self.tokens)
        for number, layer in enumerate(self._cache.layers):
            layer.keys = self.get_buffer(f"keys_{number}")
            layer.values = self.get_buffer(f"values_{number}")
            layer.cumulative_length = position.reshape(()).clone()
        result = self.model(
            input_ids=input_ids,
            position_ids=position.reshape(1, 1),
            past_key_values=self._cache,
            use_cache=True,
        )
        logits: Tensor = result.logits
        return logits

    def reset(self) -> None:
        """Empty the cache: the next step is the first one."""
        for buffer in self.buffers(recurse=False):
            buffer.zero_()


def _plain(model: nn.Module, layer: object, tokens: int) -> object:
    """Return a layer's cache, of all tokens also where the mask hides those before a window."""
    from transformers.cache_utils import StaticLayer, StaticSlidingWindowLayer

    if type(layer) is StaticSlidingWindowLayer:
        return StaticLayer(max_cache_len=tokens)
    if type(layer) is not StaticLayer:
        raise ConfigError(
            f"{type(model).__name__} keeps a {type(layer).__name__}; allowed are layers that keep "
            "the keys and values of tokens"
        )
    return layer


def _check_place(position: Tensor, tokens: int) -> None:
    """Refuse a position that a cache does not have, but for a model that is captured."""
    if not is_capturing() and not 0 <= int(position) < tokens:
        raise DataError(
            f"the cache is full: position {int(position)} is none of its {tokens} places, 0 to "
            f"{tokens - 1}"
        )


class QuantizedLayer(nn.Module):
    """What every quantised layer does, whatever its layer and its format.

    The constructor takes what the layer of `torch.nn` takes, and `config`. Its keys are
    `<operand>_<field>` with the operands `data_in`, `weight` and `bias`, as in the quantisation
    pass; `<operand>_name` changes the format of one operand. Fields that are left open are fitted
    to the weights as they are initialised or loaded, and to the inputs: to the first batch, to
    every batch of a training after it, and to all batches of `calibrate`. A scale that may follow
    the data (binary, ternary) does. The bias is quantised only when the configuration has a key
    for it. Blocks lie along the dimension that is summed over.

    The state of a layer, `state_dict`, holds its formats; the state of the layer of `torch.nn` can
    be loaded, too.

    Attributes:
        data_in_format: None while inputs are still to be seen.
        weight_format: of the weight.
        bias_format: None for a bias that is not rounded.

    Raises:
        ConfigError: for an unknown key.
        DataError: for inputs that are not finite, where they are to be fitted.
        FormatError: for a value that the format does not allow.
    """

    family: str
    data_in_format: Format | None
    weight_format: Format
    bias_format: Format | None

    def __init__(
        self, *args: object, config: Mapping[str, object] | None = None, **kwargs: object
    ) -> None:
        super().__init__(*args, **kwargs)
        self.config = dict(config or {})
        self._check_keys()
        self.forget()
        self.refit()

    def _fields(self, operand: str) -> tuple[type[Format], Record]:
        fields = {
            key.removeprefix(f"{operand}_"): value
            for key, value in self.config.items()
            if key.startswith(f"{operand}_")
        }
        cls = format_class(str(fields.pop("name", self.family)))
        if "axis" in cls.field_names() and isinstance(self, nn.Conv1d | nn.Conv2d):
            fields.setdefault("axis", 0 if operand == "bias" else 1)
        if cls.scale_follows_data:
            fields.setdefault("scale", None)
        return cls, fields

    def _check_keys(self) -> None:
        legal = {
            f"{operand}_{field}"
            for operand in OPERANDS
            for field in (*self._fields(operand)[0].field_names(), "name")
        }
        for key in self.config:
            if key not in legal:
                raise ConfigError(
                    f"{type(self).__name__}: unknown key {key!r}; {nearest(key, legal)}"
                )

    def forget(self) -> None:
        """Forget the range of the inputs: the next batch is the first one again."""
        self._seen: tuple[float, float] | None = None
        cls, fields = self._fields("data_in")
        narrow, wide = (cls.fit(*bounds, **fields) for bounds in _RANGES)
        self._follows_range = narrow != wide
        self.data_in_format = None if self._follows_range else narrow

    def refit(self) -> None:
        """Fit the open fields of the weight's and the bias' format to their present values."""
        cls, fields = self._fields("weight")
        self.weight_format = cls.fit_values(self.get_parameter("weight").detach(), **fields)
        self.bias_format = None
        if any(key.startswith("bias_") for key in self.config) and self.bias is not None:
            cls, fields = self._fields("bias")
            self.bias_format = cls.fit_values(self.get_parameter("bias").detach(), **fields)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def observe(self, data_in: Tensor) -> None:
        """Widen the range of the inputs by a batch, where the format is fitted to it."""
        if not self._follows_range or not data_in.numel():
            return
        low, high = (float(item) for item in data_in.detach().aminmax())
        if not low - high <= 0 or abs(low) == torch.inf or abs(high) == torch.inf:
            raise DataError(
                f"{type(self).__name__} is given inputs from {low} to {high}; a format is fitted "
                "to finite numbers"
            )
        if self._seen is not None:
            low, high = min(low, self._seen[0]), max(high, self._seen[1])
        if self._seen != (low, high):
            self._seen = low, high
            cls, fields = self._fields("data_in")
            self.data_in_format = cls.fit(low, high, **fields)

    def forward(self, data_in: Tensor) -> Tensor:
        """Return the layer's result on quantised operands, differentiable straight through."""
        # A compiled training keeps the range: to look at values would cut its graph in two.
        if self.data_in_format is None or (
            self.training and self._follows_range and not torch.compiler.is_compiling()
        ):
            self.observe(data_in)
        layer: Any = self
        is_convolution = isinstance(self, nn.Conv1d | nn.Conv2d)
        padded = is_convolution and layer.padding_mode != "zeros"
        if padded:
            pads = layer._reversed_padding_repeated_twice
            data_in = F.pad(data_in, pads, mode=layer.padding_mode)
        data_in = self._quantize(data_in, self.data_in_format)
        weight = self._quantize(self.get_parameter("weight"), self.weight_format)
        bias: Tensor | None = None if self.bias is None else self.get_parameter("bias")
        if self.bias_format is not None and bias is not None:
            bias = self._quantize(bias, self.bias_format)
        if padded:
            convolve: Any = F.conv1d if isinstance(self, nn.Conv1d) else F.conv2d
            result = convolve(data_in, weight, bias, layer.stride, 0, layer.dilation, layer.groups)
        elif is_convolution:
            result = layer._conv_forward(data_in, weight, bias)
        else:
            result = F.linear(data_in, weight, bias)
        assert isinstance(result, Tensor)
        return result

    def _quantize(self, values: Tensor, number_format: Format | None) -> Tensor:
        if number_format is None:
            # An empty batch.
            return values
        if is_capturing():
            return declare(values, number_format)
        used = number_format if self.training else number_format.at_inference()
        return used.fake_quantize(values)

    def get_extra_state(self) -> Tensor:
        """Return formats and range as the bytes of JSON, which any file of tensors holds."""
        fields = {"config": self.config, "seen": self._seen}
        for operand in OPERANDS:
            number_format: Format | None = getattr(self, f"{operand}_format")
            fields[operand] = None if number_format is None else encode_format(number_format)
        return torch.tensor(list(json.dumps(fields).encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Take formats from the state of a layer that was configured alike."""
        fields = json.loads(bytes(state.tolist()))
        if fields["config"] != json.loads(json.dumps(self.config)):
            self.refit()
            return
        self._seen = tuple(fields["seen"]) if fields["seen"] else None
        for operand in OPERANDS:
            encoded = fields[operand]
            setattr(self, f"{operand}_format", None if encoded is None else decode_format(encoded))

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, object],
        prefix: str,
        local_metadata: object,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        key = f"{prefix}_extra_state"
        if key not in state_dict:
            # The state of a layer without formats.
            missing_keys[:] = [item for item in missing_keys if item != key]
            self.refit()

    @classmethod
    def from_float(cls, layer: nn.Module, config: Mapping[str, object] | None = None) -> Self:
        """Return a quantised layer that shares the parameters of `layer`, of the same kind."""
        base = next(base for base in BASES.values() if issubclass(cls, base))
        if not isinstance(layer, base):
            raise ConfigError(f"{cls.__name__}.from_float takes {base.__name__}, not {layer}")
        keys = {
            nn.Linear: ("in_features", "out_features"),
            nn.Conv1d: _CONVOLUTION,
            nn.Conv2d: _CONVOLUTION,
        }[base]
        arguments = {key: getattr(layer, key) for key in keys}
        quantized = cls(**arguments, bias=layer.bias is not None, config=config)
        quantized.register_parameter("weight", layer.get_parameter("weight"))
        quantized.register_parameter("bias", layer._parameters["bias"])
        quantized.refit()
        return quantized

    def extra_repr(self) -> str:
        """Return the layer's sizes and formats."""
        data_in = self.data_in_format or "calibrated by the first batch"
        return f"{super().extra_repr()}, data_in={data_in}, weight={self.weight_format}"


def calibrate(model: nn.Module, batches: Iterable[object]) -> nn.Module:
    """Fit what quantised layers leave open to the inputs that they get from data.

    The layers compute in real numbers meanwhile. A range from before is forgotten.

    Args:
        model: a module with quantised layers.
        batches: what the model takes: tensors, tuples of arguments, or dicts of them.

    Returns:
        The model, in the mode in which it was.

    Raises:
        DataError: when there is no batch.
    """
    layers = [item for item in model.modules() if isinstance(item, QuantizedLayer)]
    modes = {module: module.training for module in model.modules()}
    for layer in layers:
        layer.forget()
    seen = 0
    hooks = [layer.register_forward_pre_hook(_observe) for layer in layers]
    try:
        model.eval()
        with torch.no_grad(), capturing():
            for batch in batches:
                seen += 1
                if isinstance(batch, Mapping):
                    model(**batch)
                else:
                    model(*(batch if isinstance(batch, list | tuple) else (batch,)))
    finally:
        for hook in hooks:
            hook.remove()
        for module, training in modes.items():
            module.training = training
    if not seen:
        raise DataError("calibration data is empty; give at least one batch")
    return model


def _observe(layer: nn.Module, arguments: tuple[object, ...]) -> None:
    assert isinstance(layer, QuantizedLayer)
    layer.observe(arguments[0])


_CONVOLUTION = (
    "in_channels",
    "out_channels",
    "kernel_size",
    "stride",
    "padding",
    "dilation",
    "groups",
    "padding_mode",
)


def layer_class(base: str, family: str) -> type[QuantizedLayer]:
    """Return the class of a layer in a number format.

    Args:
        base: `Linear`, `Conv1d` or `Conv2d`.
        family: name or alias of a format.
    """
    cls: type[QuantizedLayer] = globals()["__getattr__"](base + _spelled(family))
    return cls


def quantize_layers(
    model: nn.Module, family: str, config: Mapping[str, object] | None = None
) -> nn.Module:
    """Replace every `Linear`, `Conv1d` and `Conv2d` inside `model` in place, and return it.

    Parameters are shared, not copied. Subclasses of the three are left as they are.

    Args:
        model: any module; itself one of the three, the replacement is returned.
        family: name or alias of a format.
        config: what `QuantizedLayer` takes.
    """
    bases = {base: name for name, base in BASES.items()}
    if type(model) in bases:
        return layer_class(bases[type(model)], family).from_float(model, config)
    for name, child in model.named_children():
        setattr(model, name, quantize_layers(child, family, config))
    return model


def _spelled(word: str) -> str:
    """Return a format's name or alias as a part of a class name."""
    cls = format_class(word)
    plain = word.replace("_", "")
    if cls.__name__.lower() == plain:
        return cls.__name__
    return "".join(part.capitalize() for part in word.split("_"))


@cache
def _names() -> dict[str, tuple[str, str]]:
    """Return (layer, format) by the name of every class."""
    words = [word for cls in formats().values() for word in (cls.name, *cls.aliases)]
    return {base + _spelled(word): (base, word) for base in BASES for word in words}


@cache
def _make(name: str) -> type[QuantizedLayer]:
    base, family = _names()[name]
    body = {
        "family": family,
        "__module__": __name__,
        "__doc__": f"`torch.nn.{base}` in the number format {family}; see `QuantizedLayer`.",
    }
    return type(name, (QuantizedLayer, BASES[base]), body)


def __getattr__(name: str) -> Any:
    """Make a class at its first use."""
    if name not in _names():
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; {nearest(name, _names())}"
        )
    return _make(name)


def __dir__() -> list[str]:
    """Names in the module, every quantised layer included."""
    return sorted({*globals(), *_names()})
