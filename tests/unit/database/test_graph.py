"""Branches, tags, refs, reset, revert, cherry-pick."""

from __future__ import annotations

import datetime

import pytest

import livingdb
from livingdb import Branch, Database


def ids(branch: Branch | livingdb.Snapshot) -> list[int]:
    return branch.table("orders").to_arrow(["id"])["id"].to_pylist()


def test_branches_of_branches(db: Database, main: Branch) -> None:
    names = ["a", "a/b", "feature-x", "Ærø"]
    branch = main
    for number, name in enumerate(names):
        branch = branch.clone(name)
        branch.delete("orders", [number])
    assert ids(branch) == [4, 5, 6, 7, 8, 9]
    assert len(ids(main)) == 10
    assert db.branches() == sorted([*names, "main"])
    assert "a" in db.branches()
    assert {b.name for b in db.branches()} == {*names, "main"}
    assert ids(db.at("main").clone("again")) == list(range(10))


def test_branches_are_listed_by_page(db: Database, main: Branch) -> None:
    names = sorted([f"b{number}" for number in range(7)] + ["main"])
    for name in names[:-1]:
        main.clone(name)
    found: list[str] = []
    while page := [each.name for each in db.branches(limit=3, after=found[-1] if found else "")]:
        assert len(page) <= 3
        found += page
    assert found == names
    assert [each.name for each in db.branches(after="b5")] == ["b6", "main"]
    assert db.branches(limit=0) == []


