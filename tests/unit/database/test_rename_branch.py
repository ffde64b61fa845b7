"""Another name for a branch: what follows, reads, guards or was made from it goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import livingdb
from livingdb import Branch, Database, alert, condition
from livingdb.evolution import AddColumn, MaskColumn, RenameColumn, RenameTable

TOTALS = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as made:
        main = made.branch("main")
        main.create_table("customers", {"id": "bigint", "name": "string"}, key="id")
        main.create_table(
            "orders", {"id": "bigint", "city": "string", "amount": "bigint"}, key="id"
        )
        main.insert("customers", [{"id": n, "name": f"c{n}"} for n in range(3)])
        main.insert("orders", [{"id": n, "city": "Oslo", "amount": n} for n in range(3)])
        yield made


def rows(branch: Branch, table: str = "orders") -> list[dict[str, object]]:
    return branch.table(table).to_arrow().to_pylist()


# --- the branch itself ---------------------------------------------------------------------------


def test_a_renamed_branch_is_the_same_branch(db: Database) -> None:
    dev = db.branch("main").clone("dev")
    dev.insert("orders", [{"id": 9, "city": "Bodø", "amount": 9}])
    before = datetime.now(UTC).isoformat()
    head, log, held = dev.head, dev.log(), rows(dev)
    identity = db._graph.branch("dev").id

    renamed = db.rename_branch("dev", "trial")

    assert renamed == "trial"
    assert db.branches() == ["main", "trial"]
    assert (renamed.head, renamed.log(), rows(renamed)) == (head, log, held)
    assert db._graph.branch("trial").id == identity
    assert db.at("trial~1") == db.at("main")
    assert db.at(f"trial@{before}") == head
    renamed.insert("orders", [{"id": 10, "city": "Bodø", "amount": 1}])
    assert db.at(f"trial@{before}") == head, "its log goes on"
    assert db.branch("main").sql("SELECT count(*) AS n FROM trial.orders").to_arrow()[
        "n"
    ].to_pylist() == [5]
    assert db.check().problems == []


def test_the_old_name_is_free_and_says_what_became_of_it(db: Database) -> None:
    dev = db.branch("main").clone("dev")
    db.rename_branch("dev", "trial")
    for ask in (
        lambda: db.branch("dev"),
        lambda: dev.head,
        lambda: db.at("dev~1"),
        lambda: db.at("dev@2026-01-01"),
        lambda: dev.insert("orders", []),
        lambda: db.rename_branch("dev", "other"),
        lambda: db.merge("dev", into="main"),
    ):
        with pytest.raises(livingdb.NotFound, match="called 'trial' now"):
            ask()
    db.rename_branch("trial", "third")
    with pytest.raises(livingdb.NotFound, match="called 'third' now"):
        db.branch("dev")
    again = db.branch("main").clone("dev")
    assert db._graph.branch("dev").id != db._graph.branch("third").id
    assert again.head == db.branch("main").head
    db.drop_branch("third")
    with pytest.raises(livingdb.NotFound, match="there are dev, main"):
        db.branch("trial")


def test_names_that_are_taken_or_none_are_refused_and_nothing_changes(db: Database) -> None:
    main = db.branch("main")
    for name in ("dev", "Straße"):
        main.clone(name)
    db.tag("v1", "main")
    epoch = db._graph.catalog.meta("epoch")
    refused = {
        "main": livingdb.AlreadyExists,
        "Main": livingdb.InvalidName,
        "STRASSE": livingdb.InvalidName,
        "v1": livingdb.AlreadyExists,
        "V1": livingdb.InvalidName,
        "dev": livingdb.AlreadyExists,
        "~hidden": livingdb.InvalidName,
        "a b": livingdb.InvalidName,
        "": livingdb.InvalidName,
        "livingdb": livingdb.InvalidName,
    }
    for name, error in refused.items():
        with pytest.raises(error):
            db.rename_branch("dev", name)
    with pytest.raises(livingdb.NotFound):
        db.rename_branch("nobody", "somebody")
    with pytest.raises(livingdb.NotFound, match="no branch"):
        db.rename_branch("v1", "v2")
    assert db.branches() == ["Straße", "dev", "main"]
    assert db._graph.catalog.meta("epoch") == epoch
    assert db.rename_branch("dev", "Dev") == "Dev", "its own name in another case is free"


def test_hidden_branches_have_no_name_to_change(db: Database) -> None:
    changes = [AddColumn("orders", "a", "int"), RenameTable("orders", "sales")]
    db.branch("main").evolve(changes, keep="old", sync="both")
    hidden = next(row for row in db._graph.branches.all() if row.name.startswith("~"))
    with pytest.raises(livingdb.NotFound):
        db.rename_branch(hidden.name, "shown")
    with pytest.raises(livingdb.NotFound):
        db.set_default_branch(hidden.name)


def test_an_open_transaction_goes_on(db: Database) -> None:
    dev = db.branch("main").clone("dev")
    dev.derive("totals", TOTALS, when="immediate")
    before = datetime.now(UTC).isoformat()
    with dev.transaction() as tx:
        tx.insert("orders", [{"id": 20, "city": "Oslo", "amount": 5}])
        db.rename_branch("dev", "trial")
        db.branch("main").clone("dev")
        tx.sql("UPDATE orders SET amount = 6 WHERE id = 20")
        asked = f"SELECT count(*) AS n FROM orders TIMESTAMP AS OF '{before}'"
        assert tx.sql(asked).to_arrow()["n"].to_pylist() == [3]
    assert db.branch("trial").head == tx.snapshot
    assert db.branch("trial").table("orders").get(20)["amount"] == 6
    assert db.branch("dev").table("orders").get(20) is None
    assert db.branch("totals").table("totals").get("Oslo")["total"] == 9


def test_a_transaction_of_a_branch_that_is_dropped_does_not_go_to_its_namesake(
    db: Database,
) -> None:
    dev = db.branch("main").clone("dev")
    with pytest.raises(livingdb.TransactionConflict, match="dropped"), dev.transaction() as tx:
        tx.insert("orders", [{"id": 20, "city": "Oslo", "amount": 5}])
        db.drop_branch("dev")
        db.branch("main").clone("dev")
    assert len(rows(db.branch("dev"))) == 3


def test_others_who_have_the_database_open_notice(db: Database, tmp_path: Path) -> None:
    main = db.branch("main")
    main.derive("totals", TOTALS, when="immediate")
    with livingdb.open(tmp_path / "shop.ldb", engine="embedded") as other:
        theirs = other.branch("main")
        theirs.upsert("orders", [{"id": 1, "city": "Oslo", "amount": 100}])
        with theirs.transaction() as tx:
            tx.upsert("orders", [{"id": 2, "city": "Oslo", "amount": 200}])
            db.rename_branch("main", "trunk")
        assert other.at("trunk") == tx.snapshot
        assert other.sync("totals").name == "trunk/totals"
        assert other.at("totals").sources == {"trunk": tx.snapshot.id}
        assert other.branch("totals").table("totals").get("Oslo")["total"] == 300
        with pytest.raises(livingdb.NotFound, match="'trunk' now"):
            theirs.upsert("orders", [{"id": 3, "city": "Oslo", "amount": 1}])
        other.branch("trunk").upsert("orders", [{"id": 3, "city": "Oslo", "amount": 1}])
    assert db.branch("totals").table("totals").get("Oslo")["total"] == 301


# --- what follows it -----------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_views_go_on_and_know_all_their_versions(db: Database, when: str) -> None:
    main = db.branch("main")
    main.derive("totals", TOTALS, when=when)
    first = main.head
    main.upsert("orders", [{"id": 1, "city": "Oslo", "amount": 100}])
    db.propagate()
    second, made = main.head, db.at("totals")

    trunk = db.rename_branch("main", "trunk")

    sync = db.sync("totals")
    assert (sync.name, sync.sources, sync.state, int(sync.lag)) == (
        "trunk/totals",
        ["trunk"],
        "active",
        0,
    )
    assert db.sync("trunk/totals").target == "totals"
    assert made.sources == {"trunk": second.id}
    assert db.at("totals~1").sources == {"trunk": first.id}
    trunk.upsert("orders", [{"id": 2, "city": "Oslo", "amount": 200}])
    db.propagate()
    assert db.at("totals").sources == {"trunk": trunk.head.id}
    assert trunk.sql("SELECT total FROM totals").to_arrow()["total"].to_pylist() == [300]
    past = "SELECT total FROM totals VERSION AS OF 'trunk~1'"
    assert trunk.sql(past).to_arrow()["total"].to_pylist() == [102]
    assert db.derived_at("totals", source=first) == db.at("totals~2")
    lineage = db.lineage("totals", key="Oslo")
    assert set(lineage.branches.values()) == {"trunk"}
    assert db.column_lineage("totals").places["total"][0][0] == "trunk"
    assert db.provenance("totals").to_dict()["sync"] == "trunk/totals"
    assert db.provenance("totals~1").to_dict()["sync"] == "trunk/totals"
    assert [child["role"] for child in db.provenance("totals~1").to_dict()["children"]] == [
        "from trunk"
    ]
    blame = db.blame("totals", "totals").to_pylist()
    assert [row["snapshot"] for row in blame] == [trunk.head.id]
    assert db.check().problems == []


def test_two_way_syncs_go_on_at_both_ends(db: Database) -> None:
    main = db.branch("main")
    changes = [RenameColumn("orders", "amount", "net"), AddColumn("orders", "vat", "bigint")]
    main.evolve(changes, keep="old", sync="both")
    db.branch("old").upsert("orders", [{"id": 1, "city": "Oslo", "amount": 100}])
    carried = main.head
    assert db.sync("main").name == "old/main"

    older, trunk = db.rename_branch("old", "older"), db.rename_branch("main", "trunk")

    assert [sync.name for sync in db.syncs()] == ["older/trunk"]
    older.upsert("orders", [{"id": 2, "city": "Oslo", "amount": 200}])
    assert trunk.table("orders").get(2)["net"] == 200
    trunk.upsert("orders", [{"id": 3, "city": "Oslo", "net": 300, "vat": 1}])
    assert older.table("orders").get(3)["amount"] == 300
    assert carried.edge.details["sync"] == "old/main", "what is written stays"
    assert db.provenance(carried).to_dict()["sync"] == "older/trunk"
    db.sync("older/trunk").detach()
    older.upsert("orders", [{"id": 4, "city": "Oslo", "amount": 4}])
    db.rename_branch("older", "oldest")
    db.sync("oldest/trunk").reattach()
    assert trunk.table("orders").get(4)["net"] == 4
    assert db.at("trunk").sources == {"oldest": db.branch("oldest").head.id}
    db.rename_branch("oldest", "old")
    assert db.at("trunk").sources == {"old": db.branch("old").head.id}
    assert db.check().problems == []


def test_masked_clones_go_on_under_another_name(db: Database) -> None:
    mask = MaskColumn("customers", "name", method="null")
    for when in ("immediate", "deferred"):
        db.branch("main").clone(when, transform=[mask], sync="forward", when=when)
        db.rename_branch(when, f"masked_{when}")
    db.rename_branch("main", "trunk").insert("customers", [{"id": 7, "name": "seven"}])
    done = db.propagate()
    assert [run.name for run in done] == ["masked_deferred"]
    for name in ("masked_immediate", "masked_deferred"):
        assert db.branch(name).table("customers").get(7) == {"id": 7, "name": None}
        assert db.sync(name).name == f"trunk/{name}"
        with pytest.raises(livingdb.ReadOnlyBranch, match=f"trunk/{name}"):
            db.branch(name).delete("customers", [7])
    assert db.check().problems == []


def test_a_derived_object_keeps_the_name_of_its_table(db: Database) -> None:
    main = db.branch("main")
    main.derive("totals", TOTALS, when="immediate")
    main.derive("cities", "SELECT id, city FROM orders", sync="both")
    for name in ("totals", "cities"):
        with pytest.raises(livingdb.RuleViolation, match="derived object"):
            db.rename_branch(name, "other")
    db.sync("totals").detach()
    with pytest.raises(livingdb.RuleViolation, match="derived object"):
        db.rename_branch("totals", "other")


def test_held_syncs_watches_alerts_and_conditions_follow(db: Database) -> None:
    main = db.branch("main")
    main.clone("people.of.ours")
    known = condition.no_orphans("id", references="people.of.ours.customers.id", action="hold")
    main.derive("copies", "SELECT id, city FROM orders", when="immediate", conditions=[known])
    db.watch("late", alert.on_lag("main/copies", "1 hour"))
    db.watch("late too", alert.on_lag("copies", "1 hour"))
    db.watch("schema", alert.on_schema_change(branch="main"))
    db.watch("merges", alert.on_merge("people.of.ours"))
    main.insert("orders", [{"id": 50, "city": "Oslo", "amount": 1}])
    assert db.sync("copies").state == "held"
    (raised,) = db.alerts(state="open")
    before = raised.fingerprint

    db.rename_branch("main", "trunk")
    db.rename_branch("people.of.ours", "people")

    (guard,) = db.sync("copies").conditions
    assert guard.references == "people.customers.id"
    assert "people.customers.id" in guard.text
    assert {watch.name: str(watch.what) for watch in db.watches()} == {
        "late": str(alert.on_lag("trunk/copies", "1 hour")),
        "late too": str(alert.on_lag("copies", "1 hour")),
        "schema": str(alert.on_schema_change(branch="trunk")),
        "merges": str(alert.on_merge("people")),
    }
    (raised,) = db.alerts(sync="trunk/copies")
    assert raised.fingerprint != before
    assert db.check_watches() == [], "no watch has lost what it looks at"
    assert db.sync("copies").trail[0]["state"] == "held"
    db.branch("people").insert("customers", [{"id": 50, "name": "fifty"}])
    db.sync("copies").resume()
    assert db.branch("copies").table("copies").get(50) == {"id": 50, "city": "Oslo"}
    assert db.alerts(state="open") == []
    db.branch("trunk").evolve(AddColumn("orders", "note", "string"))
    assert [one.event for one in db.alerts(state="open")] == ["schema_change"]


def test_an_alert_that_comes_again_after_a_rename_repeats_the_first(db: Database) -> None:
    main = db.branch("main")
    few = condition.parse("rows <= 3", "warn")[0]
    main.derive("copies", "SELECT id, city FROM orders", when="immediate", conditions=[few])
    main.insert("orders", [{"id": 50, "city": "Oslo", "amount": 1}])
    trunk = db.rename_branch("main", "trunk")
    trunk.insert("orders", [{"id": 51, "city": "Oslo", "amount": 1}])
    second, first = db.alerts(sync="trunk/copies")
    assert second.details["repeats"] == first.id


def test_pictures_show_the_names_of_now(db: Database) -> None:
    main = db.branch("main")
    main.derive("totals", TOTALS, when="immediate")
    main.clone("dev").delete("orders", [1])
    db.rename_branch("dev", "trial")
    db.rename_branch("main", "trunk")
    for picture in (db.graph().to_text(), db.graph().to_mermaid(), db.graph().to_svg()):
        assert "trunk" in picture
        assert "trial" in picture
        assert "dev" not in picture.replace("device", "").replace("/dev/", "/")
    assert "trial came from trunk" in str(db.provenance("trial"))


# --- the default branch --------------------------------------------------------------------------


def test_the_default_branch_is_dropped_only_by_force(db: Database) -> None:
    main = db.branch("main")
    main.clone("dev")
    assert db.default_branch == "main"
    with pytest.raises(livingdb.RuleViolation, match="set_default_branch"):
        db.drop_branch("main")
    db.rename_branch("main", "trunk")
    assert db.default_branch == "trunk"
    with pytest.raises(livingdb.RuleViolation, match="'trunk' is the default branch"):
        db.drop_branch("trunk", detach=True)
    db.set_default_branch("dev")
    assert db.default_branch == "dev"
    db.drop_branch("trunk")
    with pytest.raises(livingdb.InvalidData, match="only branch"):
        db.drop_branch("dev", force=True)
    db.branch("dev").clone("main")
    db.drop_branch("dev", force=True)
    with pytest.raises(livingdb.NotFound, match="set_default_branch"):
        _ = db.default_branch
    with pytest.raises(livingdb.NotFound):
        db.set_default_branch("dev")
    db.set_default_branch("main")
    assert db.default_branch == "main"


def test_a_derived_object_that_is_the_default_branch_is_not_dropped_in_passing(
    db: Database,
) -> None:
    main = db.branch("main")
    main.derive("totals", TOTALS, when="immediate")
    db.set_default_branch("totals")
    with pytest.raises(livingdb.RuleViolation, match="default branch"):
        main.sql("DROP VIEW totals")
    main.derive("totals", TOTALS, when="deferred", replace=True)
    assert db.default_branch == "totals"
    db.set_default_branch("main")
    main.sql("DROP VIEW totals")
    assert db.branches() == ["main"]


def test_a_sync_that_somebody_holds_is_shown_by_the_names_of_now(db: Database) -> None:
    db.branch("main").derive("totals", TOTALS, when="immediate")
    sync = db.sync("totals")
    db.rename_branch("main", "trunk")
    sync.detach()
    assert sync.name == "trunk/totals"


def test_the_default_branch_is_where_rows_are_looked_for(db: Database) -> None:
    db.rename_branch("main", "trunk")
    assert [place.name for place in db.whereabouts("orders", 1)] == ["trunk"]


# --- identities ----------------------------------------------------------------------------------


def identities(db: Database) -> dict[str, object]:
    graph = db._graph
    return {
        "database": db.id,
        "branches": {row.number: row.id for row in graph.branches.all()},
        "syncs": {row.number: row.id for row in graph.catalog.syncs.all()},
    }


def test_ids_are_unique_and_stay(db: Database, tmp_path: Path) -> None:
    main = db.branch("main")
    main.derive("totals", TOTALS, when="immediate")
    main.evolve(AddColumn("orders", "note", "string"), keep="old", sync="both")
    before = identities(db)
    db.rename_branch("main", "trunk")
    assert identities(db) == before
    db.close()
    shutil.copytree(tmp_path / "shop.ldb", tmp_path / "copy.ldb")
    for name in ("shop.ldb", "copy.ldb"):
        with livingdb.open(tmp_path / name) as again:
            assert identities(again) == before, "a copy is the same database"
    with livingdb.create(tmp_path / "other.ldb") as other:
        theirs = identities(other)
    every = [before["database"], theirs["database"]]
    every += [id for of in (before, theirs) for id in of["branches"].values()]  # type: ignore[attr-defined]
    every += list(before["syncs"].values())  # type: ignore[attr-defined]
    assert len(set(every)) == len(every) == 2 + 4 + 2
