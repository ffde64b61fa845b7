"""The Spark session that pages use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A local Spark that knows LivingDB."""
    import livingdb.spark

    started = livingdb.spark.session(memory="1g")
    yield started
    started.stop()
