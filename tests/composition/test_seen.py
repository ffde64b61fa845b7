"""Whatever was done to a database, a user sees the branches that are theirs, and what leads there.

A random program makes a database, and users get roles on some of its branches.  What they see is
compared with what follows from its names and histories, as the owner of the files sees them; and
in all that they are told, nothing names a snapshot or a branch that they do not see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from tests.composition.machine import World
from tests.composition.operations import drawn
from tests.unit.commit.masks.test_canaries import tried

from livingdb import Database

TABLES = ["log", "branches", "movements", "edges", "tags", "syncs", "runs", "alerts", "jobs"]
TABLES += ["merge_requests", "outbox", "watches"]


def seen_names(db: Database, granted: set[str]) -> set[str]:
    """The branches that somebody sees who has a role on some.

    What a view is made of and was dropped since, they have to have a role on by the name it had.
    """
    made_of: dict[str, set[str]] = {}
    graph = db._graph
    dropped = {row.id: row.name for row in graph.catalog.dropped_branches.all()}
    there = {branch.name for branch in db.branches()}
    lost: set[str] = set()
    for sync in db.syncs():
        first = sync._chain[0]
        if sync.kind == "derive" and first.spec["what"] != "clone":
            made_of.setdefault(sync.target, set()).update(set(sync.sources) - {"?"})
            gone = set(first.sources) - graph.branches.by_ids(first.sources).keys()
            if not {dropped.get(one) for one in gone} <= granted:
                lost.add(sync.target)

    def sees(name: str, above: frozenset[str]) -> bool:
        sources = made_of.get(name, set()) - above - {name}
        is_granted = name in granted and name not in lost
        return is_granted and all(sees(source, above | {name}) for source in sources)

    return {name for name in there if sees(name, frozenset())}


def histories(db: Database, names: set[str]) -> set[str]:
    """All snapshots that lead to where some branches are, or were."""
    by_id = {snapshot.id: snapshot for snapshot in db.snapshots()}
    waiting = [m.snapshot.id for name in names for m in db.branch(name).movements()]
    for sync in db.syncs():  # and hidden branches, between those that are seen
        if {*sync.sources, sync.target} <= names:
            hidden = db._graph.branches.by_ids([row.target for row in sync._chain[:-1]])
            moves = [move for row in hidden.values() for move in db._graph.movements.of(row)]
            rows = db._graph.snapshots.get_many({move.snapshot for move in moves})
            waiting += [row.address.hex() for row in rows.values()]
    found: set[str] = set()
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += by_id[one].parents
    return found


def told(db: Database, names: set[str]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What somebody asks who wants to know everything."""
    yield "graph", lambda: db.graph().to_text()
    yield "syncs", lambda: [(sync, sync.explain(), sync.trail, sync.runs) for sync in db.syncs()]
    yield "alerts", lambda: [(a.message, a.details, a.deliveries) for a in db.alerts()]
    for name in sorted(names):
        branch = db.branch(name)
        yield f"{name}: moves", branch.movements
        yield f"{name}: edges", lambda b=branch: [(s.edge, s.sources) for s in b.log(5)]
        yield f"{name}: provenance", lambda n=name: db.provenance(n).to_dict()
        yield f"{name}: write", lambda b=branch: b.insert("nothing", [])
        for table in TABLES:
            query = f"SELECT * FROM livingdb.{table}"
            yield f"{name}: {query}", lambda b=branch, q=query: b.sql(q).to_arrow().to_pylist()
        for table in branch.tables():
            yield f"{name}: rows", lambda b=branch, t=table: b.table(t).to_arrow()
            yield f"{name}: blame", lambda n=name, t=table: db.blame(n, t).to_pylist()
            yield f"{name}: lineage", lambda n=name, t=table: db.lineage(f"{n}.{t}")
            yield f"{name}: columns", lambda n=name, t=table: db.column_lineage(f"{n}.{t}")


def check_user(db: Database, granted: set[str], user: str) -> None:
    expected = seen_names(db, granted)
    ids = histories(db, expected)
    graph = db._graph
    hidden = [snapshot.id[:12] for snapshot in db.snapshots() if snapshot.id not in ids]
    names = {row.id: row.name for row in graph.branches.all() if not row.name.startswith("~")}
    hidden += [one for one, name in names.items() if name not in expected]
    with db.acting_as(user):
        assert {branch.name for branch in db.branches()} == expected
        assert {snapshot.id for snapshot in db.snapshots()} <= ids
        for where, asked in told(db, expected):
            text = str(tried(asked))
            for word in hidden:
                assert word not in text, f"{word} in {where}: {text[:500]}"


def check_program(seed: int, length: int) -> None:
    random, world = Random(seed), World()
    try:
        while world.turn < length:
            step = drawn(world.model, random)
            if step is not None:
                world.do(step)
            length -= step is None
        names = sorted(branch.name for branch in world.db.branches())
        for number in range(2):
            granted = {name for name in names if random.random() < 0.5}
            user = f"user {number}"
            world.db.people.add(user)
            for name in granted:
                world.db.people.grant(user, random.choice(["reader", "maintainer"]), name)
            check_user(world.db, granted, user)
        assert world.db.check().problems == []
    finally:
        world.close()


def test_a_program() -> None:
    check_program(3, 15)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_programs(seed: int) -> None:
    check_program(1000 + seed, 50)
