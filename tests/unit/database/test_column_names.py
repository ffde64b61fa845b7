"""Columns that are called what we call ours keep their names, and ours get others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb import condition
from livingdb.tables.free_names import free_names

NAMES = [
    *("snapshot", "Author", "time", "message", "column", "via", "place"),
    *("_change_type", "_before", "_after", "_base", "_snapshot", "_condition"),
    *("_weight", "_row", "_copy", "_held", "_here", "_old"),
]
ALL = ", ".join(f"`{name}`" for name in NAMES)
VIEWS = {
    "plain": f"SELECT id, {ALL} FROM t",
    "bag": f"SELECT {ALL} FROM t",
    "grouped": "SELECT g, sum(_weight) AS _weight, max(_row) AS _row FROM t GROUP BY g",
    "first": f"SELECT id, {ALL} FROM t ORDER BY _weight DESC LIMIT 2",
    "joined": "SELECT t.id, t._held, o._weight FROM t LEFT JOIN t_old o ON o.id = t.id",
    "distinct_rows": "SELECT DISTINCT _weight, _row, _here FROM t",
    "switched": "SELECT id, _weight FROM t WHERE _weight < (SELECT max(_weight) FROM t_old)",
}


def rows_from(first: int, *keys: int) -> list[dict[str, Any]]:
    values = {name: first + at for at, name in enumerate(NAMES)}
    return [{"id": key, "g": "ab"[key % 2], **values} for key in keys]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    path: Path = tmp_path_factory.mktemp("named") / "shop.ldb"
    with livingdb.create(path, author="ann", engine="embedded") as database:
        main = database.branch("main")
        columns = dict.fromkeys(NAMES, "bigint")
        main.create_table("t", {"id": "bigint", "g": "string", **columns}, key="id")
        main.create_table("t_old", {"id": "bigint", "_weight": "bigint"}, key="id")
        main.insert("t", [*rows_from(10, 1), *rows_from(20, 2), *rows_from(30, 3)])
        main.insert("t_old", [{"id": 1, "_weight": 25}])
        for name, query in VIEWS.items():
            main.derive(name, sql=query, when="immediate")
        guard = condition.in_range("_condition", 0, 60, action="quarantine")
        main.derive("guarded", sql=VIEWS["plain"], when="immediate", conditions=[guard])
        main.upsert("t", [*rows_from(77, 2), *rows_from(5, 4)], message="changed")
        main.delete("t", [3])
        main.upsert("t_old", [{"id": 1, "_weight": 50}])
        for name in NAMES:
            table = f"k{name}"
            main.create_table(table, {name: "bigint", "v": "string"}, key=name)
            main.insert(table, [{name: 7, "v": "a"}])
        yield database


def test_underscores_until_it_is_free() -> None:
    assert free_names(["a", "b"], ["x"]) == ["a", "b"]
    assert free_names(["a", "_a"], ["A", "b"]) == ["_a", "__a"]


@pytest.mark.parametrize("name", VIEWS)
def test_views(db: livingdb.Database, name: str) -> None:
    assert db.sync(name).state == "active"
    kept = db.branch(name).table(name).to_arrow()
    expected = db.branch("main").sql(VIEWS[name]).to_arrow().select(kept.column_names)
    assert sorted(map(repr, kept.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    behind = db.lineage(name)
    assert behind["t"].column_names[-1] == "__snapshot"
    assert db.at(behind["t"].column(-1)[0].as_py()).table("t") is not None
    assert behind.commits["t"].column_names == ["id", "snapshot", "author", "time", "message"]


def test_quarantine(db: livingdb.Database) -> None:
    (aside,) = db.sync("guarded").quarantined().to_pylist()
    assert (aside["id"], aside["_condition"]) == (2, 77 + NAMES.index("_condition"))
    assert "in_range" in aside["__condition"]


def test_history(db: livingdb.Database) -> None:
    newest, oldest = db.history("main", "t", 2).to_pylist()
    assert (newest["snapshot"], newest["Author"], oldest["snapshot"]) == (77, 78, 20)
    assert newest["_author"] == "ann"
    assert db.at(newest["__snapshot"]).message == newest["_message"] == "changed"
    assert [row["__change_type"] for row in (newest, oldest)] == ["update", "insert"]


@pytest.mark.parametrize("name", NAMES)
def test_keys(db: livingdb.Database, name: str) -> None:
    table = f"k{name}"
    (row,) = db.blame("main", table).to_pylist()
    (cell,) = db.blame("main", table, columns=True).to_pylist()
    made = db.at(next(row[n] for n in ("_snapshot", "snapshot") if len(str(row.get(n))) > 9))
    assert row[name] == cell[name] == 7
    assert made.edge.kind == "transaction"
    assert len(row) == 5
    found = db.diff(made.parents[0], made)[table].to_arrow()
    assert found.column_names[0] == name
    assert len(set(found.column_names)) == 4
    assert found.to_pylist()[0][name] == 7


def test_conflicts(db: livingdb.Database) -> None:
    main = db.branch("main")
    other = main.clone("other")
    for at, branch in enumerate((main, other)):
        branch.upsert("k_base", [{"_base": 7, "v": f"x{at}"}])
    with pytest.raises(livingdb.MergeConflict) as caught:
        db.merge("other", into="main")
    (row,) = caught.value.conflicts["k_base"].to_pylist()
    assert row["_base"] == 7
    assert [row[side]["v"] for side in ("__base", "_ours", "_theirs")] == ["a", "x0", "x1"]
