"""The inputs of a simulation: real values in any container, checked and encoded to codes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from mase_hw.emit.design import Stream
from mase_hw.errors import SimulationError
from mase_hw.formats import Kind

# Codes of one run are held in memory, 8 bytes each, several times over.
MOST_ELEMENTS = 1_000_000_000
# Powers of two by which normal values are smaller, at most.
MAGNITUDES = 4


# What ends the name of an input that is given as codes.
CODES = "_codes"


def encode_inputs(streams: Sequence[Stream], inputs: object) -> list[Tensor]:
    """Return int64 codes `[inferences, *shape]` for each input stream; see `read_inputs`."""
    return encode_values(streams, read_inputs(streams, inputs))


def encode_values(streams: Sequence[Stream], values: Sequence[Tensor]) -> list[Tensor]:
    """Return the codes `[inferences, *shape]` of what `read_inputs` returned."""
    return [
        stream.spec.quantized.encode(item.reshape(stream.rows(len(item)))).reshape(
            len(item), *stream.spec.shape
        )
        for stream, item in zip(streams, values, strict=True)
    ]


def read_inputs(streams: Sequence[Stream], inputs: object) -> list[Tensor]:
    """Return the values of each input stream, inferences first.

    Args:
        streams: the input streams of the design.
        inputs: a tensor or array for a design of one input; a sequence in the order of the inputs;
            a mapping by stream or node name; or the path of an `.npz` (or, for one input, `.npy`)
            file. Real values: `[inferences, *shape]`, or with the inferences in place of a leading
            dimension of 1; where the model has its batch in another dimension, as the model. In a
            mapping or `.npz` file, `NAME_codes` are codes of the format of NAME instead.

    Raises:
        SimulationError: when an input is missing, or its shape or dtype is not the stream's.
    """
    named = _by_stream(streams, inputs)
    values = [_values(stream, named[stream.name]) for stream in streams]
    counts = {stream.name: len(item) for stream, item in zip(streams, values, strict=True)}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise SimulationError(f"the inputs differ in their number of inferences: {listed}")
    if len(values[0]) == 0:
        raise SimulationError("the inputs hold no inference: at least 1 is needed")
    return values


def random_codes(streams: Sequence[Stream], count: int, seed: int) -> list[Tensor]:
    """Return random codes `[count, *shape]` for each input, over the whole range of its format.

    Where codes have exponents or shared scales, every other inference holds normal values instead,
    of one magnitude: in sums of the whole range the largest scale hides all else, such as a bias.
    """
    if count < 1:
        raise SimulationError(f"{count} samples were asked for: at least 1 is needed")
    elements = count * sum(math.prod(item.spec.shape) for item in streams)
    if elements > MOST_ELEMENTS:
        raise SimulationError(
            f"{count} samples are {elements} elements; at most {MOST_ELEMENTS} are in one run"
        )
    generator = torch.Generator().manual_seed(seed)
    return [_random(item, count, generator) for item in streams]


def _random(stream: Stream, count: int, generator: torch.Generator) -> Tensor:
    number = stream.spec.quantized
    shape = (count, *stream.spec.shape)
    codes = number.random_codes(stream.rows(count), generator).reshape(shape)
    encoding = number.encoding
    if encoding.is_block or encoding.kind is Kind.FLOAT:
        values = torch.randn((count // 2, *stream.spec.shape), generator=generator)
        magnitudes = torch.randint(-MAGNITUDES, 2, (count // 2,), generator=generator)
        scales = magnitudes.double().exp2().reshape(-1, *[1] * len(stream.spec.shape))
        codes[1::2] = encode_values([stream], [(values * scales).float()])[0]
    return codes


def _by_stream(streams: Sequence[Stream], inputs: object) -> dict[str, object]:
    names = [stream.name for stream in streams]
    if isinstance(inputs, (str, Path)):
        return _by_stream(streams, _read(Path(inputs)))
    if isinstance(inputs, Mapping):
        inputs = _with_values(streams, inputs)
        if len(names) == 1 and len(inputs) == 1:
            return {names[0]: next(iter(inputs.values()))}
        aliases = {stream.node: stream.name for stream in streams} | {name: name for name in names}
        unknown = [key for key in inputs if key not in aliases]
        named = {aliases[key]: value for key, value in inputs.items() if key in aliases}
        missing = [name for name in names if name not in named]
        if unknown or missing:
            listed = ", ".join(map(str, inputs)) or "nothing"
            raise SimulationError(
                f"the inputs hold {listed}; the design takes: "
                + ", ".join(f"{stream.name} ({stream.node})" for stream in streams)
            )
        return named
    if len(names) == 1 and not isinstance(inputs, (list, tuple)):
        return {names[0]: inputs}
    if not isinstance(inputs, (list, tuple)) or len(inputs) != len(names):
        count = len(inputs) if isinstance(inputs, (list, tuple)) else 1
        raise SimulationError(
            f"{count} inputs were given; the design has {len(names)}: {', '.join(names)}"
        )
    return dict(zip(names, inputs, strict=True))


def _with_values(
    streams: Sequence[Stream], inputs: Mapping[object, object]
) -> dict[object, object]:
    """Return inputs with the values of what is given as codes.

    Raises:
        SimulationError: for numbers that are no codes of the stream's format.
    """
    tensors = {}
    for key, value in inputs.items():
        name = str(key).removesuffix(CODES)
        named = (item for item in streams if name in (item.name, item.node))
        stream = next(named, streams[0] if len(streams) == len(inputs) == 1 else None)
        if name == key or stream is None:
            tensors[key] = value
            continue
        number, codes = stream.spec.quantized, torch.as_tensor(_native(value))
        if codes.is_floating_point() or not torch.equal(
            number.encode(number.decode(codes.long())), codes.long()
        ):
            raise SimulationError(f"{key} holds what are no codes of {stream.name}, {number}")
        dtype = getattr(torch, stream.spec.dtype.removeprefix("torch."))
        tensors[stream.name] = number.decode(codes.long()).to(dtype)
    return tensors


def _read(path: Path) -> object:
    try:
        loaded = np.load(path, allow_pickle=False)
        return dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except OSError as error:
        raise SimulationError(f"inputs {path} cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError, BadZipFile, NotImplementedError, RuntimeError) as error:
        raise SimulationError(
            f"inputs {path} hold no arrays of numbers; numpy.savez writes such a file (.npz), "
            "numpy.save for a single input (.npy)"
        ) from error


def _native(values: object) -> np.ndarray[Any, Any]:
    """Return an array in this machine's order of bytes."""
    array = np.asarray(values)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _values(stream: Stream, array: object) -> Tensor:
    spec = stream.spec
    try:
        values = array.detach() if isinstance(array, Tensor) else torch.from_numpy(_native(array))
    except TypeError as error:
        raise SimulationError(
            f"input {stream.name} is no array of numbers; expected {spec.dtype} real values"
        ) from error
    if values.is_meta or values.layout is not torch.strided:
        kind = "on the meta device" if values.is_meta else f"of layout {values.layout}"
        raise SimulationError(f"input {stream.name} is {kind}; expected a dense tensor with values")
    wants_float = spec.dtype.removeprefix("torch.").startswith(("float", "bfloat"))
    if values.is_floating_point() != wants_float:
        raise SimulationError(
            f"input {stream.name} has dtype {values.dtype}; expected {spec.dtype} real values"
        )
    if wants_float:
        values = values.to(getattr(torch, spec.dtype.removeprefix("torch.")))
    given_shape = tuple(values.shape)
    if stream.batch_dim is None and given_shape == spec.shape:
        values = values.reshape(stream.several(1))
    dim = stream.batch_dim or 0
    if dim < values.ndim:
        values = values.movedim(dim, 0)
    count = len(values) if values.ndim else 0
    if tuple(values.shape) not in {(count, *spec.shape), stream.several(count)}:
        wanted = [*map(str, stream.several(0)[1:])]
        wanted.insert(dim, "N")
        raise SimulationError(
            f"input {stream.name} has shape {given_shape}; expected "
            f"({', '.join(wanted)}) for N inferences"
        )
    if bool(values.isnan().any()):
        index = tuple(values.isnan().nonzero()[0].tolist())
        raise SimulationError(f"input {stream.name} holds NaN at {index}; expected real values")
    if stream.places is not None and bool(((values < 0) | (values >= stream.places)).any()):
        beyond = ((values < 0) | (values >= stream.places)).flatten(1).any(1)
        step = int(beyond.nonzero()[0])
        raise SimulationError(
            f"input {stream.name} asks for position {values[step].flatten()[0].item():g} in "
            f"inference {step}; the cache is full: it has {stream.places} places, positions 0 to "
            f"{stream.places - 1}"
        )
    return values
