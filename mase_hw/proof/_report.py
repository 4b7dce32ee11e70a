"""What proofs found, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from mase_hw.proof._solver import Status, Verdict


DATA = "right data"
PROVED, COMPARED, SIMULATED = "proved", "compared for all inputs", "simulated only"
# Verdicts of what does not hold, or of what nothing is known of any more.
FAILED: tuple[Status, ...] = ("refuted", "vacuous", "unlike")
# From the worst to the best.
_SAID: dict[Status, str] = {
    "refuted": "fails",
    "vacuous": "fails",
    "unlike": "fails",
    "bounded": "inconclusive",
    "simulated": SIMULATED,
    "compared": COMPARED,
    "proved": PROVED,
    "ordered": PROVED,
    "reached": PROVED,
}


def _worst(rows: Sequence[ProofRow]) -> str:
    """Verdict on several properties together."""
    statuses = {row.verdict.status for row in rows}
    return next((word for status, word in _SAID.items() if status in statuses), "in the properties")


@dataclass(frozen=True)
class ProofRow:
    """One property of one cell.

    Attributes:
        cell: name of its class.
        parameters: of its module, in one line.
        claim: the property.
        verdict: what became of it.
        seconds: time taken.
    """

    cell: str
    parameters: str
    claim: str
    verdict: Verdict
    seconds: float

    @property
    def said(self) -> str:
        """The verdict in words."""
        verdict = self.verdict
        cycles = f"{verdict.depth} cycle{'s' if verdict.depth != 1 else ''}"
        words: dict[Status, str] = {
            "proved": f"proved by induction, k = {verdict.depth}",
            "bounded": f"inconclusive: no fault in {cycles}",
            "refuted": f"fails after {cycles}",
            "reached": f"happens after {cycles}",
            "vacuous": "never happens: what is proved says nothing",
            "compared": "compared for all inputs of small instances",
            "unlike": "fails: not the module that was compared for all inputs",
            "simulated": "simulated only",
            "ordered": "follows from the cells: all transfers can be ordered",
        }
        if verdict.status == "proved" and verdict.states:
            return f"proved in all {verdict.states:,} states"
        if verdict.status == "proved" and verdict.clauses:
            return f"proved by induction, {verdict.clauses} clauses"
        return words[verdict.status]


@dataclass(frozen=True)
class ProofReport:
    """What became of every property.

    Attributes:
        rows: by cell and parameters.
        edited: files of a design that are not as they were emitted.
    """

    rows: tuple[ProofRow, ...]
    edited: tuple[str, ...] = ()

    def count(self, *statuses: Status) -> int:
        """Return how many properties have one of these verdicts."""
        return sum(row.verdict.status in statuses for row in self.rows)

    @property
    def refuted(self) -> Sequence[ProofRow]:
        """Properties that do not hold, or say nothing."""
        return [row for row in self.rows if row.verdict.status in FAILED]

    def cells(self) -> dict[str, tuple[str, str]]:
        """Verdicts on the control and on the data of every cell, by its name.

        Control is every claim but that of the data: nothing is lost, invented or late. Data is
        proved, compared for all inputs, simulated, inconclusive or failed, the worst of all
        parameters.
        """
        names = dict.fromkeys(row.cell for row in self.rows)
        worst_of = {}
        for name in names:
            rows = [row for row in self.rows if row.cell == name]
            data = [row for row in rows if row.claim.startswith(DATA)]
            control = [row for row in rows if row not in data and row.verdict.status != "reached"]
            worst_of[name] = (_worst(control), _worst(data))
        return worst_of

    @property
    def seconds(self) -> float:
        """The time of all."""
        return sum(row.seconds for row in self.rows)

    @property
    def summary(self) -> str:
        """How many properties have which verdict, in one line."""
        parts = [
            f"{self.count('proved')} proved for all times",
            f"{self.count('bounded')} inconclusive",
            f"{len(self.refuted)} failed",
            f"{self.count('compared')} compared for all inputs",
            f"{self.count('simulated')} simulated only",
            f"{self.count('reached')} covers reached",
        ]
        cells = self.cells().values()
        whole = [sum(statuses[side] == PROVED for statuses in cells) for side in (0, 1)]
        said = [sum(data == word for _, data in cells) for word in (COMPARED, SIMULATED)]
        parts += [
            f"of {len(cells)} cells control proved of {whole[0]}, data proved of {whole[1]}, "
            f"compared for all inputs of {said[0]}, simulated only of {said[1]}"
        ]
        edited = f"; edited, and proved as it is: {', '.join(self.edited)}" if self.edited else ""
        return f"{', '.join(parts)}; {self.seconds:.0f} s{edited}"

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-serialisable description."""
        return {
            "proved": self.count("proved"),
            "inconclusive": self.count("bounded"),
            "failed": len(self.refuted),
            "seconds": round(self.seconds, 1),
            "edited": list(self.edited),
            "cells": {
                name: {"control": control, "data": data}
                for name, (control, data) in self.cells().items()
            },
            "rows": [
                {
                    "cell": row.cell,
                    "parameters": row.parameters,
                    "property": row.claim,
                    "status": row.verdict.status,
                    "depth": row.verdict.depth,
                    "clauses": row.verdict.clauses,
                    "states": row.verdict.states,
                    "seconds": round(row.seconds, 2),
                    "fault": list(row.verdict.fault),
                }
                for row in self.rows
            ],
        }

    def cell_table(self) -> Table:
        """Return a table with a row per cell: its control and its data, for rich."""
        from rich.table import Table

        table = Table("cell", "control", "data", title="Cells")
        for name, (control, data) in self.cells().items():
            table.add_row(name, control, data)
        return table

    def table(self) -> Table:
        """Return a table with a row per property, for rich."""
        from rich.table import Table

        table = Table(title="Proofs")
        for name in ("cell", "parameters", "property", "verdict"):
            table.add_column(name, overflow="fold")
        table.add_column("s", justify="right")
        shown = ("", "")
        for row in self.rows:
            place = (row.cell, row.parameters)
            cells = place if place != shown else ("", "")
            shown = place
            table.add_row(*cells, row.claim, row.said, f"{row.seconds:.1f}")
        return table
