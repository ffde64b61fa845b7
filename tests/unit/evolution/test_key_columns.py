"""Columns of a key in another type, or left out of it."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.lens_lab import Pair
from tests.property.trying import tries

import livingdb
from livingdb.errors import DuplicateKey, IllegalSync, InvalidData, Unsupported
from livingdb.evolution import CreateTable, DropColumn, RetypeColumn, SchemaChange
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

ROWS = [{"a": str(n % 3), "b": n, "v": f"v{n}"} for n in range(12)]


@pytest.fixture
def main(tmp_path: Path) -> Iterator[livingdb.Branch]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as db:
        branch = db.branch("main")
        columns = {"a": "string", "b": "bigint", "v": "string"}
        branch.create_table("t", columns, key=["a", "b"])
        branch.insert("t", ROWS)
        yield branch


def rows(branch: livingdb.Branch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = branch.table("t").to_arrow().to_pylist()
    return found


# --- another type ----------------------------------------------------------------------------


def test_rows_go_by_the_order_of_the_new_type(main: livingdb.Branch) -> None:
    main.insert("t", [{"a": text, "b": 0, "v": ""} for text in ("10", "-5", "9")])
    main.evolve(RetypeColumn("t", "a", "int"), keep="old", sync="both")
    assert [row["a"] for row in rows(main)] == [-5, *[0] * 4, *[1] * 4, *[2] * 4, 9, 10]
    old = main.database.branch("old")
    old.insert("t", [{"a": "77", "b": 1, "v": "new"}])
    main.update("t", {"a": [77], "b": [1], "v": ["newer"]})
    assert old.table("t").get(("77", 1)) == {"a": "77", "b": 1, "v": "newer"}
    main.delete("t", [(77, 1)])
    assert old.table("t").get(("77", 1)) is None
    states = rows(old), rows(main)
    main.migrate()
    assert (rows(old), rows(main)) == states
    assert main.database.check(deep=True).problems == []


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("double", [-1.5, 0.0, 0.1, 1e300]),
        ("boolean", [False, True]),
        ("date", [datetime.date(1, 1, 1), datetime.date(2024, 2, 29)]),
        ("timestamp_ntz", [datetime.datetime(2024, 2, 29, 12, 30, 5, 250000)]),
        ("decimal(5,2)", [Decimal("-1.50"), Decimal("100.00")]),
    ],
)
def test_keys_as_text_and_back(main: livingdb.Branch, kind: str, values: list[object]) -> None:
    main.create_table("k", {"id": kind, "v": "int"}, key="id")
    main.insert("k", [{"id": value, "v": at} for at, value in enumerate(values)])
    before = main.table("k").to_arrow().to_pylist()
    main.evolve(RetypeColumn("k", "id", "string"))
    assert len(main.table("k")) == len(values)
    main.evolve(RetypeColumn("k", "id", kind))
    assert main.table("k").to_arrow().to_pylist() == before


@pytest.mark.parametrize("key", ["x", "07", " 7", ""])
def test_a_key_that_does_not_come_back_is_refused(main: livingdb.Branch, key: str) -> None:
    clone = main.clone("clone")
    clone.insert("t", [{"a": key, "b": 1}])
    (failure,) = clone.explain_evolution(RetypeColumn("t", "a", "int")).failures
    with pytest.raises(InvalidData, match=f"'t', column 'a': '{key}' .* does not fit int") as seen:
        clone.evolve(RetypeColumn("t", "a", "int"))
    assert str(seen.value) == failure
    main.evolve(RetypeColumn("t", "a", "int"), keep="old", sync="both")
    with pytest.raises(InvalidData, match=f"'t', column 'a': '{key}' .* does not fit int"):
        main.database.branch("old").insert("t", [{"a": key, "b": 1}])


def test_keys_in_quarantine(main: livingdb.Branch) -> None:
    main.insert("t", [{"a": "07", "b": 1, "v": "seven"}])
    change = RetypeColumn("t", "a", "int", policy="quarantine")
    assert main.explain_evolution(change).scans == ()
    main.evolve(change, keep="old", sync="both")
    assert len(main.table("t")) == len(ROWS)
    main.insert("t", [{"a": 7, "b": 1, "v": "another"}])
    old = main.database.branch("old")
    assert old.table("t").get(("07", 1)) == {"a": "07", "b": 1, "v": "seven"}
    assert old.table("t").get(("7", 1)) == {"a": "7", "b": 1, "v": "another"}
    old.update("t", {"a": ["07"], "b": [1], "v": ["changed"]})
    assert main.table("t").get((7, 1)) == {"a": 7, "b": 1, "v": "another"}
    assert main.database.check(deep=True).problems == []


def test_a_later_key_detaches_a_one_way_sync(main: livingdb.Branch) -> None:
    db = main.database
    main.evolve(RetypeColumn("t", "a", "int"), to="next", sync="forward")
    before = rows(db.branch("next"))
    main.insert("t", [{"a": "x", "b": 1}])
    (sync,) = db.syncs()
    assert sync.state == "detached"
    assert rows(db.branch("next")) == before


def test_blame_and_lineage_follow_a_key(main: livingdb.Branch) -> None:
    db = main.database
    first = main.head
    main.evolve(RetypeColumn("t", "a", "int"))
    main.update("t", {"a": [1], "b": [1], "v": ["mine"]})
    told = {(row["a"], row["b"]): row["snapshot"] for row in db.blame("main", "t").to_pylist()}
    assert told[1, 1] == main.head.id
    assert told[2, 2] == first.id
    main.evolve(DropColumn("t", "a"))
    told = {row["b"]: row["snapshot"] for row in db.blame("main", "t").to_pylist()}
    assert told[2] == first.id


def test_a_revert_gives_the_key_its_type_back(main: livingdb.Branch) -> None:
    made = main.evolve(RetypeColumn("t", "a", "int"))
    main.insert("t", [{"a": 5, "b": 5, "v": "five"}])
    main.revert(made.id)
    assert main.table("t").get(("5", 5)) == {"a": "5", "b": 5, "v": "five"}


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (RetypeColumn("t", "a", "int", up="length(a)"), Unsupported, "no `up` and `down`"),
        (RetypeColumn("t", "b", "date"), Unsupported, "is not cast"),
        (RetypeColumn("p", "id", "string"), InvalidData, "refers to 'p'"),
        (DropColumn("p", "id"), InvalidData, "is in the key"),
    ],
)
def test_what_is_refused(
    main: livingdb.Branch, change: SchemaChange, kind: type[Exception], message: str
) -> None:
    main.evolve(
        [
            CreateTable("p", {"id": "bigint", "v": "string"}, "id"),
            CreateTable("c", {"id": "bigint", "p": "bigint"}, "id", foreign_keys={"p": "p"}),
        ]
    )
    with pytest.raises(kind, match=message):
        main.evolve(change)


# --- a column less ---------------------------------------------------------------------------


def test_what_is_left_of_a_key_has_to_be_unique(main: livingdb.Branch) -> None:
    change = DropColumn("t", "b", default=0)
    failures = main.explain_evolution(change).failures
    assert len(failures) == 3
    message = r"several rows have the key '0': \('0', 0\), \('0', 3\)"
    with pytest.raises(DuplicateKey, match=message) as caught:
        main.evolve(change)
    assert str(caught.value) == failures[0]
    assert rows(main) == sorted(ROWS, key=lambda row: (row["a"], row["b"]))


def test_directions_of_a_dropped_key_column(main: livingdb.Branch) -> None:
    assert main.explain_evolution(DropColumn("t", "a")).legal == ("forward", "none")
    assert "both" in main.explain_evolution(DropColumn("t", "a", default="?")).legal
    assert "both" in main.explain_evolution(DropColumn("t", "a", down="left(v, 1)")).legal
    with pytest.raises(IllegalSync, match="give a default or a `down` expression"):
        main.evolve(DropColumn("t", "a"), keep="old", sync="both")


def test_both_sides_of_a_dropped_key_column(main: livingdb.Branch) -> None:
    main.evolve(DropColumn("t", "a", down="left(v, 1)"), keep="old", sync="both")
    old = main.database.branch("old")
    assert main.table("t").key == ("b",)
    main.insert("t", [{"b": 100, "v": "hundred"}])
    main.update("t", {"b": [3], "v": ["three"]})
    main.delete("t", [4])
    assert old.table("t").get(("h", 100)) == {"a": "h", "b": 100, "v": "hundred"}
    assert old.table("t").get(("0", 3)) == {"a": "0", "b": 3, "v": "three"}
    assert old.table("t").get(("1", 4)) is None
    with pytest.raises(DuplicateKey, match="another row has b 3 already"):
        old.insert("t", [{"a": "z", "b": 3}])
    with old.transaction() as tx:  # another row with the rest of its key takes its place
        tx.delete("t", [("0", 3)])
        tx.insert("t", [{"a": "z", "b": 3, "v": "moved"}])
    assert main.table("t").get(3) == {"b": 3, "v": "moved"}
    main.update("t", {"b": [3], "v": ["again"]})
    assert old.table("t").get(("z", 3)) == {"a": "z", "b": 3, "v": "again"}
    assert main.database.check(deep=True).problems == []


def test_a_revert_of_a_dropped_key_column(main: livingdb.Branch) -> None:
    made = main.evolve(DropColumn("t", "a", default="new"))
    main.insert("t", [{"b": 100, "v": "hundred"}])
    main.revert(made.id)
    assert main.table("t").get(("2", 2)) == {"a": "2", "b": 2, "v": "v2"}
    assert main.table("t").get(("new", 100)) == {"a": "new", "b": 100, "v": "hundred"}


# --- laws ------------------------------------------------------------------------------------

CASES: dict[str, tuple[SchemaChange, dict[str, str], Any, Any]] = {
    "text to int": (
        RetypeColumn("t", "k", "int", policy="quarantine"),
        {"k": "string", "m": "int", "v": "int"},
        st.sampled_from(["7", "07", "x", "-1", ""]),
        st.integers(-3, 8),
    ),
    "int to text": (
        RetypeColumn("t", "k", "string", policy="quarantine"),
        {"k": "int", "m": "int", "v": "int"},
        st.integers(-3, 8),
        st.sampled_from(["7", "07", "x", "-1", ""]),
    ),
    "double to int": (
        RetypeColumn("t", "k", "int", policy="reject"),
        {"k": "double", "m": "int", "v": "int"},
        st.sampled_from([0.0, -0.0, 1.5, 2.0, 3e12]),
        st.integers(-3, 3),
    ),
    "dropped": (
        DropColumn("t", "k", default=9),
        {"k": "int", "m": "int", "v": "int"},
        st.integers(0, 2),
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=tries(30))
@given(data=st.data())
def test_laws(name: str, data: st.DataObject) -> None:
    """Writes on both sides keep them in step; the laboratory checks the laws with each."""
    change, columns, old, new = CASES[name]
    tables = {"t": Definition(TableSchema.of(columns, ["k", "m"]), Layout())}
    pair = Pair(change.plan(tables))
    for _ in range(data.draw(st.integers(1, 4))):
        is_old = data.draw(st.booleans())
        values = {"m": st.integers(0, 2), "v": st.integers(0, 5)}
        if is_old or new is not None:
            values["k"] = old if is_old else new
        drawn = data.draw(st.lists(st.fixed_dictionaries(values), max_size=4))
        key = ("k", "m") if is_old or new is not None else ("m",)
        written = {tuple(row[n] + 0 if n == "m" else row[n] for n in key): row for row in drawn}
        write = pair.write_old if is_old else pair.write_new
        try:
            write({"t": (list(written.values()), [])})
        except InvalidData:
            continue
        pair.check_laws()
        hidden = sum(
            pair.lens.own_rows("t", is_new, side.tables["t"]).sum() * (1 if is_new else -1)
            for is_new, side in ((False, pair.old_side), (True, pair.new_side))
        )
        assert len(pair.new["t"]) - len(pair.old["t"]) == hidden
