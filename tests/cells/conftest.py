"""Cells that are compared for all inputs: one build of those that are selected."""

import pytest

from tests._tiers import selected
from tests.cells.rational import Simulated, simulated


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    claims = request.module.CLAIMS
    chosen = {name: claims[name] for name in selected(request, "name", claims)}
    return simulated(chosen, tmp_path_factory.mktemp("exhaustive"))
