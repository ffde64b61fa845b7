"""Conditions that this version does not know: they stop their sync, and no inspection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb import condition as c

LATER = {"name": "phase_of_moon", "is_full": True, "action": "hold", "text": "phase_of_moon(true)"}
OTHER_ARGUMENTS = {"name": "not_null", "columns": ["id"], "softly": 1, "text": "not_null('id', 1)"}
NO_CONDITION = {"name": "mean", "column": "id", "text": "mean('id')"}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb") as made:
        main = made.branch("main")
        main.create_table("orders", {"id": "bigint"}, key="id")
        known = c.not_null("id")
        main.derive("v", "SELECT id FROM orders", when="immediate", conditions=[known])
        yield made


def give(db: livingdb.Database, *conditions: dict[str, Any]) -> None:
    """Write conditions down as a later version would."""
    graph, (row,) = db._graph, db.sync("v")._chain
    guard = {**row.guard, "conditions": [*row.guard["conditions"], *conditions]}
    with graph.catalog.write() as connection:
        graph.catalog.syncs.set_schedule(connection, row.id, row.frequency, guard)
        graph.catalog.raise_epoch(connection)


@pytest.mark.parametrize("given", [LATER, OTHER_ARGUMENTS, NO_CONDITION])
def test_they_can_be_looked_at(db: livingdb.Database, given: dict[str, Any]) -> None:
    give(db, given)
    sync = db.sync("v")
    assert [one.text for one in sync.conditions] == ["not_null('id')", given["text"]]
    assert sync.conditions[1].action == given.get("action", "detach")
    assert given["text"] in sync.explain()
    assert sync.lag is not None


@pytest.mark.parametrize("given", [LATER, OTHER_ARGUMENTS, NO_CONDITION])
def test_they_stop_their_sync(db: livingdb.Database, given: dict[str, Any]) -> None:
    give(db, given)
    db.branch("main").insert("orders", [{"id": 1}])
    assert db.sync("v").state == {"hold": "held"}.get(given.get("action", ""), "detached")
    assert given["text"] in db.sync("v").reason
    assert "cannot be judged" in db.sync("v").reason
    assert len(db.branch("v").table("v")) == 0


def test_they_can_be_given_again(db: livingdb.Database) -> None:
    give(db, LATER)
    sync = db.sync("v")
    sync.alter(conditions=[*sync.conditions, c.in_range("id", 0, 9)])
    (row,) = db.sync("v")._chain
    assert row.guard["conditions"][1] == LATER
    assert db.sync("v").condition_texts[2]["text"] == "in_range('id', 0, 9)"
