"""Typed metadata of a graph node, kept under `node.meta["mase"]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mase_hw.formats import Format
from mase_hw.graph.agreement import Agreement
from mase_hw.graph.memory import AUTO, GENERIC
from mase_hw.ops import TensorSpec


@dataclass(frozen=True)
class SourceLocation:
    """Where in the user's source a node comes from."""

    file: str = ""
    line: int = 0
    code: str = ""

    def __str__(self) -> str:
        """Return `file:line: code`, or a dash when it is not known."""
        return f"{self.file}:{self.line}: {self.code}" if self.file else "-"


@dataclass(frozen=True)
class CommonMetadata:
    """What every pass needs: the operator and all tensors.

    Attributes:
        operator: name of the operator; None when no operator covers the node's target.
        operands: tensors in, by operand name.
        results: tensors out, by result name.
        options: what a configuration says of the operator's arithmetic.
    """

    operator: str | None
    operands: Mapping[str, TensorSpec]
    results: Mapping[str, TensorSpec]
    options: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ValueRange:
    """Observed values of one tensor."""

    minimum: float
    maximum: float
    sparsity: float


@dataclass(frozen=True)
class SoftwareMetadata:
    """What was observed of a node.

    Attributes:
        ranges: of values, by operand and result name.
        order: the node's place.
        examples: how many examples were observed; 0 where that is not known.
    """

    ranges: Mapping[str, ValueRange]
    order: int
    examples: int = 0


@dataclass(frozen=True)
class HardwareMetadata:
    """How the node becomes hardware.

    Attributes:
        module: SystemVerilog module, None for a wire.
        parameters: the module's parameters.
        toolchain: `INTERNAL_RTL` for a module of the library.
        dependence_files: library files the module needs, relative to the library.
        interface: constant operand to where it is stored (`BRAM`, `AXI`).
        work_cycles: cycles one inference occupies the instance.
        multipliers: multipliers in the instance.
        memory: options of the `MemoryPort` through which what is `AXI` in `interface` comes.
        memory_style: of what the memories of the other constants are made.
        device: whose blocks its cells use.
    """

    module: str | None
    parameters: Mapping[str, int | str]
    toolchain: str
    dependence_files: tuple[str, ...]
    interface: Mapping[str, str]
    work_cycles: int
    multipliers: int
    memory: Mapping[str, int] = field(default_factory=dict)
    memory_style: str = AUTO
    device: str = GENERIC

    @property
    def outside(self) -> tuple[str, ...]:
        """The constant operands that lie outside the chip."""
        return tuple(name for name, where in self.interface.items() if where == "AXI")


@dataclass(frozen=True)
class Fill:
    """A constant argument that only means "never", and is smaller than the user's model has it.

    Attributes:
        bound: its magnitude in this graph; of a tensor, that of the elements that mean it.
        magnitude: in the user's model.
    """

    bound: float
    magnitude: float


@dataclass(frozen=True)
class Rounding:
    """A rounding that the model itself declares, wherever passes have moved it.

    Attributes:
        name: of the node that rounded, when the model was captured.
        tensor: the operand or result that has it, of the node whose metadata holds it.
        number: the format that the model rounds to.
        place: the user's line; empty for a constant, which is that of the node that reads it.
        replaced: whether the configuration has another format in its place.
    """

    name: str
    tensor: str
    number: Format
    place: str = ""
    replaced: bool = False

    def __str__(self) -> str:
        """Return its name and its place."""
        return f"{self.name} ({self.place})" if self.place else self.name


@dataclass(frozen=True)
class MaseMetadata:
    """Everything known of one node.

    Attributes:
        module_path: dotted path of the torch module that made the node.
        source: the user's source line.
        pruned: of a parameter, true when its zeros are a mask: training leaves them zero.
        declared: formats that the captured layer itself gives its operands, by name. They hold
            while no pass has given the node other ones.
        exact: whether its declared formats are those of a model that somebody else has quantised,
            so that its results are the codes of the exact numbers.
        folded: whether its constants hold factors of a node that stood behind it.
        asked: whether a configuration gives the format of its result.
        alike: names of the nodes that get the same formats, itself among them, because their layers
            are to run on the same hardware; while formats are chosen.
        fills: arguments that are smaller than the user's model has them.
        agreement: how far its values are from the float model's, where that was measured.
        roundings: those of the model that its operands and results are; of the output, all.
        configured: whether an entry of the configuration selects it.
    """

    module_path: str = ""
    source: SourceLocation = field(default_factory=SourceLocation)
    common: CommonMetadata | None = None
    software: SoftwareMetadata | None = None
    hardware: HardwareMetadata | None = None
    pruned: bool = False
    declared: Mapping[str, Format] = field(default_factory=dict)
    exact: bool = False
    folded: bool = False
    asked: bool = False
    alike: tuple[str, ...] = ()
    fills: tuple[Fill, ...] = ()
    agreement: Agreement | None = None
    roundings: tuple[Rounding, ...] = ()
    configured: bool = False

    @property
    def place(self) -> str:
        """Where it comes from: the user's line, else the torch module, else the model."""
        if self.source.file:
            return str(self.source)
        return f"module {self.module_path}" if self.module_path else "the model's code"
