"""Eight ways to use a database, each with what may be chosen for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pyarrow as pa

from livingdb import Database, Layout
from livingdb.evolution import AddColumn, RenameColumn, RetypeColumn

Chance = np.random.Generator
Fill = Callable[[Database, Chance, int], None]
Operation = Callable[[Database, Chance, int], object]


@dataclass(frozen=True)
class Choice:
    """One point of a grid: a layout of the table, whether what is read through lenses is stored,
    a kind of view.
    """

    layout: Layout | None = None
    is_stored: bool = False
    view: str | None = None

    def __str__(self) -> str:
        layout = self.layout
        parts = [] if layout is None else [layout.splitter, f"{layout.target_rows} rows"]
        if layout is not None:
            parts += [f"fold {layout.fold}", *(["groups"] if layout.groups else [])]
        parts += ["stored"] if self.is_stored else []
        return ", ".join([*parts, *([self.view] if self.view else [])]) or "as it is"


@dataclass(frozen=True)
class Workload:
    """How a database is filled, and how often each operation is done; `grid` are the choices.

    `place` is the branch and the table that layouts are for.
    """

    name: str
    fill: Fill
    operations: Mapping[str, tuple[int, Operation]]
    grid: Sequence[Choice]
    place: tuple[str, str] = ("main", "t")
    choose_view: Callable[[Database, str], None] | None = field(default=None)


def layouts(
    groups: Sequence[Sequence[Sequence[str]] | None] = (None,),
    rows: Sequence[int] = (1024, 4096, 16384),
    splitters: Sequence[str] = ("content", "capacity"),
    folds: Sequence[str | float] = ("auto",),
    is_stored: bool = False,
) -> list[Choice]:
    """All layouts of these."""
    return [
        Choice(Layout(splitter, target, group, fold), is_stored)
        for group, target, splitter, fold in product(groups, rows, splitters, folds)
    ]


def _numbers(chance: Chance, ids: np.ndarray, columns: Sequence[str]) -> pa.Table:
    values = {name: chance.integers(0, 1000, len(ids)) for name in columns}
    return pa.table({"id": ids, **values})


def _fill(columns: Sequence[str]) -> Fill:
    """A table of whole numbers."""

    def fill(db: Database, chance: Chance, rows: int) -> None:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", **dict.fromkeys(columns, "bigint")}, "id")
        main.insert("t", _numbers(chance, np.arange(rows) * 2, columns))

    return fill


def _scan(columns: Sequence[str]) -> Operation:
    return lambda db, chance, rows: db.branch("main").table("t").to_arrow(list(columns)).num_rows


def _get(db: Database, chance: Chance, rows: int) -> None:
    table = db.branch("main").table("t")
    for key in chance.integers(0, rows, 50) * 2:
        table.get(int(key))


def _update(columns: Sequence[str], count: int) -> Operation:
    """Patches of some columns, of rows anywhere."""

    def update(db: Database, chance: Chance, rows: int) -> None:
        ids = np.unique(chance.integers(0, rows, count) * 2)
        db.branch("main").update("t", _numbers(chance, ids, columns))

    return update


def _append(db: Database, chance: Chance, rows: int) -> None:
    main = db.branch("main")
    first = len(main.log()) * 1_000_000
    names = [name for name in main.table("t").schema.names if name != "id"]
    main.insert("t", _numbers(chance, first + np.arange(1_000), names))


def _old_read(db: Database, chance: Chance, rows: int) -> None:
    table = db.at(f"main~{int(chance.integers(1, 30))}").table("t")
    for key in chance.integers(0, rows, 20) * 2:
        table.get(int(key))
    table.to_arrow(["a"])


def _history(db: Database, chance: Chance, rows: int) -> None:
    _fill("abc")(db, chance, rows)
    for _ in range(40):
        _update("a", 300)(db, chance, rows)


def _schema_chain(db: Database, chance: Chance, rows: int) -> None:
    _fill("abcd")(db, chance, rows)
    main = db.branch("main")
    for number in range(4):
        main.evolve(AddColumn("t", f"n{number}", "bigint", default=number))
        main.evolve(RenameColumn("t", "abcd"[number], f"r{number}"), keep=f"v{number}")
    main.evolve(RetypeColumn("t", "r0", "string"))


def _read_version(db: Database, chance: Chance, rows: int) -> None:
    name = f"v{int(chance.integers(0, 4))}" if chance.random() < 0.3 else "main"
    table = db.branch(name).table("t")
    for key in chance.integers(0, rows, 20) * 2:
        table.get(int(key))
    table.to_arrow([table.schema.names[-1]])


VIEW = "SELECT id, a + b AS s, c * 2 AS d FROM t"
HOT = "where id >= {}"


def _with_view(db: Database, chance: Chance, rows: int) -> None:
    _fill("abc")(db, chance, rows)
    db.branch("main").derive("v", VIEW, when="immediate", materialize="none", engine="embedded")


def _choose_view(db: Database, kind: str) -> None:
    rows = len(db.branch("main").table("t"))
    kind = HOT.format(2 * int(rows * 0.9)) if kind == "hot" else kind
    main = db.branch("main")
    main.derive("v", VIEW, when="immediate", materialize=kind, engine="embedded", replace=True)


def _read_hot(db: Database, chance: Chance, rows: int) -> None:
    low = 2 * int(rows * chance.uniform(0.9, 0.99))
    db.branch("v").table("v").to_arrow(where=f"id >= {low} AND id < {low + 400}")


def _agents(db: Database, chance: Chance, rows: int) -> None:
    _fill("abcd")(db, chance, rows)
    for number in range(6):
        db.branch("main").clone(f"agent/{number}")


def _agent_work(db: Database, chance: Chance, rows: int) -> None:
    branch = db.branch(f"agent/{int(chance.integers(0, 6))}")
    ids = np.unique(chance.integers(0, rows, 50) * 2)
    branch.update("t", _numbers(chance, ids, "a"))
    table = branch.table("t")
    for key in ids[:20]:
        table.get(int(key))


WIDE = [f"c{number}" for number in range(24)]
FIRST, SECOND = WIDE[:12], WIDE[12:]

WORKLOADS = (
    Workload(
        "append and scan",
        _fill("abcdef"),
        {"append": (10, _append), "scan": (6, _scan("ab"))},
        layouts(groups=(None, [["a", "b"]])),
    ),
    Workload(
        "scattered updates",
        _fill("abcd"),
        {"update": (30, _update("a", 200)), "get": (4, _get)},
        layouts(groups=(None, [["a"]]), folds=("auto", "never")),
    ),
    Workload(
        "a wide table with two column families",
        _fill(WIDE),
        {"update": (8, _update(FIRST, 200)), "scan": (8, _scan(SECOND))},
        layouts(groups=(None, [FIRST, SECOND])),
    ),
    Workload("point reads", _fill("abcdef"), {"get": (60, _get)}, layouts(rows=(256, 1024, 4096))),
    Workload(
        "time travel to old versions",
        _history,
        {"old read": (12, _old_read), "update": (4, _update("a", 300))},
        layouts(rows=(1024, 4096), folds=("auto", "always")),
    ),
    Workload(
        "a chain of schema versions",
        _schema_chain,
        {"read": (12, _read_version)},
        layouts(rows=(1024, 4096, 16384), splitters=("content",), is_stored=True),
    ),
    Workload(
        "views read hot in part",
        _with_view,
        {"read": (10, _read_hot), "update": (4, _update("a", 100))},
        [Choice(view=kind) for kind in ("none", "full", "hot")],
        ("v", "v"),
        _choose_view,
    ),
    Workload(
        "agents' branches",
        _agents,
        {"work": (30, _agent_work)},
        layouts(rows=(1024, 4096), splitters=("content",), folds=("auto", "always", "never")),
    ),
)

_VIEWS = 8


def _with_stored_views(db: Database, chance: Chance, rows: int) -> None:
    """Views that can be computed whenever they are read, and have trees nevertheless."""
    _fill("abc")(db, chance, rows)
    for number in range(_VIEWS):
        name, query = (
            f"v{number}",
            f"SELECT id, a + {number} * b AS s, c - {number} * a AS d FROM t",
        )
        made = {"when": "immediate", "materialize": "none", "engine": "embedded"}
        db.branch("main").derive(name, query, **made)
        db._graph.fold(db._graph.version(db.branch(name).head._row, name))


def _read_a_view(db: Database, chance: Chance, rows: int) -> None:
    """One of which each is read half as often as the one before."""
    name = f"v{min(_VIEWS - 1, int(chance.geometric(0.5)) - 1)}"
    db.branch(name).table(name).to_arrow(["s"])


STORED_VIEWS = Workload("stored views", _with_stored_views, {"read": (12, _read_a_view)}, ())
