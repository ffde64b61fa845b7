"""Arguments of a kind that a call has no use for are errors of ours, and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb import Database, InvalidData, InvalidName, LivingDBError

Call = Callable[[Any], object]

CALLS: dict[str, tuple[Call, type[LivingDBError]]] = {
    "a difference": (lambda db: db.apply(5, "main"), InvalidData),
    "branches of a picture": (lambda db: db.graph(5), InvalidData),
    "a copy to repair from": (lambda db: db.check(repair_from=5), InvalidData),
    "a table": (lambda db: db.branch("main").table(5), InvalidName),
    "a table to write": (lambda db: db.branch("main").insert(5, {"id": [2]}), InvalidName),
    "columns": (lambda db: db.branch("main").table("t").to_arrow(columns=5), InvalidData),
    "a column": (lambda db: db.branch("main").table("t").to_arrow(columns=[[[]]]), InvalidData),
    "a time of upkeep": (lambda db: db.upkeep(seconds=10**400), InvalidData),
    "a time of tuning": (lambda db: db.tune(seconds=10**400), InvalidData),
    "a statement": (lambda db: db.branch("main").sql(5), InvalidData),  # type: ignore[arg-type]
    "a folder": (lambda db: db.branch("main").export(5), InvalidData),
    "tables to export": (lambda db: db.branch("main").export("x", tables=5), InvalidData),
    "a backup": (lambda db: db.backup(5), InvalidName),
    "a parameter": (lambda db: db.branch("main").sql("SELECT ?", [object()]), InvalidData),
    "one in a list": (lambda db: db.branch("main").sql("SELECT ?", [[object()]]), InvalidData),
    "a message": (lambda db: db.branch("main").insert("t", {"id": [2]}, message="\0"), InvalidData),
    "a database": (lambda db: livingdb.open(None), InvalidName),  # type: ignore[arg-type]
    "a new database": (lambda db: livingdb.create(5), InvalidName),  # type: ignore[arg-type]
    "where to restore": (lambda db: livingdb.restore(5, 6), InvalidName),  # type: ignore[arg-type]
}


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Database:
    monkeypatch.chdir(tmp_path)
    made = livingdb.create("shop.ldb", engine="embedded")
    made.branch("main").create_table("t", {"id": "bigint"}, key="id")
    made.branch("main").insert("t", {"id": [1]})
    return made


@pytest.mark.parametrize("what", CALLS)
def test_refused(db: Database, what: str, tmp_path: Path) -> None:
    call, error = CALLS[what]
    head = db.branch("main").head.id
    with pytest.raises(error):
        call(db)
    assert db.branch("main").head.id == head
    assert [path.name for path in tmp_path.iterdir()] == ["shop.ldb"]


@pytest.mark.parametrize("title", ["a\0b", "a\u202eb"])
def test_titles_of_merge_requests_show_what_they_are(db: Database, title: str) -> None:
    db.branch("main").clone("dev").insert("t", {"id": [2]})
    with pytest.raises(LivingDBError):
        db.request_merge("dev", into="main", title=title)
    assert db.merge_requests() == []
