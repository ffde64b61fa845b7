"""Features that meet, each as a program of few steps that holds every law."""

from __future__ import annotations

import pytest
from tests.composition.graph_operations import (
    CherryPick,
    Clone,
    DropBranch,
    Merge,
    RenameBranch,
    Reset,
    Revert,
    Tag,
    TimeTravel,
)
from tests.composition.machine import Program, run
from tests.composition.queries import Query
from tests.composition.row_operations import SqlDelete, SqlInsert, SqlUpdate, Write
from tests.composition.schema_model import (
    AddColumn,
    AddConstraint,
    Change,
    ChangeKey,
    ConcatColumns,
    CreateTable,
    Decompose,
    DropColumn,
    DropConstraint,
    DropTable,
    HideRows,
    JoinTables,
    MaskColumn,
    MaskKey,
    Normalize,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    RetypeKey,
    ShowNull,
    SplitColumn,
    SplitTable,
    UnionTables,
)
from tests.composition.schema_operations import Evolve, TransformClone
from tests.composition.step import Step
from tests.composition.upkeep_operations import Compact, Inspect, Key, Migrate, Reopen
from tests.composition.view_operations import (
    Approve,
    CloneDerived,
    CloneDerivedAt,
    Derive,
    Detach,
    Propagate,
    Reattach,
    Refresh,
    Resume,
    Twin,
)
from tests.thinned import thinned

FILTER = Query("filter", ("orders",), (("k", "id"), ("n", "amount")))
GROUP = Query("group", ("orders",), (("g", "city"), ("n", "amount")))
TOP = Query("top", ("orders",), (("k", "id"), ("n", "amount")))
WINDOW = Query("window", ("orders",), (("k", "id"), ("g", "city")))
JOIN = Query("join", ("items", "orders"), (("k", "id"), ("n", "order_id"), ("j", "id")))
OVER = Query("filter", ("v",), (("k", "fk"), ("n", "fn")))
DISTINCT = Query("distinct", ("orders",), (("g", "note"),))
RENAME = RenameColumn("orders", "amount", "net")
RENAMED = Evolve("main", (RENAME,))
ADD = AddColumn("orders", "rank", "default")
MASK = MaskColumn("orders", "note", "constant")
HASH = MaskColumn("orders", "note", "hash")
WHEN = ("immediate", "deferred")
STORED = ("full", "lazy", "none", "where fn >= 2")


def insert(branch: str, number: int, **values: object) -> Step:
    """A transaction that inserts an order."""
    row = {"amount": 4, "city": "a", "id": number, "note": "b-c", **values}
    return Write(branch, (("insert", "orders", (tuple(sorted(row.items())),)),))


def delete(branch: str, number: int) -> Step:
    return Write(branch, (("delete", "orders", ((number,),)),))


def view(when: str, query: Query = FILTER, stored: str = "full", branch: str = "main") -> Derive:
    return Derive(branch, "v", query, when, stored)


CLONE, INSERT = Clone("main", "dev"), insert("main", 9)
NET = Write(
    "main", (("insert", "orders", ((("city", "a"), ("id", 9), ("net", 4), ("note", None)),)),)
)


