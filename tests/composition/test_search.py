"""New programs each time, long ones: what they find shrinks, and goes to `test_mended.py`."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.composition.known import KNOWN
from tests.composition.machine import random_program
from tests.composition.operations import WEIGHTS, WITH_ERASURE

PROGRAMS = 200
STEPS = 50


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(
    max_examples=PROGRAMS,
    deadline=None,
    derandomize=False,
    suppress_health_check=list(HealthCheck),
)
@given(random=st.randoms(use_true_random=False), erases=st.booleans())
def test_programs(random: Random, erases: bool) -> None:
    """The message of a failure is the program that fails, by value."""
    random_program(random, STEPS, KNOWN, WITH_ERASURE if erases else WEIGHTS)
