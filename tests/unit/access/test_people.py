"""People, their roles and tokens, and acting as one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import copy_context
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import text

import livingdb
from livingdb.access.acting import unchecked
from livingdb.catalog.snapshots import Snapshots
from livingdb.errors import (
    AlreadyExists,
    Forbidden,
    InvalidData,
    InvalidName,
    NotFound,
    RuleViolation,
    StorageFailure,
)
from livingdb.evolution import AddColumn


@pytest.fixture
def db(
    create_database: Callable[..., livingdb.Database], tmp_path: Path
) -> Iterator[livingdb.Database]:
    with create_database(tmp_path, author="holder", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("users", {"id": "bigint", "name": "string"}, key="id")
        main.insert("users", [{"id": 1, "name": "Ada"}])
        main.clone("dev/a")
        yield db


def test_users_have_roles_on_patterns(db: livingdb.Database) -> None:
    assert not db.people.are_any
    ann = db.people.add("ann", role="writer", branches="dev/*")
    assert [(grant.role, grant.branches) for grant in ann.grants] == [("writer", "dev/*")]
    assert db.people.grant("ann", role="reader", branches="main").role_on("main").word == "reader"
    assert [user.name for user in db.people.list()] == ["ann"]
    assert db.people.withdraw("ann", role="reader").grants == ann.grants
    for wrong, error in (
        (lambda: db.people.add("ann"), AlreadyExists),
        (lambda: db.people.add("a\u200bnn"), InvalidName),
        (lambda: db.people.add(" "), InvalidName),
        (lambda: db.people.add("bob", "king"), InvalidData),
        (lambda: db.people.add("bob", "READER"), InvalidData),
        (lambda: db.people.add("bob", "reader", ""), InvalidData),
        (lambda: db.people.grant("bob", "reader"), NotFound),
        (lambda: db.people.withdraw("ann", "owner"), NotFound),
        (lambda: db.people.issue_token("ann", days=0), InvalidData),
        (lambda: db.people.revoke("no"), NotFound),
    ):
        with pytest.raises(error):
            wrong()
    db.people.remove("ann")
    assert db.people.list() == []
    with pytest.raises(Forbidden), db.acting_as(ann):
        pass


def test_who_does_not_see_the_default_branch_is_told_to_name_one(db: livingdb.Database) -> None:
    db.people.add("ann", "reader", "dev/*")
    with db.acting_as("ann"), pytest.raises(livingdb.NotFound, match="you see no default branch"):
        _ = db.default_branch


def test_tokens(db: livingdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    ann = db.people.add("ann", role="writer", branches="dev/*")
    secret = db.people.issue_token("ann", days=2, note="laptop")
    (known,) = db.people.tokens("ann")
    assert (known.note, known.used, known.is_valid) == ("laptop", None, True)
    assert secret.startswith(f"ldb_{known.id}_")
    assert db.people.authenticate(secret) == ann
    assert db.people.tokens("ann")[0].used is not None
    other = secret[:-1] + ("0" if secret[-1] != "0" else "1")
    words = set()
    for wrong in (other, "ldb_00_11", "", "x" * 10_000, "ldb_é_1", None):
        with pytest.raises(Forbidden) as told:
            db.people.authenticate(wrong)  # type: ignore[arg-type]
        words.add(str(told.value))
    expired = db.people.issue_token("ann", days=1e-9)
    db.people.revoke(known.id)
    for wrong in (secret, expired):
        with pytest.raises(Forbidden) as told:
            db.people.authenticate(wrong)
        words.add(str(told.value))
    assert len(words) == 1
    assert not db.people.tokens("ann")[1].is_valid
    refused = [row for row in db.people.audit().to_pylist() if row["outcome"] == "refused"]
    assert [row["details"] for row in refused[::-1]] == [
        '{"why": "wrong secret"}',
        '{"why": "revoked"}',
        '{"why": "expired"}',
    ]
    stored = Path(db.name).rglob("*")
    assert not any(secret[-20:].encode() in p.read_bytes() for p in stored if p.is_file())


def test_the_author_is_who_acts(db: livingdb.Database) -> None:
    db.people.add("ann", role="maintainer", branches="*")
    with db.acting_as("ann"):
        assert db.author == "ann"
        dev = db.branch("dev/a")
        assert dev.insert("users", [{"id": 2, "name": "Bob"}]).author == "ann"
        assert dev.clone("dev/b").movements()[0].author == "ann"
        assert dev.evolve(AddColumn("users", "x", "int")).author == "ann"
        request = db.request_merge("dev/a", into="dev/b")
        assert request.author == "ann"
        for named in (
            lambda: dev.insert("users", [{"id": 3}], author="bob"),
            lambda: dev.clone("dev/c", author="bob"),
            lambda: dev.evolve(AddColumn("users", "y", "int"), author="bob"),
            lambda: db.request_merge("dev/b", into="dev/a", author="bob"),
            lambda: request.comment("well", by="bob"),
            lambda: request.approve(by="bob"),
            lambda: db.merge("dev/a", into="dev/b", author="bob", fast_forward=False),
        ):
            with pytest.raises(Forbidden, match="bob"):
                named()
    assert db.author == "holder"


def test_rights_that_are_withdrawn_hold_at_once(db: livingdb.Database) -> None:
    ann = db.people.add("ann", role="writer", branches="dev/*")
    with db.acting_as(ann):
        tx = db.branch("dev/a").transaction()
        tx.insert("users", [{"id": 5, "name": "Eve"}])
        with unchecked():
            db.people.withdraw("ann")
        with pytest.raises(Forbidden):
            tx.commit()
    with db.acting_as(ann):
        assert db.branches() == []
    assert len(db.branch("dev/a").table("users")) == 1


def test_a_search_that_failed_is_done_again(
    db: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.people.add("ann", role="reader", branches="dev/*")
    oldest = db.branch("main").log()[-1].id
    with db.acting_as("ann"), monkeypatch.context() as patched:

        def fail(_self: object, _number: int) -> object:
            raise StorageFailure("the disk is gone")

        patched.setattr(Snapshots, "at_with_prefetch", fail)
        with pytest.raises(StorageFailure):
            db.at(f"id:{oldest}")
    with db.acting_as("ann"):
        assert db.at(f"id:{oldest}").id == oldest


def test_threads_have_the_context_that_they_are_given(db: livingdb.Database) -> None:
    db.people.add("ann", role="reader", branches="dev/*")
    seen: list[list[str]] = []

    def look() -> None:
        seen.append([branch.name for branch in db.branches()])

    with db.acting_as("ann"):
        given = copy_context()
        threads = Thread(target=look), Thread(target=given.run, args=(look,))
        for thread in threads:
            thread.start()
            thread.join()
    assert seen == [["dev/a", "main"], ["dev/a"]]


def test_writes_that_are_stored_together_are_each_checked(db: livingdb.Database) -> None:
    """Threads leave small writes to each other: each is that of its own user."""
    users = {"ann": "writer", "bob": "reader", "cleo": "writer"}
    for name, role in users.items():
        db.people.add(name, role=role, branches="dev/*")
    outcomes: dict[str, str] = {}

    def write(name: str, number: int) -> None:
        with db.acting_as(name):
            try:
                made = db.branch("dev/a").upsert("users", [{"id": number, "name": name}])
                outcomes[f"{name} {number}"] = made.author
            except Forbidden:
                outcomes[f"{name} {number}"] = "refused"

    threads = [
        Thread(target=write, args=(n, 10 * i + j)) for i, n in enumerate(users) for j in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 12
    for key, outcome in outcomes.items():
        name = key.split()[0]
        assert outcome == ("refused" if users[name] == "reader" else name)


def test_merge_only_branches(db: livingdb.Database) -> None:
    db.people.add("ann", role="writer", branches="*")
    db.people.add("mia", role="maintainer", branches="*")
    db.branch("dev/a").insert("users", [{"id": 2, "name": "Bob"}])
    db.protect("main")
    assert db.merge_rule("main").merge_only
    for user in ("ann", "mia"):
        with db.acting_as(user), pytest.raises(Forbidden, match="merges only"):
            db.branch("main").insert("users", [{"id": 9}])
    with db.acting_as("ann"), pytest.raises(Forbidden, match="maintainer"):
        db.merge("dev/a", into="main")
    with db.acting_as("mia"):
        db.merge("dev/a", into="main")
        with pytest.raises(Forbidden, match="merges only"):
            db.branch("main").reset("main~1")
    db.protect("main", merge_only=False)
    with db.acting_as("ann"):
        db.branch("main").insert("users", [{"id": 9}])


def test_a_rule_is_not_taken_from_a_name_by_renaming(db: livingdb.Database) -> None:
    db.people.add("mia", role="maintainer", branches="*")
    db.people.add("olga", role="owner", branches="*")
    db.protect("main")
    with db.acting_as("mia"):
        for act in (
            lambda: db.rename_branch("main", "old"),
            lambda: db.drop_branch("main", force=True),
            lambda: db.retire("main"),
        ):
            with pytest.raises(Forbidden, match="which has a rule: that takes the role owner"):
                act()
        assert db.rename_branch("dev/a", "dev/b").name == "dev/b"
    with db.acting_as("olga"):
        assert db.rename_branch("main", "old").name == "old"


def test_a_rule_that_asks_for_approval_is_not_gone_around(db: livingdb.Database) -> None:
    db.people.add("ann", role="writer", branches="*")
    db.people.add("mia", role="maintainer", branches="*")
    db.set_merge_rule("main", approvals=1)
    db.branch("dev/a").insert("users", [{"id": 2, "name": "Bob"}])
    with db.acting_as("ann"):
        with pytest.raises(Forbidden, match="request_merge"):
            db.merge("dev/a", into="main")
        number = db.request_merge("dev/a", into="main").number
    with db.acting_as("mia"):
        db.merge_request(number).approve()
        assert db.merge_request(number).merge().author == "mia"


def test_nobody_approves_what_an_agent_of_theirs_asked_for(db: livingdb.Database) -> None:
    db.people.add("ann", role="maintainer", branches="*")
    db.people.add("mia", role="maintainer", branches="*")
    db.set_merge_rule("main", approvals=1)
    db.branch("dev/a").insert("users", [{"id": 2, "name": "Bob"}])
    number = db.request_merge("dev/a", into="main", author="tidy (for ann)").number
    with db.acting_as("ann"):
        db.merge_request(number).approve()
        assert db.merge_request(number).problems() == ["1 more approval is needed"]
        with pytest.raises(RuleViolation, match="needs 1 more approval"):
            db.merge_request(number).merge()
    with db.acting_as("mia"):
        db.merge_request(number).approve()
    with db.acting_as("ann"):
        db.merge_request(number).merge()


def test_a_rule_holds_for_requests_into_what_is_in_step(db: livingdb.Database) -> None:
    db.people.add("mia", role="maintainer", branches="*")
    db.people.add("ann", role="writer", branches="*")
    db.branch("main").evolve(AddColumn("users", "age", "int"), keep="v1", sync="both")
    db.set_merge_rule("main", approvals=1)
    db.branch("v1").clone("dev/b").insert("users", [{"id": 2, "name": "Bob"}])
    with db.acting_as("mia"):
        request = db.request_merge("dev/b", into="v1")
        assert request.problems() == ["1 more approval is needed"]
        with pytest.raises(RuleViolation, match="needs 1 more approval"):
            request.merge()
    db.set_merge_rule("main", checks=["changed_share <= 0.01"])
    with db.acting_as("mia"):
        assert "in step with 'v1' has conditions" in request.problems()[0]
        with pytest.raises(RuleViolation, match="in step with 'v1' has conditions"):
            request.merge()
    assert db.branch("main").table("users").get(2) is None
    db.set_merge_rule("main", approvals=1)
    with db.acting_as("ann"):
        db.merge_request(request.number).approve()
    with db.acting_as("mia"):
        request.merge()
    assert db.branch("main").table("users").get(2) is not None


def test_merge_only_holds_for_the_group(db: livingdb.Database) -> None:
    db.people.add("mia", role="maintainer", branches="*")
    db.branch("main").evolve(AddColumn("users", "age", "int"), to="v2", sync="both")
    db.protect("main")
    with db.acting_as("mia"), pytest.raises(Forbidden, match="'main' takes merges only"):
        db.branch("v2").insert("users", [{"id": 9, "name": "x", "age": 1}])


def test_merge_only_is_not_gone_around_by_syncs(db: livingdb.Database) -> None:
    db.people.add("mia", role="maintainer", branches="*")
    main = db.branch("main")
    main.clone("dev/tw", sync="both")
    for name in ("main", "dev/a"):
        db.protect(name)
    head = main.head.id
    with db.acting_as("mia"):
        with pytest.raises(Forbidden, match="let a sync write 'dev/a': it takes merges only"):
            db.branch("dev/a").evolve(AddColumn("users", "age", "int"), to="v2", sync="reverse")
        db.sync("dev/tw").detach()
        db.branch("dev/tw").insert("users", [{"id": 9, "name": "x"}])
        for act in (
            lambda: db.sync("dev/tw").reattach("theirs"),
            lambda: db.sync("dev/tw").resume(),
            lambda: db.sync("dev/tw").approve(),
            lambda: db.sync("dev/tw").realign("main"),
        ):
            with pytest.raises(Forbidden, match="takes merges only: that takes the role owner"):
                act()
    assert main.head.id == head
    db.people.grant("mia", "owner", "main")
    with db.acting_as("mia"):
        db.sync("dev/tw").reattach("theirs")
    assert main.table("users").get(9) is not None


@pytest.mark.parametrize("statement", ["DROP VIEW totals", "DROP MATERIALIZED VIEW totals"])
def test_a_view_is_dropped_by_who_maintains_it(db: livingdb.Database, statement: str) -> None:
    main = db.branch("main")
    main.derive("totals", "SELECT count(*) AS n FROM users", when="immediate")
    db.people.add("rita", "reader")
    db.people.add("will", "writer")
    db.people.add("mia", "maintainer")
    for user in ("rita", "will"):
        with db.acting_as(user), pytest.raises(Forbidden, match=r"drop 'totals': .*maintainer"):
            main.sql(statement)
    db.protect("totals")
    with db.acting_as("mia"):
        with pytest.raises(Forbidden, match="which has a rule: that takes the role owner"):
            main.sql(statement)
        with pytest.raises(Forbidden):
            main.derive("totals", "SELECT 1 AS n FROM users", replace=True, sync="none")
    db.protect("totals", merge_only=False)
    db.people.grant("mia", "owner", "totals")
    with db.acting_as("mia"):
        main.sql(statement)
    assert [branch.name for branch in db.branches()] == ["dev/a", "main"]
    last = db.people.audit(1).to_pylist()[0]
    assert (last["person"], last["action"], last["subject"]) == ("mia", "drop branch", "totals")


def test_what_cannot_be_written_down_is_not_done(
    db: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.people.add("olga", "owner")
    db.branch("main").derive("totals", "SELECT count(*) AS n FROM users", when="immediate")
    db.label("users.id", "key")
    db.watch("old", livingdb.alert.on_merge("main"))
    db.branch("main").derive("late", "SELECT count(*) AS n FROM users", when="deferred")
    db.branch("main").derive("held", "SELECT count(*) AS n FROM users", when="deferred")
    db.sync("held").detach()
    db.branch("main").insert("users", [{"id": 70, "name": "Eve"}])

    def fail(*given: object) -> None:
        raise livingdb.errors.StorageFailure("the disk is full")

    def state() -> object:
        names = [branch.name for branch in db.branches()]
        heads = [branch.head.id for branch in db.branches()]
        syncs = [(sync.name, sync.state, sync.when, len(sync.trail)) for sync in db.syncs()]
        known = db.labels(), [watch.name for watch in db.watches()], dict(db.tags())
        return names, heads, syncs, known

    before = state()
    monkeypatch.setattr(type(db._graph.catalog.audit), "add", fail)
    with db.acting_as("olga"):
        for act in (
            lambda: db.drop_branch("dev/a"),
            lambda: db.rename_branch("dev/a", "dev/b"),
            lambda: db.branch("main").sql("DROP VIEW totals"),
            lambda: db.label("users.name", "pii"),
            lambda: db.unlabel("users.id"),
            lambda: db.watch("new", livingdb.alert.on_merge("main")),
            lambda: db.unwatch("old"),
            lambda: db.tag("v1", "main"),
            lambda: db.sync("late").detach(),
            lambda: db.sync("late").alter(when="on demand"),
            lambda: db.sync("held").reattach(),
            lambda: db.refresh("late"),
            lambda: db.refresh("late", full=True),
        ):
            with pytest.raises(livingdb.errors.StorageFailure):
                act()
    assert state() == before
    monkeypatch.undo()
    noted = db.people.audit().num_rows
    with db.acting_as("olga"):
        db.refresh("late")
        db.sync("held").reattach()
        db.sync("late").alter(when="on demand")
        db.sync("late").detach()
        db.refresh("held")
    new = db.people.audit(db.people.audit().num_rows - noted).to_pylist()
    assert [(row["action"], row["subject"]) for row in reversed(new)] == [
        *(("refresh", "late"), ("reattach sync", "main/held"), ("alter sync", "main/late")),
        *(("detach sync", "main/late"), ("refresh", "held")),
    ]
    assert db.check().problems == []


def test_the_audit_is_chained(db: livingdb.Database) -> None:
    ann = db.people.add("ann", role="writer", branches="dev/*")
    with db.acting_as(ann):
        db.branch("dev/a").insert("users", [{"id": 2, "name": "Bob"}])
    with pytest.raises(Forbidden), db.acting_as(ann):
        db.drop_branch("dev/a")
    db.people.record("query", "dev/a", "done", {"rows": 3}, person="ann")
    told = [(r["person"], r["action"], r["outcome"]) for r in db.people.audit().to_pylist()]
    assert told == [
        ("ann", "query", "done"),
        ("ann", "refuse", "refused"),
        ("ann", "transaction", "done"),
        ("holder", "add user", "done"),
    ]
    assert len(db.people.audit(limit=2)) == 2
    assert db.people.audit(limit=2, before=3).column("number").to_pylist() == [2, 1]
    assert len(db.people.audit(before=1)) == 0
    with pytest.raises(livingdb.InvalidData, match="before -1"):
        db.people.audit(before=-1)
    assert db.check().problems == []
    last = db._graph.catalog.meta("audit")
    with db._graph.catalog.write() as connection:
        connection.execute(text("DELETE FROM audit WHERE number = 4"))
    assert "ends with entry 3" in str(db.check().problems)
    with db._graph.catalog.write() as connection:
        connection.execute(text("DELETE FROM audit WHERE number = 2"))
    assert "entries 2 to 2 of the audit are missing" in str(db.check().problems)
    assert last is not None
    assert last.startswith("4 ")
