"""Schema changes of one small database, each with a name; any two may meet in a merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.composition.model import Check, Column, State, Table, written
from tests.composition.schema_model import (
    AddColumn,
    AddUnique,
    Change,
    ChangeKey,
    ConcatColumns,
    CreateTable,
    Decompose,
    DropConstraint,
    DropTable,
    DropUnique,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    ReorderColumns,
    SetDefault,
    SplitColumn,
    SplitTable,
    UnionTables,
)
from tests.merging.further_changes import (
    AddConstraint,
    AddForeignKey,
    DropColumn,
    DropDefault,
    DropForeignKey,
    DropNotNull,
    JoinTables,
    RetypeColumn,
)

__all__ = ["BASE", "CASES", "EDITS", "Edits", "edited", "kind_of", "later_edits"]

Edits = Sequence[tuple[str, str, list[object]]]


def _table(name: str, columns: str, rows: list[tuple[object, ...]]) -> Table:
    made = []
    for at, text in enumerate(columns.split(", ")):
        title, kind = text.split()
        made.append(Column(f"{name}.{at}", title, kind, nullable=at > 0))
    table = Table(name, tuple(made), (f"{name}.0",))
    return table.with_rows(dict(zip(table.names, row, strict=True)) for row in rows)


def _base() -> dict[str, Table]:
    t = _table(
        "t",
        "id int, a int, b int, s string, r string",
        [
            (1, 10, 21, "x-y", "p"),
            (2, 11, 22, "u-v", "q"),
            (3, 12, 23, "x-y", "r"),
            (4, None, 24, "w", "s"),
            (5, 14, 25, "z-z", "t"),
        ],
    )
    columns = tuple(
        Column(c.id, c.name, c.type, c.nullable, default=3) if c.name == "b" else c
        for c in t.columns
    )
    t = Table(t.id, columns, t.key, t.rows)
    pairs: list[tuple[object, ...]] = [(1, 5, "one"), (2, 6, "two"), (3, None, "three")]
    u = _table("u", "id int, x int, z string", pairs)
    w = _table("w", "id int, x int, z string", [(7, 70, "seven"), (8, 80, None)])
    k = _table("k", "id int, y int", [(1, 1), (2, 4)])
    k = Table("k", k.columns, k.key, k.rows, uniques=(("one_y", "k.1"),))
    v = _table("v", "id int, n int, m int, o int", [(1, 2, 1, 3), (2, 3, 2, 1), (3, 1, None, 2)])
    o = Column("v.3", "o", "int", nullable=False)
    v = Table("v", (*v.columns[:3], o), v.key, v.rows, (Check("small", "v.1", 0),), (("v.2", "k"),))
    return {"t": t, "u": u, "w": w, "k": k, "v": v}


BASE: State = _base()

CASES: Mapping[str, Change] = {
    "create n": CreateTable("n"),
    "create t2": CreateTable("t2"),
    "drop t": DropTable("t"),
    "drop u": DropTable("u"),
    "rename t to t2": RenameTable("t", "t2"),
    "rename t to t3": RenameTable("t", "t3"),
    "rename u to T2": RenameTable("u", "T2"),
    "rename k to keys": RenameTable("k", "keys"),
    "add t.c": AddColumn("t", "c"),
    "add t.c default 5": AddColumn("t", "c", "default"),
    "add t.C": AddColumn("t", "C"),
    "add t.d = 2a": AddColumn("t", "d", "computed", "a"),
    "add t.e from a": AddColumn("t", "e", "up", "a"),
    "add t.e from b": AddColumn("t", "e", "up", "b"),
    "add t.p": AddColumn("t", "p"),
    "drop t.a": DropColumn("t", "a"),
    "drop t.s": DropColumn("t", "s"),
    "rename t.a to p": RenameColumn("t", "a", "p"),
    "rename t.a to q": RenameColumn("t", "a", "q"),
    "rename t.b to p": RenameColumn("t", "b", "p"),
    "rename t.s to text": RenameColumn("t", "s", "text"),
    "rename t.id to nr": RenameColumn("t", "id", "nr"),
    "retype t.a bigint": RetypeColumn("t", "a", "bigint"),
    "retype t.a string": RetypeColumn("t", "a", "string"),
    "reorder t: b first": ReorderColumns("t", ("b", "id", "a", "s", "r")),
    "reorder t: s first": ReorderColumns("t", ("s", "r", "id", "a", "b")),
    "default t.a 7": SetDefault("t", "a", 7),
    "default t.a 8": SetDefault("t", "a", 8),
    "default t.b 9": SetDefault("t", "b", 9),
    "no default t.b": DropDefault("t", "b"),
    "check t.a as pos": AddConstraint("t", "a", 1, "pos"),
    "check t.b as pos": AddConstraint("t", "b", 1, "pos"),
    "not null t.s": AddConstraint("t", "s", None, "-"),
    "quarantine t.a": AddConstraint("t", "a", 12, "high", quarantine=True),
    "unique t.r": AddUnique("t", "r", "one_r"),
    "unique t.b": AddUnique("t", "b", "one_b"),
    "drop unique k.y": DropUnique("k", "one_y"),
    "drop check v.small": DropConstraint("v", "small"),
    "nullable v.o": DropNotNull("v", "o"),
    "link v.n to u": AddForeignKey("v", "u", "n"),
    "unlink v.m": DropForeignKey("v", "m"),
    "rename u.x to y": RenameColumn("u", "x", "y"),
    "rename v.n to i": RenameColumn("v", "n", "i"),
    "key t by b": ChangeKey("t", "b"),
    "key t by r": ChangeKey("t", "r"),
    "split t.s": SplitColumn("t", "s", ("s1", "s2")),
    "concat t.s, t.r": ConcatColumns("t", ("s", "r"), "sr"),
    "decompose t": Decompose("t", (("t_n", ("a", "b")), ("t_s", ("s", "r")))),
    "join t, u": JoinTables("t", "u", "tu"),
    "normalize t.s": Normalize("t", "s", "names"),
    "split t by a": SplitTable("t", "a", 12, ("hi", "lo")),
    "union u, w": UnionTables(("u", "w"), "uw", "origin"),
    "mask t.s null": MaskColumn("t", "s", "null"),
    "mask t.s constant": MaskColumn("t", "s", "constant"),
}

EDITS: Mapping[str, Edits] = {
    "ours": (
        ("update", "t", [{"id": 2, "b": 122}]),
        ("insert", "t", [{"id": 11, "a": 31, "b": 131, "s": "m-n", "r": "ours"}]),
        ("update", "u", [{"id": 1, "x": 50}]),
        ("update", "v", [{"id": 2, "m": 1}]),
    ),
    "theirs": (
        ("update", "t", [{"id": 3, "b": 123}]),
        ("insert", "t", [{"id": 12, "a": 2, "b": 132, "s": "x-y", "r": "theirs"}]),
        ("delete", "t", [(5,)]),
        ("update", "u", [{"id": 3, "z": "drei"}]),
        ("insert", "w", [{"id": 9, "x": 90, "z": "nine"}]),
    ),
}
"""What each side does to rows, before its change."""


def edited(state: State, edits: Edits) -> State:
    """A state after changes of rows."""
    return written(state, edits)


def later_edits(name: str, edits: Edits, uid: str) -> Edits | None:
    """Changes of rows as they are said after a case; None where they cannot be."""
    change = CASES[name]
    after = change.get(BASE, uid)
    by_id = {table.id: (title, table) for title, table in after.items()}
    found: list[tuple[str, str, list[object]]] = []
    for verb, table, rows in edits:
        known = by_id.get(BASE[table].id)
        if known is None or known[1].key != BASE[table].key:
            return None
        now = {column.id: column for column in known[1].columns}
        titles: dict[str, str] = {}
        for column in BASE[table].columns:
            later = now.get(column.id)
            if later is not None and later.type == column.type and not later.fixed:
                titles[column.name] = later.name
        given = [dict(row) if isinstance(row, dict) else {} for row in rows]
        if any(column not in titles for row in given for column in row):
            return None
        said = [{titles[column]: value for column, value in row.items()} for row in given]
        found.append((verb, known[0], list(rows) if verb == "delete" else list(said)))
    try:
        written(after, found)
    except KeyError:
        return None
    return found


def kind_of(name: str) -> str:
    """The change of a case, as `livingdb.evolution` calls it."""
    return type(CASES[name].build()).__name__
