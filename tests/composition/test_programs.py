"""The same programs each time: no law is broken but as `known.py` says."""

from __future__ import annotations

from random import Random

import pytest
from tests.composition.known import KNOWN
from tests.composition.machine import random_program

PROGRAMS = 60
SAMPLE = 20
STEPS = 20


@pytest.mark.parametrize(
    "seed",
    [
        *range(SAMPLE),
        *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(SAMPLE, PROGRAMS)),
    ],
)
def test_program(seed: int) -> None:
    random_program(Random(seed), STEPS, KNOWN)
