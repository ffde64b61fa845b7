"""A transaction that counts on where its branch is commits there, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

import livingdb
from livingdb import TransactionConflict


@pytest.fixture
def main(tmp_path: Path) -> livingdb.Branch:
    db = livingdb.create(tmp_path / "db")
    branch = db.branch("main")
    branch.create_table("t", {"id": "int", "x": "int"}, key="id")
    return branch


def test_it_commits_where_it_was_seen(main: livingdb.Branch) -> None:
    seen = main.head
    with main.transaction(at=seen) as tx:
        tx.insert("t", [{"id": 1}])
    assert tx.snapshot is not None
    assert tx.snapshot.parents == (seen.id,)


def test_it_is_refused_where_the_branch_moved_before(main: livingdb.Branch) -> None:
    seen = main.head.id
    main.insert("t", [{"id": 1}])
    with pytest.raises(TransactionConflict, match="not at"):
        main.transaction(at=seen)


def test_it_is_refused_where_the_branch_moves_meanwhile(main: livingdb.Branch) -> None:
    tx = main.transaction(at="main")
    tx.insert("t", [{"id": 1}])
    main.insert("t", [{"id": 2}])
    with pytest.raises(TransactionConflict, match="not at"):
        tx.commit()
    assert main.table("t").to_arrow()["id"].to_pylist() == [2]
    other = main.transaction()
    other.insert("t", [{"id": 3}])
    main.insert("t", [{"id": 4}])
    other.commit()
    assert len(main.table("t")) == 3