def under_views(when: str) -> dict[str, list[Step]]:
    """What happens to the branch that a view reads."""
    made = view(when)
    return {
        "reset": [made, INSERT, Propagate(), Reset("main", 1), Propagate()],
        "fast-forward": [made, CLONE, insert("dev", 8), Merge("dev", "main", "fail"), Propagate()],
        "fast-forward that breaks": [
            made, CLONE, Evolve("dev", (DropColumn("orders", "amount"),)),
            Merge("dev", "main", "fail"), Propagate(),
        ],
        "merge": [made, CLONE, insert("dev", 8), INSERT, Merge("dev", "main", "fail"), Propagate()],
        "revert": [made, INSERT, Propagate(), Revert("main", "main", 0), Propagate()],
        "cherry-pick": [made, CLONE, insert("dev", 8), CherryPick("main", "dev", 0), Propagate()],
        "rename": [made, RENAMED, NET, Propagate(), TimeTravel("main", 2)],
        "drop of a column": [made, Evolve("main", (DropColumn("orders", "amount"),)), Propagate()],
        "another type": [
            made, Evolve("main", (RetypeColumn("orders", "amount", "bigint"),)), Propagate(),
        ],
        "names exchanged": [
            view(when, GROUP), Evolve("main", (RenameColumn("orders", "city", "t"),)),
            Evolve("main", (RenameColumn("orders", "note", "city"),)),
            Evolve("main", (RenameColumn("orders", "t", "note"),)), Propagate(),
        ],
        "the name follows": [
            made, Evolve("main", (RENAME,), "keep", "old", "both"), NET, insert("old", 8),
            Propagate(),
        ],
        "a column less after a reset": [
            Evolve("main", (ADD,)),
            view(when, Query("filter", ("orders",), (("k", "id"), ("n", "rank")))),
            Reset("main", 1), Propagate(),
        ],
        "another name of the branch": [
            CLONE, view(when, branch="dev"), insert("dev", 8), Propagate(),
            RenameBranch("dev", "dev2"), insert("dev2", 9), Propagate(), TimeTravel("dev2", 2),
            Reset("dev2", 1), Propagate(), CloneDerived("dev2", "dev"), insert("dev", 7),
            Propagate(), Merge("dev", "dev2", "fail"), Propagate(), Reopen(), Inspect(),
        ],
        "statements": [
            made, SqlInsert("main", "orders", (("amount", 7), ("id", 8))),
            SqlUpdate("main", "orders", "amount", 3, 2), SqlDelete("main", "orders", 3),
            Propagate(), Tag("v1", "main"), TimeTravel("main", 1),
        ],
    }  # fmt: skip


def of_views(when: str) -> dict[str, list[Step]]:
    """What happens to a view."""
    made = view(when)
    held = Derive("main", "v", FILTER, when, "full", 2)
    return {
        "held and approved": [held, INSERT, Propagate(), Approve("v"), INSERT, Propagate()],
        "held and resumed": [
            held, INSERT, Propagate(), delete("main", 9), Resume("v"), Propagate(),
        ],
        "written and reattached": [
            made, Detach("v"), Write("v", (("upsert", "v", ((("fk", 1), ("fn", 1)),)),)),
            Reattach("v"), INSERT, Propagate(),
        ],
        "evolved and reattached": [
            made, Detach("v"), Evolve("v", (AddColumn("v", "rank", "default"),)), Reattach("v"),
            INSERT, Propagate(),
        ],
        "derived on a clone": [
            made, Derive("v", "w", OVER, when), CloneDerived("main", "dev"), insert("dev", 9),
            Propagate(),
        ],
        "derived on a clone of the past": [
            made, INSERT, insert("main", 8), Propagate(), CloneDerivedAt("main", 1, "dev"),
            insert("dev", 7), Propagate(), TimeTravel("dev", 1),
        ],
        "derived on a clone of the past, before a rename": [
            made, INSERT, RENAMED, CloneDerivedAt("main", 1, "dev"), insert("dev", 7), Propagate(),
        ],
        "derived on a clone of the past, before it was there": [
            INSERT, made, insert("main", 8), CloneDerivedAt("main", 2, "dev"), Propagate(),
        ],
        "derived on a clone after a rename": [
            made, RENAMED, CloneDerived("main", "dev"), Propagate(),
        ],
        "refreshed, compacted, opened again": [
            made, INSERT, Refresh("v"), Compact(), Reopen(), Migrate("main"), Inspect(),
        ],
        "dropped": [made, DropBranch("v", False), INSERT, Propagate()],
        "another name is refused": [made, RenameBranch("v", "w"), INSERT, Propagate()],
    }  # fmt: skip


