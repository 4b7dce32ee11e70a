"""Signal over error of a quantised graph's values against the float model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from mase_hw._kinds import Table

GRAPH, RTL = "quantized graph", "RTL"
# Stands for a ratio of which only the sign is known, in files.
_BOUND_DB = 999.0


@dataclass(frozen=True)
class Closeness:
    """One tensor beside what the float model computes.

    Attributes:
        sqnr_db: of reals, `10 log10` of the sum of squares over that of the errors; infinite where
            nothing was lost. None for other numbers.
        equal: of indices, truths and complex numbers, the share of elements that are equal.
    """

    sqnr_db: float | None = None
    equal: float | None = None

    def __str__(self) -> str:
        """Return `41.3 dB`, or `99.0 % equal`."""
        if self.sqnr_db is None:
            return f"{100 * (self.equal or 0.0):.1f} % equal"
        return f"{self.sqnr_db:.1f} dB" if math.isfinite(self.sqnr_db) else _extreme(self.sqnr_db)

    def to_dict(self) -> dict[str, float]:
        """Return JSON; 999 and -999 stand for infinity."""
        if self.sqnr_db is None:
            return {"equal": round(self.equal or 0.0, 4)}
        return {"sqnr_db": round(max(-_BOUND_DB, min(self.sqnr_db, _BOUND_DB)), 1)}

    @classmethod
    def from_dict(cls, entry: Table) -> Closeness:
        """Read what `to_dict` wrote."""
        if "equal" in entry:
            return cls(None, float(entry["equal"]))
        ratio = float(entry["sqnr_db"])
        return cls(ratio if abs(ratio) < _BOUND_DB else math.copysign(math.inf, ratio))


def _extreme(ratio: float) -> str:
    return "nothing lost" if ratio > 0 else "all lost"


@dataclass(frozen=True)
class Agreement:
    """What was measured at one node.

    Attributes:
        results: its results by name; on the output node the model's outputs by name.
        saturated: share of elements that a format clips, by operand and result, where it is not 0.
        examples: how many were run.
        checksum: on the output node, of the parameters that were measured.
    """

    results: Mapping[str, Closeness]
    saturated: Mapping[str, float] = field(default_factory=dict)
    examples: int = 0
    checksum: int = 0

    @property
    def sqnr_db(self) -> float | None:
        """The least ratio of its real results; None where there is none."""
        known = [item.sqnr_db for item in self.results.values() if item.sqnr_db is not None]
        return min(known, default=None)

    def to_dict(self) -> dict[str, object]:
        """Return the fields as values of JSON."""
        return {
            "results": {name: item.to_dict() for name, item in self.results.items()},
            **({"saturated": _rounded(self.saturated)} if self.saturated else {}),
            **({"examples": self.examples} if self.examples else {}),
            **({"checksum": self.checksum} if self.checksum else {}),
        }

    @classmethod
    def from_dict(cls, entry: Table) -> Agreement:
        """Read what `to_dict` wrote."""
        return cls(
            {str(name): Closeness.from_dict(item) for name, item in entry["results"].items()},
            {str(name): float(share) for name, share in entry.get("saturated", {}).items()},
            int(entry.get("examples", 0)),
            int(entry.get("checksum", 0)),
        )


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    # Not to nothing: what is there is not zero.
    return {name: max(round(share, 4), 1e-4) for name, share in shares.items()}


@dataclass(frozen=True)
class ModelAgreement:
    """What was measured of a whole model.

    Attributes:
        examples: how many were run.
        outputs: the model's outputs by name.
        worst: the node whose loss is the largest that others read, and
        worst_db: its ratio; None where all is equal.
        source: what was run beside the float model, `GRAPH` or `RTL`.
        nodes: by node what was measured of it.
    """

    examples: int
    outputs: Mapping[str, Closeness]
    worst: str | None = None
    worst_db: float | None = None
    source: str = GRAPH
    nodes: Mapping[str, Agreement] = field(default_factory=dict)

    @property
    def sqnr_db(self) -> float | None:
        """The least ratio of the outputs; None where none is real."""
        return Agreement(self.outputs).sqnr_db

    def __str__(self) -> str:
        """Return a line such as `41.3 dB, 512 examples, worst at lstm_gates (7.7 dB)`."""
        least = min(self.outputs.values(), key=_order)
        line = f"{least}, {self.examples} example{'s' if self.examples != 1 else ''}"
        if self.source == RTL:
            line += " on the RTL"
        if self.worst is not None and self.worst_db is not None:
            line += f", worst at {self.worst} ({Closeness(self.worst_db)})"
        return line

    def to_dict(self) -> dict[str, object]:
        """Return the fields as values of JSON."""
        worst = {} if self.worst_db is None else Closeness(self.worst_db).to_dict()
        return {
            "examples": self.examples,
            "outputs": {name: item.to_dict() for name, item in self.outputs.items()},
            "worst": {"node": self.worst, **worst} if worst else None,
            "measured": self.source,
            "nodes": {name: item.to_dict() for name, item in self.nodes.items()},
        }

    @classmethod
    def from_dict(cls, entry: Table) -> ModelAgreement:
        """Read what `to_dict` wrote."""
        worst = entry["worst"] or {}
        return cls(
            int(entry["examples"]),
            {str(name): Closeness.from_dict(item) for name, item in entry["outputs"].items()},
            worst.get("node"),
            Closeness.from_dict(worst).sqnr_db if worst else None,
            str(entry["measured"]),
            {str(name): Agreement.from_dict(item) for name, item in entry["nodes"].items()},
        )


def _order(item: Closeness) -> tuple[bool, float]:
    """Sort reals before others, the farthest first."""
    if item.sqnr_db is None:
        return True, item.equal or 0.0
    return False, item.sqnr_db
