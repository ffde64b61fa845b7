"""The laws of expressions that look values up: a value is made once, and stays with its row."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.lens_lab import Pair, Row
from tests.property.trying import HAS_TIME, tries

from livingdb.errors import InvalidData
from livingdb.evolution import AddColumn, DropColumn, RetypeColumn
from livingdb.evolution.schema_change import SchemaChange
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

quick = settings(
    max_examples=tries(300) if HAS_TIME else 10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def table(key: str | list[str], **columns: str) -> Definition:
    return Definition(TableSchema.of(columns, key), Layout())


TABLES = {
    "t": table("id", id="bigint", a="string", b="string", n="bigint"),
    "p": table(["k"], k="string", v="bigint", w="string"),
    "q": table(["n", "k"], n="bigint", k="string", w="string"),
}
KEYS, TEXTS, NUMBERS = (1, 2, 3, 4), (None, "x", "y", "z"), (None, 1, 2)
ADD = AddColumn("t", "made", "string", up="coalesce((SELECT w FROM p WHERE p.k = t.a), '?')")
TWO = AddColumn("t", "made", "string", up="(SELECT w FROM q WHERE q.k = t.b AND n = t.n)")
SELF = AddColumn("t", "made", "string", up="(SELECT other.b FROM t AS other WHERE other.id = t.n)")
DROP = DropColumn("t", "b", down="(SELECT w FROM p WHERE k = a)")
RETYPE = RetypeColumn(
    "t",
    "a",
    "bigint",
    up="(SELECT v FROM p WHERE p.k = t.a)",
    down="(SELECT k FROM q WHERE q.n = t.a AND q.k = t.b)",
)
CHANGES = {"add": ADD, "two keys": TWO, "drop": DROP, "retype": RETYPE}


def rows_of(name: str, side: str, change: SchemaChange) -> st.SearchStrategy[Row]:
    text, number = st.sampled_from(TEXTS), st.sampled_from(NUMBERS)
    key = st.sampled_from(TEXTS[1:])
    if name == "p":
        return st.fixed_dictionaries({"k": key, "v": number, "w": text})
    if name == "q":
        return st.fixed_dictionaries({"n": st.sampled_from((1, 2)), "k": key, "w": text})
    columns: dict[str, Any] = {"id": st.sampled_from(KEYS), "a": text, "b": text, "n": number}
    if side == "new" and isinstance(change, AddColumn):
        columns["made"] = text
    if side == "new" and isinstance(change, DropColumn):
        del columns["b"]
    if side == "new" and isinstance(change, RetypeColumn):
        columns["a"] = number
    return st.fixed_dictionaries(columns)


def unique(name: str, rows: list[Row]) -> list[Row]:
    key = TABLES[name].schema.key
    return list({tuple(row[k] for k in key): row for row in rows}.values())


def looked_up(rows: list[Row], column: str, **keys: Any) -> Any:
    found = [row for row in rows if all(row[name] == value for name, value in keys.items())]
    return found[0][column] if found and None not in keys.values() else None


class Model:
    """Both sides of the table, and the tables beside it, as plain rows by key."""

    def __init__(self, change: SchemaChange, tables: dict[str, list[Row]]):
        self.change = change
        self.beside = {name: by_key(name, tables[name]) for name in ("p", "q")}
        self.old = by_key("t", tables["t"])
        self.new = {key: self.right(row) for key, row in self.old.items()}

    def find(self, name: str, column: str, **keys: Any) -> Any:
        return looked_up(list(self.beside[name].values()), column, **keys)

    def right(self, row: Row, was: Row | None = None, held: Row | None = None) -> Row:
        """A new row of an old one, which was another one, and where the other side had one."""
        made = dict(row)
        if self.change is DROP:
            del made["b"]
        elif self.change is RETYPE:
            is_same = was is not None and held is not None and was["a"] == row["a"]
            made["a"] = held["a"] if is_same and held else self.find("p", "v", k=row["a"])
        elif held is not None:
            made["made"] = held["made"]
        elif self.change is ADD:
            found = self.find("p", "w", k=row["a"])
            made["made"] = "?" if found is None else found
        else:
            made["made"] = self.find("q", "w", k=row["b"], n=row["n"])
        return made

    def left(self, row: Row, was: Row | None, held: Row | None) -> Row:
        made = dict(row)
        if self.change is DROP:
            made["b"] = held["b"] if held is not None else self.find("p", "w", k=row["a"])
        elif self.change is RETYPE:
            is_same = was is not None and (was["a"], was["b"]) == (row["a"], row["b"])
            found = self.find("q", "k", n=row["a"], k=row["b"])
            made["a"] = held["a"] if is_same and held else found
        else:
            del made["made"]
        return made

    def write(self, side: str, writes: dict[str, list[Row]]) -> None:
        for name in ("p", "q"):
            self.beside[name] |= by_key(name, writes.get(name, []))
        here, there = (self.old, self.new) if side == "old" else (self.new, self.old)
        carry = self.right if side == "old" else self.left
        for key, row in by_key("t", writes.get("t", [])).items():
            there[key] = carry(row, here.get(key), there.get(key))
            here[key] = row


def by_key(name: str, rows: list[Row]) -> dict[Any, Row]:
    key = TABLES[name].schema.key
    return {tuple(row[k] for k in key): dict(row) for row in rows}


@quick
@given(st.sampled_from(sorted(CHANGES)), st.data())
def test_values_are_looked_up_once(kind: str, data: st.DataObject) -> None:
    change = CHANGES[kind]

    def drawn(name: str, side: str) -> list[Row]:
        return unique(name, data.draw(st.lists(rows_of(name, side, change), max_size=4)))

    given_rows = {name: drawn(name, "old") for name in TABLES}
    beside = {name: TABLES[name] for name in ("p", "q")}
    pair = Pair(change.plan(TABLES), given_rows, beside)
    model = Model(change, given_rows)
    for _ in range(data.draw(st.integers(1, 4))):
        side = data.draw(st.sampled_from(("old", "new")))
        writes = {name: drawn(name, side) for name in TABLES}
        writes = {name: rows for name, rows in writes.items() if rows}
        put = pair.write_old if side == "old" else pair.write_new
        put({name: (rows, []) for name, rows in writes.items()})
        model.write(side, writes)
        assert by_key("t", pair.old["t"]) == model.old
        assert by_key("t", pair.new["t"]) == model.new
    pair.check_laws()


def test_a_table_looks_itself_up() -> None:
    rows = [{"id": 1, "a": None, "b": "x", "n": 2}, {"id": 2, "a": None, "b": "y", "n": 1}]
    pair = Pair(SELF.plan(TABLES), {"t": rows})
    assert [row["made"] for row in pair.new["t"]] == ["y", "x"]
    pair.write_old({"t": ([{"id": 3, "a": None, "b": "z", "n": 3}], [])})
    assert pair.new["t"][2]["made"] == "z"


def test_every_row_has_to_find_a_value_of_a_column_that_is_not_null() -> None:
    change = AddColumn("t", "made", "string not null", up="(SELECT w FROM p WHERE p.k = t.a)")
    lens = change.plan(TABLES)
    assert lens.scan_reason() is not None
    beside = {name: TABLES[name] for name in ("p", "q")}
    known = {"p": [{"k": "x", "v": 1, "w": "found"}]}
    with pytest.raises(InvalidData, match=r"(?i)not null"):
        Pair(lens, {"t": [{"id": 1, "a": "y", "b": None, "n": None}], **known}, beside)
    pair = Pair(lens, {"t": [{"id": 1, "a": "x", "b": None, "n": None}], **known}, beside)
    with pytest.raises(InvalidData, match=r"(?i)not null"):
        pair.write_old({"t": ([{"id": 2, "a": "z", "b": None, "n": None}], [])})
