"""Pictures that are made without haste: what they tell does not depend on the machine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from livingdb.render import page_details as details

__all__ = ["unhurried"]


@contextmanager
def unhurried() -> Iterator[None]:
    """All rows are counted, however long it takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(details, "_SECONDS", math.inf)
        yield
