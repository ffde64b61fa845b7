"""The same programs each time: no law is broken but as `known.py` says."""

from __future__ import annotations

from random import Random

import pytest
from tests.composition.known import KNOWN
from tests.composition.machine import random_program
from tests.composition.operations import WITH_ERASURE

from livingdb.commit.carrying import follow_later

PROGRAMS = 60
ERASING = 6
STEPS = 20


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_program(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every second one branches follow later wherever they can, however few there are."""
    if seed % 2:
        monkeypatch.setattr(follow_later, "LEAST_FOLLOWERS", 1)
    random_program(Random(seed), STEPS, KNOWN)


@pytest.mark.parametrize("seed", range(ERASING))
def test_program_that_erases(seed: int) -> None:
    """Rows are erased between the other steps, and merges are asked for."""
    random_program(Random(seed), STEPS, KNOWN, WITH_ERASURE)
