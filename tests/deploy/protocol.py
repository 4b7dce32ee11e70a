"""The rules of AXI4-Stream and of each AXI4 channel, watched at the pins of a design."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cocotb.triggers import RisingEdge


@dataclass
class ChannelChecker:
    """Watches one channel: once valid is high, valid and the payload hold until it moves.

    Attributes:
        prefix: of the signals, such as `s_axis_0_t`.
        payload: names of what holds, behind the prefix.
        violations: what was broken, with the number of the cycle.
        moves: transfers that were seen.
    """

    dut: Any
    clock: Any
    prefix: str
    payload: Sequence[str]
    reset: Any = None
    violations: list[str] = field(default_factory=list)
    moves: int = 0

    async def run(self) -> None:
        """Watch for ever."""
        signals = {name: getattr(self.dut, self.prefix + name) for name in self.payload}
        valid, ready = (getattr(self.dut, self.prefix + word) for word in ("valid", "ready"))
        held: dict[str, int] | None = None
        cycle = 0
        while True:
            await RisingEdge(self.clock)
            cycle += 1
            if self.reset is not None and not int(self.reset.value):
                held = None
                continue
            offered = int(valid.value)
            now = {name: int(item.value) for name, item in signals.items()} if offered else {}
            if held is not None:
                if not offered:
                    self.violations.append(f"{self.prefix}valid fell in cycle {cycle}")
                changed = [name for name in held if offered and now[name] != held[name]]
                self.violations += [f"{self.prefix}{n} changed in cycle {cycle}" for n in changed]
            moves = offered and int(ready.value)
            self.moves += bool(moves)
            held = now if offered and not moves else None
