"""New programs each time, long ones: what they find goes to `test_mended.py`."""

from __future__ import annotations

from random import Random

import pytest
from tests.composition.known import KNOWN
from tests.composition.machine import random_program
from tests.composition.operations import WEIGHTS, WITH_ERASURE
from tests.property.trying import SEED, tries

PROGRAMS = 200
STEPS = 50
PARTS = 4


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
def test_programs(part: int) -> None:
    """The message of a failure is the program that fails, by value."""
    for number in range(part, tries(PROGRAMS), PARTS):
        seed = f"{SEED} {number}"
        try:
            random_program(Random(seed), STEPS, KNOWN, WITH_ERASURE if number % 2 else WEIGHTS)
        except BaseException as error:
            error.add_note(f"drawn with the seed {seed!r}")
            raise
