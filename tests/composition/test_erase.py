"""After a random program, a row is erased: it is in no version, and nothing else is lost.

What follows from other rows cannot be told from what follows from this one without a model of all
of history, so that only tables which nothing derives are compared row by row.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.composition.erase_operations import Erase
from tests.composition.graph_operations import Merge, RequestMerge, Reset
from tests.composition.known import KNOWN
from tests.composition.lookup_model import AddLookedUp, DropLookedUp
from tests.composition.machine import Failure, Program, World, run
from tests.composition.operations import drawn
from tests.composition.queries import Query
from tests.composition.row_operations import SqlInsert, Write
from tests.composition.schema_model import (
    Decompose,
    JoinTables,
    MaskColumn,
    Normalize,
    SetDefault,
    SplitTable,
)
from tests.composition.schema_operations import Evolve, Retire, TransformClone
from tests.composition.view_operations import CloneDerivedAt, Derive, Detach, Propagate

import livingdb
from livingdb.errors import InvalidData, RuleViolation, Unsupported
from livingdb.graph.names import is_hidden

Rows = dict[tuple[str, str], list[dict[str, Any]]]

FIXED = (2, 4)


def erase_after(seed: int, steps: int) -> str:
    """Run a program, erase a row, and look; what became of it."""
    random = Random(seed)
    world = World(KNOWN)
    try:
        for _ in range(steps):
            step = drawn(world.model, random)
            if step is not None:
                world.do(step)
        return _erase(world.db, random)
    except Failure as failure:
        if failure.entry is None:
            raise
        return "known"
    finally:
        world.close()


def _erase(db: livingdb.Database, random: Random) -> str:
    main = db.branch("main")
    tables = [name for name in main.tables() if main.table(name).key and len(main.table(name))]
    if not tables:
        return "nothing to erase"
    name = random.choice(sorted(tables))
    table = main.table(name)
    row = random.choice(table.to_arrow(list(table.key)).to_pylist())
    key = tuple(row.values())
    before = _rows(db, name)
    ids = {snapshot.id for snapshot in db.snapshots()}
    try:
        db.erase(name, [key], reason="asked", branch="main")
    except (InvalidData, RuleViolation, Unsupported) as error:
        assert _rows(db, name).items() >= before.items()
        return type(error).__name__
    assert ids <= {snapshot.id for snapshot in db.snapshots()}
    after = _rows(db, name)
    for place, rows in before.items():
        kept = [one for one in rows if any(one.get(n) != v for n, v in row.items())]
        assert after[place] == kept, place
    problems = db.check(deep=True).problems
    assert problems == [], problems
    told = db.erase(name, [key], reason="asked again", branch="main")
    assert told.versions == 0
    return "erased"


def _rows(db: livingdb.Database, name: str) -> Rows:
    """The rows of one table in all snapshots that main comes from, as long as its key is this."""
    graph = db._graph
    head = graph.snapshots.at(graph.branch("main").head)
    wanted = graph.versions.definition(graph.version(head, name))
    found: Rows = {}
    waiting, seen = [head], {head.sequence: head}
    while waiting:
        parents = [graph.snapshots.at(number) for number in waiting.pop().parents]
        waiting += [parent for parent in parents if parent.sequence not in seen]
        seen.update((parent.sequence, parent) for parent in parents)
    for row in (row for row in seen.values() if graph.forgotten.find(row) is None):
        for other, address in graph.tables(row).items():
            known = graph.versions.definition(graph.versions.require(address))
            same = known.schema.key == wanted.schema.key
            if known.id == wanted.id and same and not is_hidden(other):
                rows = graph.versions.rows(graph.versions.require(address))
                found[row.address.hex(), other] = rows.to_arrow().to_pylist()
    return found


@pytest.mark.parametrize("seed", FIXED)
def test_a_row_is_erased(seed: int) -> None:
    assert erase_after(seed, 20) == "erased"


def test_beside_a_merge_that_took_back_changes() -> None:
    """In one in which the other side won, a column is there again that its branch had dropped."""
    city = AddLookedUp("items", "n", "orders", "id", "city", "id", "string")
    dropped = DropLookedUp("items", "order_id", "returns", "id", "id", "id")
    split = SplitTable("items", "order_id", 2, ("many", "few"))
    run(
        Program(
            [
                Evolve("main", (split,), "keep", "before", "none"),
                Evolve("before", (city,), "to", "named", "none"),
                Evolve("named", (dropped,), "to", "short", "reverse"),
                Detach("short"),
                Merge("main", "short", "theirs"),
                Erase("named", "items", (1,)),
            ]
        )
    )


def test_on_a_clone_whose_source_was_reset() -> None:
    """The row is in what no branch leads to any more, on a branch that was retired, too."""
    cut = Decompose("orders", (("one", ("city", "amount")), ("two", ("note",))))
    row = (("amount", 2), ("city", "a"), ("id", 10), ("note", "b"))
    run(
        Program(
            [
                Write("main", (("delete", "returns", ((1,),)),)),
                TransformClone("main", "copy", (cut,), "deferred"),
                Evolve("main", (SetDefault("returns", "amount", 7),), "to", "next", "both"),
                Write("next", (("upsert", "returns", (row,)),)),
                Propagate(),
                Retire("next"),
                Reset("main", 2),
                Evolve("main", (JoinTables("orders", "items", "all"),), "here", "", "none"),
                Erase("copy", "returns", (10,)),
            ]
        )
    )


def test_of_a_part_and_a_reset() -> None:
    """Both sides of a table that is cut both ways are in step wherever a reset leads."""
    cut = Decompose("orders", (("one", ("city",)), ("two", ("amount", "note"))))
    row = (("city", "a"), ("id", 11), ("note", None))
    run(
        Program(
            [
                Evolve("main", (cut,), "to", "next", "both"),
                Erase("next", "one", (1,)),
                Erase("main", "orders", (2,)),
                Write("main", (("insert", "orders", (row,)),)),
                Reset("main", 2),
            ]
        )
    )


def test_beside_a_view_that_showed_the_same_twice() -> None:
    """Its versions of before and after are one, and only one of them can be right."""
    cities = Query("distinct", ("returns",), (("g", "city"),))
    run(
        Program(
            [
                Derive("main", "cities", cities, "deferred", "full", 2),
                Write("main", (("insert", "returns", ((("city", "b"), ("id", 8)),)),)),
                Erase("main", "returns", (1,)),
            ]
        )
    )


def test_beside_the_same_view_on_a_clone() -> None:
    """It shows without the row what the view did with it, and both have one version."""
    many = Query("count", ("orders",), ())
    row = (("amount", 0), ("city", "a"), ("id", 11), ("note", "b"))
    run(
        Program(
            [
                Derive("main", "many", many, "deferred", "full", None),
                Write("main", (("delete", "orders", ((1,), (2,))),)),
                CloneDerivedAt("main", 1, "copy"),
                SqlInsert("copy", "orders", row),
                Erase("main", "orders", (3,)),
            ]
        )
    )


def test_of_what_gave_a_row_that_was_erased_of_a_lookup_table() -> None:
    """That row does not come back where the lookup table of the past is computed anew."""
    looked_up = SplitTable("items", "id", 3, ("n2a", "n2b")), Normalize("n2a", "size", "n3")
    items = (("id", 10), ("order_id", 2), ("size", "a-b")), (("id", 6), ("order_id", 0))
    ids = Query("group", ("n3",), (("g", "id"), ("n", "id")))
    changed = (("id", 3), ("order_id", 2), ("size", "c-d-e"))
    notes = MaskColumn("returns", "note", "expression")
    cities = MaskColumn("orders", "city", "expression")
    run(
        Program(
            [
                Evolve("main", looked_up, "keep", "old", "both", "detach"),
                Write("old", (("update", "items", (changed,)),)),
                TransformClone("main", "near", (notes,), "deferred"),
                TransformClone("near", "far", (cities,), "deferred"),
                RequestMerge("main", "old", "fail"),
                Erase("main", "n3", (1369996723629000845,)),
                Write("old", (("insert", "n2b", items),)),
                Merge("main", "old", "theirs"),
                Derive("far", "seen", ids, "immediate", "full", 4),
                Erase("old", "n2a", (10,)),
            ]
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_rows_are_erased(seed: int) -> None:
    erase_after(seed, 40)