def test_dropping_a_branch_reads_no_others(
    db: Database, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.clone("one")
    branches = db._graph.branches
    monkeypatch.setattr(branches, "all", lambda: pytest.fail("all branches were read"))
    db.drop_branch("one")
    assert not db.syncs()


def test_names_are_checked_once_and_for_all(db: Database, main: Branch) -> None:
    for name in ("", "a b", "a~1", "x@y", "a:b", "-a", "/a", "a/", "..", "a\0", "livingdb", 5):
        with pytest.raises(livingdb.InvalidName):
            main.clone(name)  # type: ignore[arg-type]
        with pytest.raises(livingdb.InvalidName):
            db.tag(name, "main")  # type: ignore[arg-type]
    with pytest.raises(livingdb.InvalidData, match="when=, conditions= and alerts="):
        main.clone("dev", when="every 1 hour")
    main.clone("dev")
    with pytest.raises(livingdb.AlreadyExists):
        main.clone("dev")
    db.tag("v1", "main")
    with pytest.raises(livingdb.AlreadyExists):
        db.tag("v1", "dev")


def test_refs(db: Database, main: Branch) -> None:
    first = main.head
    moment = first.time
    main.delete("orders", [1])
    db.tag("v1", "main~1")
    assert db.at("v1") == db.at("main~1") == db.at(first) == first
    assert db.at("main~") == first
    assert db.at("main~1~1").message == "create table orders"
    assert db.at(first.id) == db.at(first.id[:6]) == db.at(f"id:{first.id[:8]}") == first
    assert db.at(f"main@{moment.isoformat()}") == first
    zoned = moment.astimezone(datetime.timezone(datetime.timedelta(hours=9)))
    assert db.at(f"main@{zoned.isoformat()}") == first
    assert db.at(f"main@{moment.replace(tzinfo=None).isoformat()}") == first
    assert db.at(f"main@{moment.isoformat()}~1").message == "create table orders"
    with pytest.raises(livingdb.NotFound, match="not there yet"):
        db.at("main@2001-01-01")
    with pytest.raises(livingdb.NotFound, match="snapshots"):
        db.at("main~99")
    with pytest.raises(livingdb.NotFound, match="main"):
        db.at("mian")
    with pytest.raises(livingdb.InvalidName, match="time"):
        db.at("main@yesterday")
    with pytest.raises(livingdb.InvalidName):
        db.at("id:xyz")
    main.clone(first.id[:6])
    assert db.at(first.id[:6]) == main.head
    assert db.at(f"id:{first.id[:6]}") == first


def test_the_log_goes_through_merges(db: Database, main: Branch) -> None:
    dev = main.clone("dev")
    dev.delete("orders", [1], message="on dev")
    main.delete("orders", [2], message="on main")
    db.merge("dev", "main", message="both")
    assert [s.message for s in main.log()] == [
        "both",
        "on main",
        "on dev",
        "ten orders",
        "create table orders",
        "create the database",
    ]
    assert [s.message for s in main.log(limit=2)] == ["both", "on main"]
    assert len(db.snapshots()) == 6


def test_reset_moves_the_branch_and_loses_nothing(db: Database, main: Branch) -> None:
    before = main.head
    main.delete("orders", [1])
    gone = main.head
    main.reset("main~1")
    assert main.head == before
    assert ids(db.at(gone.id)) == [0, *range(2, 10)]
    main.reset(gone)
    assert main.head == gone
    main.upsert("orders", {"id": [50]})
    assert main.head.parents == (gone.id,)


def test_a_transaction_notices_a_reset(main: Branch) -> None:
    slow = main.transaction()
    slow.update("orders", {"id": [1], "city": ["x"]})
    main.update("orders", {"id": [2], "city": ["y"]})
    main.reset("main~1")
    slow.commit()
    assert main.table("orders").get(1)["city"] == "x"
    slow = main.transaction()
    slow.update("orders", {"id": [1], "city": ["z"]})
    main.reset("main~1")
    with pytest.raises(livingdb.TransactionConflict):
        slow.commit()


def test_revert_undoes_one_snapshot(main: Branch) -> None:
    wrong = main.delete("orders", [1, 2])
    main.upsert("orders", {"id": [70]})
    undone = main.revert(wrong)
    assert ids(main) == [*range(10), 70]
    assert undone.edge.operation == "revert"
    assert undone.edge.sources == {"snapshot": wrong.id}
    changed = main.update("orders", {"id": [3], "city": ["x"]})
    main.update("orders", {"id": [3], "city": ["y"]})
    with pytest.raises(livingdb.MergeConflict):
        main.revert(changed)
    assert main.revert(wrong) == main.head
    with pytest.raises(livingdb.InvalidData):
        main.revert(main.log()[-1])


def test_reverting_a_merge_goes_to_its_first_parent(db: Database, main: Branch) -> None:
    dev = main.clone("dev")
    dev.delete("orders", [1])
    dev.delete("orders", [2])
    main.delete("orders", [3])
    merged = db.merge("dev", "main")
    main.revert(merged)
    assert ids(main) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_reverting_the_creation_of_a_table_drops_it(main: Branch) -> None:
    made = main.create_table("t", {"id": "int"}, key="id")
    main.revert(made)
    assert main.tables() == ["orders"]
    main.cherry_pick(made)
    assert main.tables() == ["orders", "t"]


def test_cherry_pick_takes_one_snapshot(db: Database, main: Branch) -> None:
    dev = main.clone("dev")
    dev.delete("orders", [1])
    picked = dev.update("orders", {"id": [2], "city": ["Rome"]}, message="move")
    made = main.cherry_pick("dev")
    assert main.table("orders").get(1) is not None
    assert main.table("orders").get(2)["city"] == "Rome"
    assert made.message == "move"
    assert made.edge.sources == {"snapshot": picked.id}
    assert main.cherry_pick(picked) == made
    main.update("orders", {"id": [2], "city": ["Bari"]})
    with pytest.raises(livingdb.MergeConflict):
        main.cherry_pick(picked)


def test_dropping_branches_and_tags(db: Database, main: Branch) -> None:
    dev = main.clone("dev")
    lost = dev.delete("orders", [1])
    db.drop_branch("dev")
    assert db.branches() == ["main"]
    assert ids(db.at(lost.id)) == [0, *range(2, 10)]
    with pytest.raises(livingdb.NotFound):
        dev.head  # noqa: B018
    with pytest.raises(livingdb.NotFound):
        db.drop_branch("dev")
    with pytest.raises(livingdb.InvalidData, match="only"):
        db.drop_branch("main")
    db.tag("v1", "main")
    db.drop_tag("v1")
    with pytest.raises(livingdb.NotFound):
        db.drop_tag("v1")


def test_a_branch_that_is_dropped_and_made_again_is_another_one(main: Branch) -> None:
    dev = main.clone("dev")
    slow = dev.transaction()
    slow.delete("orders", [1])
    dev.delete("orders", [3])
    dev.database.drop_branch("dev")
    main.clone("dev")
    with pytest.raises(livingdb.TransactionConflict, match="dropped"):
        slow.commit()


def test_only_heads_take_writes(db: Database, main: Branch) -> None:
    dev = main.clone("dev")
    dev.delete("orders", [1])
    with pytest.raises(livingdb.RuleViolation, match="rule 1"):
        db.merge("dev", into="main~1")


def test_thousands_of_tables_keep_snapshots_small(db: Database) -> None:
    main = db.branch("main")
    with main.transaction() as tx:
        for number in range(300):
            tx.create_table(f"t{number}", {"id": "int"}, key="id")
    for number in range(40):
        main.upsert(f"t{number}", {"id": [1]})
    assert len(main.tables()) == 300
    size = len(db._graph.store.get(db._graph.resolve("main").snapshot.address))
    assert size < 4_000
    assert db.check().ok
    again = livingdb.open(db.name)
    assert len(again.branch("main").tables()) == 300
    assert len(again.branch("main").table("t39")) == 1
    again.close()


# --- the log of a branch ----------------------------------------------------------------------


def test_a_clone_says_who_made_it_and_why(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("kept", {"id": "bigint"}, key="id")
    dev = main.clone("dev", author="eva", message='for "trials"\n{}')
    old = db.at("main~1").clone("old", message="before")
    plain = main.clone("plain")
    (move,) = dev.movements()
    assert (move.position, move.operation, move.snapshot) == (0, "clone", main.head)
    assert (move.author, move.message) == ("eva", 'for "trials"\n{}')
    assert (old.movements()[0].author, old.movements()[0].message) == (db.author, "before")
    assert (plain.movements()[0].author, plain.movements()[0].message) == (db.author, "")
    made = dev.insert("kept", [{"id": 1}], author="bo", message="one")
    dev.reset("main")
    found = [(m.operation, m.author, m.message) for m in dev.movements()]
    assert found == [
        ("reset", "", ""),
        ("insert", "bo", "one"),
        ("clone", "eva", 'for "trials"\n{}'),
    ]
    assert [m.snapshot for m in dev.movements(2)] == [main.head, made]
    edges = main.sql("SELECT branch, author, message FROM livingdb.edges WHERE kind = 'clone'")
    assert {row["branch"]: (row["author"], row["message"]) for row in edges} == {
        "dev": ("eva", 'for "trials"\n{}'),
        "old": (db.author, "before"),
        "plain": (db.author, ""),
    }
    rows = main.sql("SELECT * FROM livingdb.movements WHERE branch = 'dev' ORDER BY position")
    assert [row["operation"] for row in rows] == ["clone", "insert", "reset"]
    provenance = db.provenance("dev")
    assert (provenance.root.author, provenance.root.message) == (
        "eva",
        'dev came from main: for "trials"\n{}',
    )
    with livingdb.open(db.name) as again:
        assert again.branch("dev").movements()[-1].message == 'for "trials"\n{}'
