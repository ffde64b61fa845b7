"""The same programs each time: no law is broken but as `known.py` says."""

from __future__ import annotations

from random import Random

import pytest
from tests.composition.known import KNOWN
from tests.composition.machine import random_program

PROGRAMS = 60
STEPS = 20


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_program(seed: int) -> None:
    random_program(Random(seed), STEPS, KNOWN)
