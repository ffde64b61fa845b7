"""Laws of blame: whoever wrote last is named, on whichever side of a sync, and through views."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.trying import tries

import livingdb
from livingdb.evolution import AddColumn, RenameColumn, RenameTable, RetypeColumn, SchemaChange

KEYS = [("a", 1), ("a", 2), ("ø", 1), ("ø", 2)]
CHANGES: list[tuple[list[SchemaChange], str, str]] = [
    ([AddColumn("t", "extra", "bigint", default=7)], "t", "v"),
    ([RenameTable("t", "s")], "s", "v"),
    ([RenameColumn("t", "v", "w"), RetypeColumn("t", "w", "double", policy="reject")], "t", "w"),
]

step = st.tuples(
    st.sampled_from(["old", "new"]),
    st.sampled_from(["upsert", "delete"]),
    st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True),
)


@settings(max_examples=tries(25), deadline=None)
@given(
    st.sampled_from(CHANGES),
    st.lists(st.sampled_from(KEYS), unique=True),
    st.lists(step, max_size=10),
    st.booleans(),
)
def test_the_last_writer_is_named(
    change: tuple[list[SchemaChange], str, str],
    first: list[tuple[str, int]],
    steps: list[tuple[str, str, list[tuple[str, int]]]],
    columns: bool,
) -> None:
    changes, table, value = change
    with TemporaryDirectory() as folder, livingdb.create(Path(folder) / "x.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"p": "string", "q": "int", "v": "bigint"}, key=["p", "q"])
        expected: dict[tuple[str, int], str] = {}
        if first:
            made = main.insert("t", [{"p": p, "q": q, "v": 0} for p, q in first])
            expected = dict.fromkeys(first, made.id)
        main.evolve(changes, keep="old", sync="both")
        sides = {"new": (main, table, value), "old": (db.branch("old"), "t", "v")}
        for number, (side, what, keys) in enumerate(steps, start=1):
            branch, name, column = sides[side]
            if what == "upsert":
                rows = [{"p": p, "q": q, column: number} for p, q in keys]
                made = branch.upsert(name, rows)
                expected.update(dict.fromkeys(keys, made.id))
            else:
                branch.delete(name, keys)
                expected = {key: who for key, who in expected.items() if key not in keys}
        for branch, name, column in sides.values():
            found = db.blame(branch, name, columns=columns).to_pylist()
            rows = [row for row in found if not columns or row["column"] == column]
            assert {(row["p"], row["q"]): row["snapshot"] for row in rows} == expected


edit = st.tuples(
    st.sampled_from(["upsert", "delete", "propagate", "merge"]),
    st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True),
)


@settings(max_examples=tries(20), deadline=None)
@given(
    st.sampled_from(["immediate", "deferred"]),
    st.lists(edit, max_size=12),
    st.booleans(),
)
def test_a_view_of_all_columns_has_the_blame_of_its_source(
    when: str, edits: list[tuple[str, list[tuple[str, int]]]], columns: bool
) -> None:
    folder = TemporaryDirectory()
    with folder as path, livingdb.create(Path(path) / "x.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"p": "string", "q": "int", "v": "bigint"}, key=["p", "q"])
        main.insert("t", [{"p": "a", "q": 1, "v": 0}])
        main.derive("u", sql="SELECT v, p, q FROM t", when=when)
        for number, (what, keys) in enumerate(edits, start=1):
            rows = [{"p": p, "q": q, "v": number} for p, q in keys]
            if what == "upsert":
                main.upsert("t", rows)
            elif what == "delete":
                main.delete("t", keys)
            elif what == "merge":
                dev = main.clone(f"dev{number}")
                dev.upsert("t", rows)
                main.upsert("t", [{"p": "main", "q": number, "v": number}])
                db.merge(dev, "main")
            else:
                db.propagate()
        db.propagate()
        parts = ["p", "q", "column", "snapshot"] if columns else ["p", "q", "snapshot"]
        mine, theirs = (
            db.blame(ref, table, columns=columns).select(parts).to_pylist()
            for ref, table in (("u", "u"), ("main", "t"))
        )
        assert {tuple(row.values()) for row in mine} == {tuple(row.values()) for row in theirs}
