"""Rows that are seen through several lenses, with changes in between."""

from __future__ import annotations

import livingdb
from livingdb.evolution import AddColumn


def test_rows_that_are_gone_between_two_lenses_keep_their_keys(tmp_path):
    with livingdb.create(tmp_path / "x.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"a": "int", "b": "string"}, key=["a", "b"])
        main.insert("t", {"a": [1, 2, 3], "b": ["x", "y", "z"]})
        main.evolve(AddColumn("t", "c", "int", default=1))
        main.delete("t", [(2, "y")])
        main.upsert("t", {"a": [4], "b": ["v"], "c": [5]})
        main.evolve(AddColumn("t", "d", "int", default=2))
        graph = db._graph
        head = graph.snapshots.at(graph.branch("main").head)
        tail = graph.versions.rows(graph.version(head, "t")).tail
        assert tail is not None
        keys = [column.to_pylist() for column in tail.columns[:2]]
        assert sorted(zip(*keys, strict=True)) == [(2, "y"), (4, "v")]
        assert main.table("t").to_arrow()["a"].to_pylist() == [1, 3, 4]