def with_lenses(when: str) -> dict[str, list[Step]]:
    """Lenses and views over each other."""
    masked = TransformClone("main", "m", (MASK,), when)
    return {
        "view on the old side": [
            Evolve("main", (RENAME,), "keep", "old", "both"), view(when, branch="old"), NET,
            insert("old", 8), Propagate(),
        ],
        "view on the new side, reset": [
            Evolve("main", (ADD,), "to", "new", "both"), view(when, branch="new"), INSERT,
            Propagate(), Reset("main", 1), Propagate(),
        ],
        "view over a lens over a two-way lens": [
            Evolve("main", (ADD,), "to", "new", "both"),
            Evolve("new", (RENAME,), "to", "last", "forward"),
            view(when, Query("filter", ("orders",), (("k", "id"), ("n", "net"))), branch="last"),
            INSERT, Propagate(),
        ],
        "view that moves to the old side": [
            view(when), Twin("v", "t"),
            Evolve("main", (DropColumn("orders", "amount"),), "keep", "old", "both", "move"),
            insert("old", 8), Propagate(), TimeTravel("old", 1), delete("main", 1), Propagate(),
            Reopen(), Inspect(),
        ],
        "views on views that move": [
            view(when), Derive("v", "w", OVER, when), INSERT, Propagate(),
            Evolve("main", (Normalize("orders", "amount", "sums"),), "keep", "old", "both", "move"),
            insert("old", 8), Propagate(), Detach("main"), insert("old", 7), Propagate(),
            Reattach("main"), Inspect(),
        ],
        "view that has nowhere to move": [
            view(when), Evolve("main", (DropColumn("orders", "amount"),), "keep", "old", "none"),
            insert("old", 8), Propagate(), Inspect(),
        ],
        "both sides evolved, reattached": [
            Evolve("main", (ADD,), "to", "new", "both"), view(when, branch="new"), Detach("new"),
            Evolve("main", (RENAME,)), Evolve("new", (DropColumn("orders", "city"),)), NET,
            Reattach("new"), delete("main", 1), delete("new", 2), Propagate(), Reopen(), Inspect(),
        ],
        "masked clone": [masked, INSERT, delete("main", 1), Propagate()],
        "masked clone, reset": [masked, INSERT, Propagate(), Reset("main", 1), Propagate()],
        "masked clone, fast-forward": [
            masked, CLONE, insert("dev", 8), Merge("dev", "main", "fail"), Propagate(),
        ],
        "masked clone, renamed": [
            masked, RenameBranch("m", "m2"), INSERT, Propagate(), Detach("m2"),
            RenameBranch("m2", "m"), delete("main", 1), Reattach("m"), Propagate(),
        ],
        "both sides renamed": [
            Evolve("main", (RENAME,), "keep", "old", "both"),
            Evolve("old", (ADD,), "to", "new", "both"), view(when, branch="old"),
            RenameBranch("old", "older"), RenameBranch("new", "newer"), NET, insert("older", 8),
            insert("newer", 7, rank=1), Propagate(), Reset("older", 1), Propagate(),
            DropBranch("newer", True), Reopen(),
        ],
        "masked clone, detached meanwhile": [masked, Detach("m"), INSERT, Reattach("m")],
        "masked clone, written meanwhile": [masked, Detach("m"), delete("m", 1), Reattach("m")],
        "masked keys": [
            TransformClone("main", "m", (MaskKey("orders", "id"), MASK), when), INSERT,
            delete("main", 1), SqlUpdate("main", "orders", "city", "z", 1), Propagate(),
            Evolve("main", (ADD,)), insert("main", 8, rank=1), Propagate(), Reset("main", 1),
            Propagate(), Detach("m"), INSERT, Reattach("m"), Reopen(), Refresh("m"),
        ],
        "without the key of a mask": [
            TransformClone("main", "m", (HASH, MaskKey("orders", "id")), when), Key(False), INSERT,
            delete("main", 1), Propagate(), Evolve("main", (ADD,)), insert("main", 8, rank=1),
            Key(True), Propagate(), Key(False), insert("main", 7, rank=1), Refresh("m"), Reopen(),
            Key(True), insert("main", 6, rank=1), Propagate(), Reset("main", 2), Propagate(),
        ],
        "what is made of what waits for a key": [
            TransformClone("main", "m", (HASH,), when), Derive("m", "v", DISTINCT, "immediate"),
            TransformClone("m", "n", (RENAME,), when), Key(False), INSERT, Detach("m"),
            Reattach("m"), Key(True), Reattach("m"), delete("main", 1), Propagate(),
        ],
        "a view and a clone over masked keys": [
            TransformClone("main", "m", (MaskKey("orders", "id"),), when),
            Derive("m", "v", DISTINCT, "immediate"), TransformClone("m", "n", (RENAME,), when),
            INSERT, delete("main", 2), Propagate(),
        ],
        "view over a masked clone": [
            masked, Derive("m", "v", DISTINCT, "immediate"), INSERT, Propagate(),
        ],
    }  # fmt: skip


