"""What is kept and forgotten, erased, laid out otherwise, looked after and asked for."""

from __future__ import annotations

from livingdb import Database, Layout, Retention

__all__ = ["make_keeping"]


def make_keeping(db: Database) -> None:
    """A branch for each, so that what other parts tell of stays what it is."""
    _make_layouts(db)
    _make_requests(db)
    _make_erasure(db)
    _make_cut(db)
    db.upkeep(seconds=60, propagate=False)


def _make_layouts(db: Database) -> None:
    wide = db.branch("main").clone("wide")
    wide.create_table("wide", {"id": "bigint", "a": "string", "b": "double"}, key="id")
    wide.insert("wide", {"id": range(100), "a": [f"a{n}" for n in range(100)], "b": [0.5] * 100})
    wide.relayout("wide", Layout(target_rows=16, groups=[["a"], ["b"]]))
    wide.upsert("wide", {"id": [5, 500], "a": ["five", "new"], "b": [5.0, None]})
    wide.create_index("wide", ["a"])
    wide.table("wide").root()


def _make_requests(db: Database) -> None:
    db.set_merge_rule("wide", approvals=1)
    for name in ("asked", "taken", "closed"):
        branch = db.branch("wide").clone(name)
        branch.upsert("wide", {"id": [1000 + len(name)], "a": [name], "b": [1.0]})
        request = db.request_merge(name, into="wide", title=f"what {name} has", author="bob")
        request.comment("look at it", by="eva")
        if name == "taken":
            request.approve(by="eva")
            request.merge(by="eva")
        elif name == "closed":
            request.close(by="eva", reason="not now")


def _make_erasure(db: Database) -> None:
    people = db.branch("wide").clone("people")
    people.create_table("people", {"id": "bigint", "name": "string"}, key="id")
    people.insert("people", {"id": range(20), "name": [f"name {n}" for n in range(20)]})
    people.upsert("people", {"id": [7, 30], "name": ["another name", "Ann"]})
    db.erase("people", [7], reason="asked", branch="people")
    people.upsert("people", {"id": [7], "name": ["somebody else"]})


def _make_cut(db: Database) -> None:
    agent = db.branch("wide").clone("agent/1")
    for number in range(6):
        agent.upsert("wide", {"id": [number], "a": [f"try {number}"], "b": [0.0]})
    db.tag("agent/tried", "agent/1~2")
    db.branch("wide").clone("agent/gone").delete("wide", [1, 2])
    db.drop_branch("agent/gone")
    db.retention = Retention(branches={"agent/*": Retention(days=2, drop_idle=True)})
    agents = {"agent/*": Retention(snapshots=1)}
    policy = Retention(branches=agents, grace_seconds=0, dropped_days=0)
    assert db.collect_garbage(policy).snapshots
