"""Branches that merged each other crosswise have several common ancestors, in several schemas.

What one side alone did since is no conflict, what both did differently is one, and either way
gives the same rows; so says a model on plain dicts (`crossing_model.py`).
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.merging.crossing_lab import Edit, crossing_lab
from tests.merging.crossing_model import CHANGES
from tests.property.trying import tries

Step = tuple[str, str | Edit]
"""A branch, and a change of its schema or of a row."""

edits = st.tuples(
    st.sampled_from(("v", "v", "w", "x", "delete", "insert")),
    st.integers(1, 7),
    st.integers(10, 12),
)
step = st.tuples(st.sampled_from("ab"), st.one_of(st.sampled_from(CHANGES), edits))
rounds = st.lists(st.lists(step, max_size=6), min_size=2, max_size=3)
many_rounds = st.lists(st.lists(step, max_size=6), min_size=2, max_size=5)


def check_crossings(given_rounds: list[list[Step]], by_cell: bool) -> None:
    with crossing_lab() as lab:
        for number, some in enumerate(given_rounds):
            if number:
                lab.cross()
            for name, what in some:
                if isinstance(what, str):
                    lab.evolve(name, what)
                else:
                    lab.edit(name, what)
        lab.compare_merges(by_cell)


@settings(max_examples=tries(45))
@given(rounds, st.booleans())
def test_merges_that_cross(given_rounds: list[list[Step]], by_cell: bool) -> None:
    check_crossings(given_rounds, by_cell)


@pytest.mark.slow
@settings(max_examples=tries(150), derandomize=False)
@given(many_rounds, st.booleans())
def test_merges_that_cross_searched(given_rounds: list[list[Step]], by_cell: bool) -> None:
    check_crossings(given_rounds, by_cell)