CHANGES: tuple[Change, ...] = (
    CreateTable("new"),
    DropTable("items"),
    RenameTable("orders", "sales"),
    AddColumn("orders", "rank", "computed", "amount"),
    DropColumn("orders", "note"),
    RENAME,
    RetypeColumn("orders", "amount", "bigint"),
    ShowNull("orders", "note", "int"),
    HideRows("orders", "note", "int"),
    RetypeKey("items", "id", "string"),
    SplitColumn("orders", "note", ("first", "rest")),
    ConcatColumns("orders", ("city", "note"), "words"),
    Decompose("orders", (("places", ("city",)), ("sums", ("amount", "note")))),
    JoinTables("orders", "items", "both"),
    Normalize("orders", "city", "cities"),
    SplitTable("orders", "amount", 3, ("large", "small")),
    UnionTables(("orders", "returns"), "every", "origin"),
    ChangeKey("items", "size"),
    AddConstraint("orders", "amount", 0, "positive"),
    DropConstraint("orders", "positive"),
    MASK,
    HASH,
    MaskKey("orders", "id"),
)


def through(change: Change, sync: str) -> list[Step]:
    """A change in a direction, and writes on the sides that take them."""
    needed = [Evolve("main", (AddConstraint("orders", "amount", 0, "positive"),))]
    unique = [Write("main", (("delete", "items", ((3,),)),))]
    begun: list[Step] = {"DropConstraint": needed, "ChangeKey": unique}.get(change.kind, [])
    more = SqlInsert("new", "returns", (("amount", 1), ("id", 7)))
    if sync == "reverse":
        return [*begun, Evolve("main", (change,), "to", "new", sync), more, Propagate()]
    return [
        *begun, Evolve("main", (change,), "to", "new", sync), INSERT, delete("main", 2),
        SqlUpdate("main", "orders", "city", "z", 1), more, Reset("main", 1), Propagate(),
    ]  # fmt: skip


def inspected() -> dict[str, list[Step]]:
    """What can be asked of a view whose sources, or whose own branch, are not what they were."""
    made = view("immediate")
    on_clone = [CLONE, view("immediate", branch="dev"), DropBranch("dev", True)]
    return {
        "table renamed": [made, Detach("v"), Evolve("main", (RenameTable("orders", "sales"),))],
        "table dropped": [view("deferred"), Evolve("main", (DropTable("orders"),)), Inspect()],
        "branch dropped": on_clone,
        "evolved": [made, Detach("v"), Evolve("v", (AddColumn("v", "rank"),)), Inspect()],
        "without a column of its own": [
            view("immediate", GROUP), Detach("v"), Evolve("v", (DropColumn("v", "gc"),)),
            TimeTravel("main", 0),
        ],
        "over a clone that broke": [
            TransformClone("main", "m", (MASK,), "deferred"),
            Evolve("main", (DropColumn("orders", "note"),)),
            Derive("m", "v", FILTER, "deferred"), Inspect(),
        ],
        **{
            f"guarded, {stored}, {when}": [
                Derive("main", "v", FILTER, when, stored, 5), Reopen(), INSERT, Propagate(),
                Reopen(),
            ]
            for when in WHEN
            for stored in STORED
        },
    }  # fmt: skip


