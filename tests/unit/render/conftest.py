"""Nothing here is left out because the machine was busy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.render.unhurried import unhurried


@pytest.fixture(autouse=True)
def _unhurried() -> Iterator[None]:
    with unhurried():
        yield
