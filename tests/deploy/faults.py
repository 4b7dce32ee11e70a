"""Answers of an AXI4 memory that are errors."""

from typing import Any

from cocotbext.axi import AxiResp

ANSWERS = (AxiResp.SLVERR, AxiResp.DECERR)


def answer_with(channel: Any, name: str, code: AxiResp, place: int) -> None:
    """Let the answer that comes `place` answers from now be an error; those around it are right."""
    send, seen = type(channel).send.__get__(channel), 0

    async def faulty(answer: Any) -> None:
        nonlocal seen
        if seen == place:
            setattr(answer, name, code)
        seen += 1
        await send(answer)

    channel.send = faulty