PROGRAMS = {
    **{f"inspected: {name}": program for name, program in inspected().items()},
    **{f"{n}, {when}": p for when in WHEN for n, p in under_views(when).items()},
    **{f"{n}, {when}": p for when in WHEN for n, p in of_views(when).items()},
    **{f"{n}, {when}": p for when in WHEN for n, p in with_lenses(when).items()},
    **{
        f"view over a {when} view, {stored}": [
            view(when, stored=stored), Derive("v", "w", OVER, "immediate"),
            TransformClone("v", "m", (AddColumn("v", "x", "default"),), "deferred"),
            INSERT, Propagate(), TimeTravel("v", 1),
        ]
        for when in WHEN
        for stored in STORED
    },
    **{
        f"{query.shape} and its twin": [
            view("immediate", query), Twin("v", "t"), INSERT, delete("main", 3), Propagate(),
            RENAMED, NET, Propagate(),
        ]
        for query in (FILTER, GROUP, TOP, WINDOW, JOIN)
    },
    **{
        f"{change.kind}, {sync}": through(change, sync)
        for change in CHANGES
        for sync in ("forward", "reverse", "both")
        if sync in change.ONLY
    },
    "a clone derived on a clone, without a table": [
        TransformClone("main", "m", (MASK,), "deferred"), Evolve("main", (DropTable("items"),)),
        CloneDerived("main", "dev"), insert("dev", 9), Refresh("m_dev"),
    ],
    "a clone of a view derived on a clone": [
        view("immediate"), TransformClone("v", "m", (AddColumn("v", "x", "default"),), "deferred"),
        CloneDerived("main", "dev"), insert("dev", 9), Propagate(),
    ],
    "a clone of a clone of a view derived on a clone": [
        view("immediate"), TransformClone("v", "m", (AddColumn("v", "x", "default"),), "deferred"),
        TransformClone("m", "n", (AddColumn("v", "y", "default"),), "deferred"),
        Derive("n", "w", OVER, "deferred"), CloneDerived("main", "dev"), insert("dev", 9),
        Propagate(),
    ],
    "derived on a clone of a view": [
        view("immediate"), Derive("v", "w", OVER, "immediate"), CloneDerived("v", "dev"),
        Propagate(),
    ],
    "another name": [CLONE, RenameBranch("dev", "dev2"), insert("dev2", 8), CLONE, Inspect()],
    "lens over a deferred view": [
        view("deferred"), Evolve("v", (RenameColumn("v", "fn", "x"),), "to", "b", "forward"),
        Derive("b", "w", Query("filter", ("v",), (("k", "fk"), ("n", "x"))), "immediate"),
        INSERT, Propagate(),
    ],
    "detached while a column is renamed": [
        view("immediate"), Detach("v"), Evolve("main", (RenameColumn("orders", "amount", "net"),)),
        Reattach("v"),
    ],
    "detached while a name goes to another column": [
        Derive("main", "v", GROUP, "immediate"), Detach("v"),
        Evolve("main", (RenameColumn("orders", "city", "town"),)),
        Evolve("main", (RenameColumn("orders", "note", "city"),)), Reattach("v"),
    ],
    "reset to before a rename": [
        view("immediate"), Evolve("main", (RenameColumn("orders", "amount", "net"),)),
        Reset("main", 1),
    ],
    "fast-forward over a rename": [
        view("immediate"), Clone("main", "dev"),
        Evolve("dev", (RenameColumn("orders", "amount", "net"),)), Merge("dev", "main", "fail"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", thinned(PROGRAMS, every=6))
def test_meeting(name: str) -> None:
    run(Program(PROGRAMS[name]))
