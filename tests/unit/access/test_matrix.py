"""Every operation by every role on every kind of branch, as one table of expectations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb import Retention, condition
from livingdb.evolution import AddColumn, MaskColumn, RenameColumn

ROLES = ["reader", "writer", "maintainer", "owner"]
READER, WRITER, MAINTAINER, OWNER = range(4)
DONE = "done"

Operation = Callable[[livingdb.Database, str, str], Any]
"""What is done to a branch; the last is a name that nobody has yet."""


def write_in_transaction(db: livingdb.Database, name: str) -> None:
    with db.branch(name).transaction() as tx:
        tx.upsert("users", [{"id": 9, "name": "Zoe"}])


def detach(db: livingdb.Database, name: str, new: str) -> None:
    db.sync(name).detach()


READS: dict[str, Operation] = {
    "branch": lambda db, name, new: db.branch(name),
    "head": lambda db, name, new: db.branch(name).head,
    "at": lambda db, name, new: db.at(f"{name}@now"),
    "back": lambda db, name, new: db.at(f"{name}~0"),
    "rows": lambda db, name, new: db.branch(name).table("users").to_arrow(),
    "query": lambda db, name, new: db.branch(name).sql("SELECT * FROM users"),
    "log": lambda db, name, new: db.branch(name).log(),
    "movements": lambda db, name, new: db.branch(name).movements(),
    "diff": lambda db, name, new: db.diff(name, name),
    "blame": lambda db, name, new: db.blame(name, "users"),
    "history": lambda db, name, new: db.history(name, "users"),
    "provenance": lambda db, name, new: db.provenance(name),
    "whereabouts": lambda db, name, new: db.whereabouts("users", 1, branch=name),
    "forward lineage": lambda db, name, new: db.forward_lineage(name, "users", 1),
    "picture": lambda db, name, new: db.graph([name]).to_text(),
    "rule": lambda db, name, new: db.merge_rule(name),
    "explain": lambda db, name, new: db.branch(name).explain_evolution(
        AddColumn("users", "x", "int")
    ),
}
"""What a reader may do."""

WRITES: dict[str, tuple[int, Operation]] = {
    "insert": (WRITER, lambda db, name, new: db.branch(name).insert("users", [{"id": 7}])),
    "update": (
        WRITER,
        lambda db, name, new: db.branch(name).update("users", [{"id": 1, "name": "x"}]),
    ),
    "delete": (WRITER, lambda db, name, new: db.branch(name).delete("users", [1])),
    "transaction": (WRITER, lambda db, name, new: write_in_transaction(db, name)),
    "statement": (
        WRITER,
        lambda db, name, new: db.branch(name).sql("UPDATE users SET name = 'x'"),
    ),
    "merge": (WRITER, lambda db, name, new: db.merge("dev/ahead", into=name)),
    "pick": (WRITER, lambda db, name, new: db.branch(name).cherry_pick("dev/ahead")),
    "create table": (
        MAINTAINER,
        lambda db, name, new: db.branch(name).create_table("t", {"id": "int"}, key="id"),
    ),
    "drop table": (MAINTAINER, lambda db, name, new: db.branch(name).sql("DROP TABLE users")),
    "evolve": (
        MAINTAINER,
        lambda db, name, new: db.branch(name).evolve(RenameColumn("users", "name", "called")),
    ),
    "reset": (MAINTAINER, lambda db, name, new: db.branch(name).reset("dev/ahead")),
}
"""What moves a branch, and the role that it takes."""

CHANGES: dict[str, tuple[int, Operation]] = {
    "clone": (WRITER, lambda db, name, new: db.branch(name).clone(new)),
    "clone of the head": (WRITER, lambda db, name, new: db.branch(name).head.clone(new)),
    "tag": (WRITER, lambda db, name, new: db.tag(new, name)),
    "ask for a merge": (WRITER, lambda db, name, new: db.request_merge(name, into="dev/ahead")),
    "derive": (
        MAINTAINER,
        lambda db, name, new: db.branch(name).derive(new, sql="SELECT id FROM users"),
    ),
    "synced clone": (
        MAINTAINER,
        lambda db, name, new: db.branch(name).clone(new, sync="forward"),
    ),
    "migrate": (MAINTAINER, lambda db, name, new: db.branch(name).migrate()),
    "rename": (MAINTAINER, lambda db, name, new: db.rename_branch(name, new)),
    "drop": (MAINTAINER, lambda db, name, new: db.drop_branch(name, detach=True)),
    "rule": (OWNER, lambda db, name, new: db.set_merge_rule(name, approvals=1)),
    "protect": (OWNER, lambda db, name, new: db.protect(name)),
}
"""What else is done with a branch, and the role that it takes."""

WHOLE: dict[str, tuple[int, Callable[[livingdb.Database, Path], Any]]] = {
    "retention": (READER, lambda db, path: db.retention),
    "status": (READER, lambda db, path: db.status()),
    "storage": (READER, lambda db, path: db.storage()),
    "snapshots": (READER, lambda db, path: db.snapshots()),
    "label": (MAINTAINER, lambda db, path: db.label("users.name", "pii")),
    "set retention": (MAINTAINER, lambda db, path: setattr(db, "retention", Retention())),
    "collect": (MAINTAINER, lambda db, path: db.collect_garbage()),
    "check": (MAINTAINER, lambda db, path: db.check()),
    "compact": (MAINTAINER, lambda db, path: db.compact()),
    "upkeep": (MAINTAINER, lambda db, path: db.upkeep(seconds=0.1)),
    "propagate": (MAINTAINER, lambda db, path: db.propagate()),
    "tuning": (MAINTAINER, lambda db, path: setattr(db, "tuning", "observe")),
    "default branch": (MAINTAINER, lambda db, path: db.set_default_branch("main")),
    "relayout": (
        MAINTAINER,
        lambda db, path: db.branch("main").relayout("users", livingdb.Layout(target_rows=64)),
    ),
    "index": (
        MAINTAINER,
        lambda db, path: db.branch("main").create_index("users", "name", name="by_name"),
    ),
    "drop index": (MAINTAINER, lambda db, path: db.branch("main").sql("DROP INDEX by_name")),
    "watch": (MAINTAINER, lambda db, path: db.watch("w", livingdb.alert.on_merge("main"))),
    "unwatch": (MAINTAINER, lambda db, path: db.unwatch("w")),
    "sinks": (MAINTAINER, lambda db, path: db.set_alert_sinks([])),
    "erase": (OWNER, lambda db, path: db.erase("users", [2], reason="asked")),
    "back up": (OWNER, lambda db, path: db.backup(path / "backup")),
    "export": (OWNER, lambda db, path: db.branch("main").export(path / "exported")),
    "lineage events": (OWNER, lambda db, path: db.export_openlineage(path / "events")),
    "add user": (OWNER, lambda db, path: db.people.add("zoe", "reader")),
    "grant": (OWNER, lambda db, path: db.people.grant("zoe", "writer", "dev/*")),
    "withdraw": (OWNER, lambda db, path: db.people.withdraw("zoe", "writer")),
    "token": (OWNER, lambda db, path: db.people.issue_token("zoe")),
    "remove user": (OWNER, lambda db, path: db.people.remove("zoe")),
    "list users": (OWNER, lambda db, path: db.people.list()),
    "audit": (OWNER, lambda db, path: db.people.audit()),
}
"""What is about the database as a whole, and the role on "*" that it takes."""


@pytest.fixture(scope="module")
def db(
    create_database: Callable[..., livingdb.Database], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[livingdb.Database]:
    """Branches of every kind, and a user of each role on `dev/*` and one on everything."""
    with create_database(
        tmp_path_factory.mktemp("matrix"), author="holder", engine="embedded"
    ) as db:
        main = db.branch("main")
        main.create_table("users", {"id": "bigint", "name": "string"}, key="id")
        main.insert("users", [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bob"}])
        dev = main.clone("dev/base")
        dev.clone("dev/ahead").insert("users", [{"id": 3, "name": "Cleo"}])
        masks = [MaskColumn("users", "name", method="null")]
        main.clone("dev/masked", transform=masks, sync="forward")
        dev.clone("dev/pair").evolve(AddColumn("users", "extra", "int"), to="far", sync="both")
        main.derive("dev/users", sql="SELECT id, name FROM users", when="immediate", key="id")
        for role in ROLES:
            db.people.add(role, role, "dev/*")
            db.people.add(f"{role}-all", role, "*")
        yield db


_numbers = count()


def outcome(db: livingdb.Database, user: str, asked: Callable[[], Any]) -> str:
    """What comes of something that a user does, in a word."""
    with db.acting_as(user):
        try:
            asked()
        except livingdb.LivingDBError as error:
            return type(error).__name__
        return DONE


def on_a_branch(db: livingdb.Database, user: str, branch: str | None, what: Operation) -> str:
    """The same on a branch; None: on one of its own that nothing has happened to."""
    number = next(_numbers)
    name = branch or db.branch("dev/base").clone(f"dev/own-{number}").name
    return outcome(db, user, lambda: what(db, name, f"dev/new-{number}"))


@pytest.mark.parametrize("role", ROLES)
def test_branches(db: livingdb.Database, role: str) -> None:
    rank = ROLES.index(role)
    wrong: list[tuple[str, str, str, str]] = []

    def expect(kind: str, what: str, found: str, wanted: str) -> None:
        if found != wanted:
            wrong.append((kind, what, found, wanted))

    for what, read in READS.items():
        for kind in ("dev/masked", "dev/pair"):
            expect(kind, what, on_a_branch(db, role, kind, read), DONE)
        expect("own", what, on_a_branch(db, role, None, read), DONE)
        for kind in ("main", "far", "dev/users"):
            expect(kind, what, on_a_branch(db, role, kind, read), "NotFound")
    for what, (least, write) in {**WRITES, **CHANGES}.items():
        allowed = DONE if rank >= least else "Forbidden"
        expect("own", what, on_a_branch(db, role, None, write), allowed)
        for kind in ("main", "far", "dev/users"):
            expect(kind, what, on_a_branch(db, role, kind, write), "NotFound")
    for what, (least, write) in WRITES.items():
        # Its group reaches a branch on which nobody of them has a right.
        expect("dev/pair", what, on_a_branch(db, role, "dev/pair", write), "Forbidden")
        allowed = "ReadOnlyBranch" if rank >= least else "Forbidden"
        expect("dev/masked", what, on_a_branch(db, role, "dev/masked", write), allowed)
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("role", ROLES)
def test_the_database(db: livingdb.Database, role: str, tmp_path: Path) -> None:
    rank = ROLES.index(role)
    wrong = []
    for what, (least, do) in WHOLE.items():
        found = outcome(db, f"{role}-all", lambda do=do: do(db, tmp_path))
        if found != (DONE if rank >= least else "Forbidden"):
            wrong.append((what, found))
        elsewhere = outcome(db, role, lambda do=do: do(db, tmp_path))
        if elsewhere not in ("Forbidden", "NotFound") and what != "snapshots":
            wrong.append((what, "without a right on '*'", elsewhere))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("role", ROLES)
def test_syncs(db: livingdb.Database, role: str) -> None:
    """A sync is there for who sees all its branches, and is done with by maintainers."""
    rank = ROLES.index(role)
    source, target = f"dev/{role}-source", f"dev/{role}-target"
    db.branch("dev/base").clone(source)
    guard = condition.max_changed_share(0.5, action="warn")
    db.branch(source).clone(target, sync="forward", conditions=guard)
    allowed = DONE if rank >= MAINTAINER else "Forbidden"
    assert outcome(db, role, lambda: db.sync("dev/masked")) == "NotFound"
    assert outcome(db, role, lambda: db.sync(target).explain()) == DONE
    asked: dict[str, Callable[[], Any]] = {
        "alter": lambda: db.sync(target).alter(conditions=[]),
        "detach": lambda: db.sync(target).detach(),
        "reattach": lambda: db.sync(target).reattach(),
    }
    assert {what: outcome(db, role, do) for what, do in asked.items()} == dict.fromkeys(
        asked, allowed
    )
    # Whoever writes to its source need not have a right on what follows that.
    hidden = db.branch(source).clone(f"hidden-{role}", sync="forward")
    wanted = DONE if rank >= WRITER else "Forbidden"
    assert outcome(db, role, lambda: db.branch(source).insert("users", [{"id": 50}])) == wanted
    assert (50 in hidden.table("users").to_arrow()["id"].to_pylist()) == (wanted == DONE)


def test_whatever_is_done_is_in_the_audit_trail(db: livingdb.Database, tmp_path: Path) -> None:
    looking = {what for what, (least, _) in WHOLE.items() if least == READER}
    looking |= {"list users", "audit"}
    wrong: list[tuple[str, str]] = []
    db.branch("dev/ahead").insert("users", [{"id": 90, "name": "Dora"}])

    def expect(what: str, user: str, do: Callable[[], str]) -> None:
        before = db.people.audit().num_rows
        assert do() == DONE, what
        new = db.people.audit().to_pylist()[: db.people.audit().num_rows - before]
        if not any((row["person"], row["outcome"]) == (user, "done") for row in new):
            wrong.append((what, user))

    for what, (_, write) in {**WRITES, **CHANGES}.items():
        expect(what, "owner", lambda write=write: on_a_branch(db, "owner", None, write))
    for what, (_, act) in WHOLE.items():
        if what not in looking:
            asked = lambda act=act: outcome(db, "owner-all", lambda: act(db, tmp_path))  # noqa: E731
            expect(what, "owner-all", asked)
    db.branch("dev/base").clone("dev/noted", sync="forward")
    db.branch("dev/base").derive("dev/counted", sql="SELECT count(*) AS n FROM users")
    request = db.request_merge("dev/ahead", into="dev/base").number
    others: dict[str, Callable[[], Any]] = {
        "alter": lambda: db.sync("dev/noted").alter(conditions=[]),
        "detach": lambda: db.sync("dev/noted").detach(),
        "reattach": lambda: db.sync("dev/noted").reattach(),
        "refresh": lambda: db.refresh("dev/counted"),
        "comment": lambda: db.merge_request(request).comment("well"),
        "approve": lambda: db.merge_request(request).approve(),
        "close": lambda: db.merge_request(request).close(),
        "reopen": lambda: db.merge_request(request).reopen(),
        "drop tag": lambda: db.drop_tag("dev/tagged"),
        "budget": lambda: db.budget(bytes=None),
        "tune": lambda: db.tune(seconds=0.1),
    }
    db.tag("dev/tagged", "dev/base")
    for what, act in others.items():
        expect(what, "owner-all", lambda act=act: outcome(db, "owner-all", act))
    assert not wrong, "\n".join(map(str, wrong))
