"""Proofs beside each other, one on each processor: they wait for solvers, which are processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from mase_hw.proof._report import ProofRow

Advance = Callable[[int, int], None]


def together(
    proofs: Sequence[Callable[[], Iterable[ProofRow]]], progress: Advance | None = None
) -> list[ProofRow]:
    """Return the rows of all proofs, in their order.

    Args:
        proofs: each yields its rows.
        progress: called with how many are done, and how many there are.
    """
    if progress:
        progress(0, len(proofs))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = [pool.submit(_rows, proof) for proof in proofs]
        try:
            for done, future in enumerate(as_completed(found), 1):
                future.result()
                if progress:
                    progress(done, len(proofs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [row for future in found for row in future.result()]


def _rows(proof: Callable[[], Iterable[ProofRow]]) -> list[ProofRow]:
    return list(proof())
