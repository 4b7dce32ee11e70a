"""Layers that compute with quantised operands: drop-in modules for model constructors.

Every pair of a layer of `torch.nn` (`Linear`, `Conv1d`, `Conv2d`) and a number format is a class of
this module, made when it is first asked for: `LinearInteger`, `LinearMXInt`, `Conv2dBinaryScaling`,
`LinearMinifloatIEEE`, ... The format is the one whose name or alias the rest of the word spells.

    >>> from mase_hw.nn import LinearMXInt
    >>> layer = LinearMXInt(64, 32, config={"data_in_width": 8, "weight_width": 4})

`quantize_layers` replaces the layers of a whole model.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Self

import torch.nn.functional as F
from torch import Tensor, nn

from mase_hw._registry import nearest
from mase_hw.errors import ConfigError
from mase_hw.formats import Format, format_class, formats

BASES: dict[str, type[nn.Module]] = {
    "Linear": nn.Linear,
    "Conv1d": nn.Conv1d,
    "Conv2d": nn.Conv2d,
}
OPERANDS = ("data_in", "weight", "bias")
# Values that inputs are taken to have where a format's range is left open.
DATA_RANGE = 4.0


class QuantizedLayer(nn.Module):
    """What every quantised layer does, whatever its layer and its format.

    The constructor takes what the layer of `torch.nn` takes, and `config`. Its keys are
    `<operand>_<field>` with the operands `data_in`, `weight` and `bias`, as in the quantisation
    pass; `<operand>_name` changes the format of one operand. Fields that are left open are fitted
    to the weights as they are initialised, and to inputs from -4 to 4; a scale that may follow
    the data (binary, ternary) does. The bias is quantised only when the configuration has a key
    for it. Blocks lie along the dimension that is summed over.

    Raises:
        ConfigError: for an unknown key.
        FormatError: for a value that the format does not allow.
    """

    family: str
    data_in_format: Format
    weight_format: Format
    bias_format: Format | None

    def __init__(self, *args: Any, config: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.config = dict(config or {})
        self._check_keys()
        self.refit()

    def _fields(self, operand: str) -> tuple[type[Format], dict[str, Any]]:
        given = {
            key.removeprefix(f"{operand}_"): value
            for key, value in self.config.items()
            if key.startswith(f"{operand}_")
        }
        cls = format_class(str(given.pop("name", self.family)))
        if "axis" in cls.field_names() and isinstance(self, nn.Conv1d | nn.Conv2d):
            given.setdefault("axis", 0 if operand == "bias" else 1)
        if cls.scale_follows_data:
            given.setdefault("scale", None)
        return cls, given

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

    def refit(self) -> None:
        """Fit the open fields of the weight's and the bias' format to their present values."""
        cls, fields = self._fields("data_in")
        self.data_in_format = cls.fit(-DATA_RANGE, DATA_RANGE, **fields)
        cls, fields = self._fields("weight")
        self.weight_format = cls.fit_values(self.get_parameter("weight").detach(), **fields)
        self.bias_format = None
        if any(key.startswith("bias_") for key in self.config) and self.bias is not None:
            cls, fields = self._fields("bias")
            self.bias_format = cls.fit_values(self.get_parameter("bias").detach(), **fields)

    def forward(self, data_in: Tensor) -> Tensor:
        """Return the layer's result on quantised operands, differentiable straight through."""
        data_in = self._quantize(data_in, self.data_in_format)
        weight = self._quantize(self.get_parameter("weight"), self.weight_format)
        bias: Tensor | None = None if self.bias is None else self.get_parameter("bias")
        if self.bias_format is not None and bias is not None:
            bias = self._quantize(bias, self.bias_format)
        if isinstance(self, nn.Conv1d | nn.Conv2d):
            result: Tensor = self._conv_forward(data_in, weight, bias)
            return result
        return F.linear(data_in, weight, bias)

    def _quantize(self, values: Tensor, number_format: Format) -> Tensor:
        used = number_format if self.training else number_format.at_inference()
        return used.fake_quantize(values)

    @classmethod
    def from_float(cls, layer: nn.Module, config: Mapping[str, Any] | None = None) -> Self:
        """Return a quantised layer that shares the parameters of `layer`, of the same kind."""
        base = next(base for base in BASES.values() if issubclass(cls, base))
        if not isinstance(layer, base):
            raise ConfigError(f"{cls.__name__}.from_float takes {base.__name__}, not {layer}")
        keys = {
            nn.Linear: ("in_features", "out_features"),
            nn.Conv1d: _CONVOLUTION,
            nn.Conv2d: _CONVOLUTION,
        }[base]
        given = {key: getattr(layer, key) for key in keys}
        quantized = cls(**given, bias=layer.bias is not None, config=config)
        quantized.register_parameter("weight", layer.get_parameter("weight"))
        quantized.register_parameter("bias", layer._parameters["bias"])
        quantized.refit()
        return quantized

    def extra_repr(self) -> str:
        """Return the layer's sizes and formats."""
        return f"{super().extra_repr()}, data_in={self.data_in_format}, weight={self.weight_format}"


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
    model: nn.Module, family: str, config: Mapping[str, Any] | None = None
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
    """Return what the module has, every quantised layer included."""
    return sorted({*globals(), *_names()})
