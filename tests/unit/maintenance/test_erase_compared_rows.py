"""Views whose rows depend on other rows beside their own are computed anew where one is erased."""

from __future__ import annotations

from pathlib import Path

import pytest

import livingdb

VIEWS = {
    "the first of all": "SELECT id AS k, n FROM a ORDER BY n DESC, id LIMIT 2",
    "a rank": "SELECT id AS k, rank() OVER (ORDER BY n) AS r FROM a",
    "an outer join": "SELECT b.id AS k, a.id AS other FROM b LEFT JOIN a ON a.n = b.n",
    "an outer join of its own": "SELECT a.id AS k, b.id AS other FROM a LEFT JOIN b ON a.id = b.id",
    "rows without others": (
        "SELECT id AS k FROM b WHERE NOT EXISTS (SELECT 1 FROM a WHERE a.n = b.n)"
        " UNION ALL SELECT id AS k FROM a WHERE n > 1"
    ),
    "rows not among others": "SELECT id AS k, n FROM b WHERE n NOT IN (SELECT n FROM a)",
    "a difference": "SELECT n AS k FROM b EXCEPT SELECT n AS k FROM a",
    "distinct rows": "SELECT id AS k, n FROM a UNION SELECT id AS k, n FROM b",
    "a filter": "SELECT id AS k, n FROM a WHERE n > 1",
}


@pytest.mark.parametrize("query", VIEWS.values(), ids=VIEWS)
def test_versions_of_the_past_are_their_queries(tmp_path: Path, query: str) -> None:
    with livingdb.create(tmp_path / "db", engine="embedded") as db:
        main = db.branch("main")
        for name, rows in {"a": [1, 3, 5], "b": [3, 5, 7]}.items():
            main.create_table(name, {"id": "bigint", "n": "bigint"}, key="id")
            main.insert(name, {"id": list(range(1, 4)), "n": rows})
        main.derive("v", query, when="immediate")
        before = main.head.id
        main.clone("copy", derived=True)
        main.insert("a", {"id": [10], "n": [4]})
        db.erase("a", [2], reason="asked", aggregates="recompute")
        for ref in (f"id:{before}", "main"):
            made = db.derived_at("v", source=ref).table("v").to_arrow().to_pylist()
            answer = db.at(ref).sql(query).to_arrow().to_pylist()
            assert sorted(map(str, made)) == sorted(map(str, answer))
        assert db.check(deep=True).problems == []
