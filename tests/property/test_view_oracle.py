"""The law of views: each of their snapshots is what the query gives over the snapshots it names.

Views of every construct, some in step with the branch and some refreshed now and then, while rows
come and go, branches are merged and reset, and columns are added and renamed.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.trying import HAS_TIME, tries
from tests.property.view_world import (
    QUERIES,
    TABLES,
    Row,
    Step,
    ViewWorld,
    contents,
    some_edit,
    some_rows,
    steps,
)
from tests.thinned import thinned

import livingdb

quick = settings(
    max_examples=tries(300) if HAS_TIME else 3,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


@quick
@given(
    contents(),
    st.lists(st.tuples(st.sampled_from(QUERIES), st.booleans()), min_size=3, max_size=6),
    st.lists(st.lists(steps(), min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_views_are_their_queries(
    rows: dict[str, list[Row]], views: list[tuple[str, bool]], rounds: list[list[Step]]
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        livingdb.create(Path(folder) / "a.ldb", engine="embedded") as db,
    ):
        world = ViewWorld(db)
        world.fill(rows)
        for number, (query, immediate) in enumerate(views):
            world.derive(f"v{number}", query, immediate)
        for some in rounds:
            for step in some:
                world.step(step)
            world.refresh()
        assert db.check().problems == []


@pytest.mark.parametrize("part", thinned(range(6), every=6))
def test_every_shape(tmp_path: Path, part: int) -> None:
    chance = random.Random(1)
    with livingdb.create(tmp_path / "a.ldb", engine="embedded") as db:
        world = ViewWorld(db)
        world.fill({name: some_rows(chance, name, 8) for name in TABLES})
        for number, query in enumerate(QUERIES[part::6]):
            world.derive(f"v{number}", query, immediate=number % 2 == 0)
        assert len(world.queries) > 10
        world.step(Step("write", some_edit(chance), some_edit(chance), 0))
        world.refresh()
        assert db.check().problems == []
