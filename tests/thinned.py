"""Which of many alike cases run in every run of the tests."""

from __future__ import annotations

from collections.abc import Collection
from itertools import product
from typing import Any

import pytest

__all__ = ["thinned"]


def thinned(*axes: Collection[Any], every: int = 4, first: int = 0) -> list[Any]:
    """All combinations of what the axes hold, as parameters; only one in `every` is not slow.

    Those are diagonals: each value of an axis that is not shorter than `every` others is in one.
    `first` tells which, so that two tests of the same cases can share them.
    """
    found = []
    for placed in product(*(enumerate(axis) for axis in axes)):
        is_slow = (sum(place for place, _ in placed) - first) % every != 0
        values = [value for _, value in placed]
        found.append(pytest.param(*values, marks=[pytest.mark.slow] if is_slow else []))
    return found
