"""Models that others wrote: the layers of torch's own tests, and torchvision's classifiers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mase_hw._kinds import Table
from mase_hw.errors import MaseError

if TYPE_CHECKING:
    from torch import Tensor, nn

Sample = tuple["nn.Module", "list[Tensor]"]

# Torch's binary operators that torchvision describes, and that no classifier uses.
_BOXES = ("nms", "qnms")
# Masks of queries and keys, which modules take beside those of an inference's padding.
_SHARED = ("attn_mask", "mask", "src_mask", "tgt_mask", "memory_mask")
IMAGE, SMALL_IMAGE = 224, 64
SIDES = (32, SMALL_IMAGE, 96, IMAGE)


def module_samples() -> Iterator[tuple[str, list[Sample]]]:
    """Yield the layers of torch's own tests, losses left out, each with its batched samples.

    A sample without a batch is left out, and one of no element; a layer that has no others, such as
    the recurrent ones, is given a batch of two. Where time or tokens come before the batch, the
    sample is one of a model whose batch comes first: it transposes what goes in and what comes out.

    Raises:
        MaseError: where torch's tests cannot be read.
    """
    import torch

    try:
        from torch.testing._internal.common_modules import module_db
    except ImportError as error:
        raise MaseError(f"torch's tests cannot be read: {error}; install expecttest") from error
    for entry in module_db:
        name = entry.module_cls.__name__
        if name.endswith("Loss"):
            continue
        torch.manual_seed(0)
        batched, alone = list[Sample](), list[Sample]()
        for item in entry.module_inputs_func(
            entry, device="cpu", dtype=torch.float32, requires_grad=False, training=False
        ):
            given = item.constructor_input
            called = item.forward_input.args, item.forward_input.kwargs
            if not isinstance(next(iter(called[0]), None), torch.Tensor) or not _is_legal(*called):
                continue
            has_batch = _has_batch(item, name)
            module = entry.module_cls(*given.args, **given.kwargs).eval()
            sample = call_of(module, *called, has_batch=has_batch)
            (batched if has_batch else alone).append(sample)
        yield name, batched or alone


def _is_legal(args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    from torch import Tensor
    from torch.utils._pytree import tree_leaves

    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    return all(leaf.dim() and leaf.numel() for leaf in tensors)


def _has_batch(item: Any, name: str) -> bool:
    """Return whether a sample has a batch: torch compares others with those that have one."""
    checks = getattr(item.reference_fn, "__wrapped__", None)
    checks = getattr(checks, "func", checks)
    if "no_batch_dim" in item.desc or "no_batch_dim" in getattr(checks, "__name__", ""):
        return False
    space = re.search(r"([123])d$", name)
    # A normalisation takes rows, too.
    least = 2 if space is None or "Norm" in name else int(space[1]) + 2
    return bool(item.forward_input.args[0].dim() >= least)


def call_of(
    module: nn.Module, args: Sequence[Any], kwargs: Table, *, has_batch: bool = True
) -> Sample:
    """Return a module of positional tensors alone, their batch first, and those.

    Other arguments are fixed, and masks that are the same for every inference. Tensors without a
    batch are given one of two.
    """
    import torch
    from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

    shared = {name: kwargs[name] for name in _SHARED if kwargs.get(name) is not None}
    rest = {name: value for name, value in kwargs.items() if name not in shared}
    leaves, structure = tree_flatten((tuple(args), rest))
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    # Time before the batch; states of layers always have the batch behind.
    first = next((item.batch_first for item in module.modules() if _has_order(item)), True)
    recurrent = isinstance(module, torch.nn.RNNBase)
    rank = 3 if has_batch else 2
    moved = [
        leaves[place].dim() == rank and (not first or (recurrent and place != places[0]))
        for place in places
    ]

    samples = getattr(module, "_random_samples", None)
    # The windows of the first inference are those of all.
    samples = None if samples is None else samples[:1].float()

    class Call(torch.nn.Module):
        """Calls the module with all its arguments."""

        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, *tensors: Tensor) -> object:
            """Return what the module does."""
            given = list(leaves)
            for place, swap, tensor in zip(places, moved, tensors, strict=True):
                given[place] = tensor.transpose(0, 1) if swap else tensor
            own_args, own_kwargs = tree_unflatten(given, structure)
            if samples is not None:
                self.module._random_samples = samples.expand(tensors[0].shape[0], -1, -1)
            for name, mask in shared.items():
                own_kwargs[name] = _for_heads(mask, tensors[0])
            found = self.module(*own_args, **own_kwargs)
            if recurrent:
                values, states = found
                states = tree_map_only(torch.Tensor, _swapped, states)
                return (values if first else _swapped(values)), states
            if isinstance(self.module, torch.nn.MultiheadAttention):
                # Weights have the batch first always.
                values, weights = found
                return (values if first else _swapped(values)), weights
            return found if first else tree_map_only(torch.Tensor, _swapped, found)

    tensors = [leaves[place].detach() for place in places]
    if not has_batch:
        return Call(), [torch.stack([tensor, tensor.flip(-1)]) for tensor in tensors]
    return Call(), [
        _swapped(tensor) if swap else tensor for tensor, swap in zip(tensors, moved, strict=True)
    ]


def _for_heads(mask: Tensor, rows: Tensor) -> Tensor:
    """Return a mask, one for each head of every inference where it is one for each head."""
    return mask.repeat(rows.shape[0], 1, 1) if mask.dim() == 3 else mask


def _has_order(module: nn.Module) -> bool:
    return hasattr(module, "batch_first")


def _swapped(tensor: Tensor) -> Tensor:
    return tensor.transpose(0, 1) if tensor.dim() >= 3 else tensor


def vision_builders() -> dict[str, Callable[[], Sample]]:
    """Return torchvision's classifiers, untrained, with two images that each takes.

    Raises:
        MaseError: where torchvision is not installed.
    """

    def builder(name: str) -> Callable[[], Sample]:
        def build() -> Sample:
            import torch

            side = _side(name)
            return vision_model(name), [torch.randn(2, 3, side, side)]

        return build

    vision = _torchvision()
    return {name: builder(name) for name in vision.list_models(vision)}


def vision_families() -> dict[str, Callable[[], Sample]]:
    """Return the smallest classifier of each of torchvision's families, and two small images.

    A family is a module of torchvision. Images are as small as the classifier takes, or can be
    built for.

    Raises:
        MaseError: where torchvision is not installed.
    """

    def builder(name: str) -> Callable[[], Sample]:
        def build() -> Sample:
            import torch

            model = vision_model(name)
            side = next(side for side in SIDES if _takes(model, side))
            return model, [torch.randn(2, 3, side, side)]

        return build

    vision, families = _torchvision(), dict[str, tuple[int, str]]()
    for name in vision.list_models(vision):
        family = vision.get_model_builder(name).__module__
        # It says so beside the weights that it offers.
        size = vision.get_model_weights(name).DEFAULT.meta["num_params"]
        families[family] = min(families.get(family, (size, name)), (size, name))
    return {name: builder(name) for _, name in families.values()}


def _takes(model: nn.Module, side: int) -> bool:
    import torch

    try:
        with torch.no_grad():
            model(torch.zeros(2, 3, side, side))
    except (AssertionError, RuntimeError, ValueError):
        return False
    return True


def vision_model(name: str, **options: object) -> nn.Module:
    """Return a classifier of torchvision, untrained, built with these options.

    Raises:
        MaseError: where torchvision is not installed.
    """
    import torch

    torch.manual_seed(0)
    if name in ("googlenet", "inception_v3"):
        options["init_weights"] = False
    model: nn.Module = _torchvision().get_model(name, weights=None, **options)
    return model.eval()


def _torchvision() -> Any:
    """Return torchvision's models.

    Builders are Python alone. A torchvision whose binary operators were built for another torch
    serves, too.
    """
    import torch

    try:
        return import_module("torchvision.models")
    except ImportError as error:
        raise MaseError(f"torchvision is not installed ({error})") from error
    except RuntimeError:
        for name in _BOXES:
            torch.library.define(f"torchvision::{name}", "(Tensor a, Tensor b, float c) -> Tensor")
        return import_module("torchvision.models")


def _side(name: str) -> int:
    """Return the side of a small image that a classifier takes."""
    if name.startswith(("vit", "maxvit")):
        return IMAGE
    return 96 if name == "inception_v3" else SMALL_IMAGE
