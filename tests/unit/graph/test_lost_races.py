"""Commits that lose a race are made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb.catalog.sql.postgres import LostRace


def test_a_commit_that_the_catalog_took_back_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As PostgreSQL takes one of two transactions back that wait for each other."""
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint"}, key="id")
        graph, before = db._graph, main.head
        move, lost = graph.branches.move_all, []

        def move_or_lose(*given: Any) -> bool:
            if len(lost) < 2:
                lost.append(given)
                raise LostRace("another transaction is in the way")
            return move(*given)

        monkeypatch.setattr(graph.branches, "move_all", move_or_lose)
        made = main.insert("t", {"id": [1]})
        assert (len(lost), made.parents) == (2, (before.id,))
        assert main.table("t").to_arrow().to_pylist() == [{"id": 1}]
        assert db.check().ok
