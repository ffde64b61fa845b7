"""Syncs run with the rights of who made them, and so are derived objects read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import livingdb
from livingdb.errors import Forbidden, NotFound
from livingdb.evolution import AddColumn


@pytest.fixture
def db(
    create_database: Callable[..., livingdb.Database], tmp_path: Path
) -> Iterator[livingdb.Database]:
    with create_database(tmp_path, author="holder", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("users", {"id": "bigint", "town": "string"}, key="id")
        main.insert("users", [{"id": 1, "town": "Oslo"}, {"id": 2, "town": "Rome"}])
        db.people.add("mia", role="maintainer", branches="views/*")
        db.people.grant("mia", role="reader", branches="main")
        db.people.add("ann", role="reader", branches="views/*")
        db.people.add("wim", role="writer", branches="main")
        yield db


QUERY = "SELECT town, count(*) AS n FROM users GROUP BY town"


def test_losing_a_right_holds_what_runs_with_it(db: livingdb.Database) -> None:
    with db.acting_as("mia"):
        db.branch("main").derive("views/now", sql=QUERY, when="immediate")
        db.branch("main").derive("views/later", sql=QUERY)
        db.branch("main").clone("views/copy", sync="forward")
    with db.acting_as("wim"):  # who has no right on any of them
        db.branch("main").insert("users", [{"id": 3, "town": "Rome"}])
        assert [branch.name for branch in db.branches()] == ["main"]
    assert len(db.branch("views/copy").table("users")) == 3
    db.people.withdraw("mia", role="reader", branches="main")
    with db.acting_as("wim"):
        db.branch("main").insert("users", [{"id": 4, "town": "Rome"}])
    db.propagate()
    assert len(db.branch("views/copy").table("users")) == 3
    states = {sync.target: (sync.state, sync.reason) for sync in db.syncs()}
    reason = "mia, who made it, has not the role reader on 'main' any more"
    assert states == dict.fromkeys(("views/copy", "views/later", "views/now"), ("held", reason))
    assert {alert.event for alert in db.alerts(state="open")} == {"held"}
    assert db.check(deep=True).problems == []
    # Whoever may let it go on makes it their own.
    db.sync("views/later").resume()
    db.sync("views/now").resume()
    db.sync("views/copy").resume()
    assert {sync.state for sync in db.syncs()} == {"active"}
    rows = db.branch("views/now").table("views/now").to_arrow().to_pylist()
    assert {row["town"]: row["n"] for row in rows} == {"Oslo": 1, "Rome": 3}
    with db.acting_as("wim"):
        db.branch("main").insert("users", [{"id": 5, "town": "Rome"}])
    assert len(db.branch("views/copy").table("users")) == 5


def test_a_two_way_sync_whose_owner_lost_a_right_is_detached(db: livingdb.Database) -> None:
    db.people.add("pia", role="maintainer", branches="*")
    with db.acting_as("pia"):
        db.branch("main").evolve(AddColumn("users", "age", "int"), to="v2", sync="both")
    db.people.grant("wim", role="writer", branches="v2")
    with db.acting_as("wim"):
        db.branch("v2").insert("users", [{"id": 3, "town": "Rome", "age": 1}])
    assert len(db.branch("main").table("users")) == 3
    db.people.withdraw("pia")
    with db.acting_as("wim"):
        db.branch("v2").insert("users", [{"id": 4, "town": "Rome", "age": 1}])
    assert len(db.branch("main").table("users")) == 3
    assert db.sync("v2").state == "detached"
    assert "pia" in db.sync("v2").reason
    db.sync("v2").reattach()
    assert len(db.branch("main").table("users")) == 4


def test_versions_of_a_view(db: livingdb.Database) -> None:
    db.branch("main").derive("views/towns", sql=QUERY)
    db.branch("main").insert("users", [{"id": 3, "town": "Rome"}])
    db.branch("main").insert("users", [{"id": 4, "town": "Bari"}])
    db.refresh("views/towns")
    with db.acting_as("mia"):
        then = db.derived_at("views/towns", "main~1").table("views/towns").to_arrow()
        assert sorted(then["n"].to_pylist()) == [1, 2]


def test_making_one_takes_the_rights(db: livingdb.Database) -> None:
    with db.acting_as("mia"), pytest.raises(Forbidden, match="on 'elsewhere'"):
        db.branch("main").derive("elsewhere", sql=QUERY)
    with db.acting_as("ann"), pytest.raises(NotFound):
        db.branch("main").derive("views/mine", sql=QUERY)
    db.branch("main").clone("views/base")
    with db.acting_as("ann"), pytest.raises(Forbidden):
        db.branch("views/base").derive("views/mine", sql=QUERY)
    db.people.grant("ann", role="maintainer", branches="views/*")
    with db.acting_as("ann"), pytest.raises(NotFound, match="main"):
        db.branch("views/base").derive("views/mine", sql="SELECT * FROM main.users")


def test_who_maintains_no_object_is_told_of_no_users(db: livingdb.Database) -> None:
    with db.acting_as("mia"):
        db.branch("main").derive("views/towns", sql=QUERY)
    db.people.grant("ann", role="reader", branches="main")
    with db.acting_as("ann"):
        for act in (db.people.grant_object, db.people.withdraw_object):
            for name in ("mia", "nobody"):
                with pytest.raises(Forbidden, match="maintainer"):
                    act(name, "views/towns")
    with db.acting_as("mia"), pytest.raises(NotFound, match="no user 'nobody'"):
        db.people.grant_object("nobody", "views/towns")


def test_a_view_whose_source_was_dropped_takes_the_right_to_it(db: livingdb.Database) -> None:
    db.branch("main").clone("hidden").derive("views/towns", sql=QUERY)
    db.people.add("eve", role="reader", branches="views/*")
    db.people.add("tom", role="reader", branches="views/*")
    db.people.grant("tom", role="reader", branches="hid*")
    db.drop_branch("hidden", detach=True)
    with db.acting_as("eve"), pytest.raises(NotFound):
        db.branch("views/towns")
    with db.acting_as("tom"):
        assert len(db.branch("views/towns").table("views/towns")) == 2


@pytest.mark.parametrize("materialize", ["full", "none", "lazy"])
def test_an_object_that_was_granted(db: livingdb.Database, materialize: str) -> None:
    with db.acting_as("mia"):
        db.branch("main").derive("views/towns", sql=QUERY, materialize=materialize)
    with db.acting_as("ann"):
        assert db.branches() == []
        with pytest.raises(NotFound):
            db.branch("views/towns")
        with pytest.raises(NotFound):
            db.people.grant_object("ann", "views/towns")
    with db.acting_as("mia"):
        db.people.grant_object("ann", "views/towns")
    with db.acting_as("ann"):
        towns = db.branch("views/towns")
        assert len(towns.sql("SELECT * FROM `views/towns`").to_arrow()) == 2
        assert len(towns.table("views/towns")) == 2
        assert [(one.object, one.by, one.is_valid) for one in db.people.objects("ann")] == [
            ("views/towns", "mia", True)
        ]
        with pytest.raises(Forbidden):
            db.people.objects("mia")
        assert "main" not in str(db.provenance("views/towns").to_dict())
        assert "main" not in str(towns.head.edge)
        with pytest.raises(NotFound):
            db.branch("main")
        with pytest.raises(NotFound):
            db.lineage("views/towns", "Oslo")
    # It counts as long as who granted it has it.
    db.people.withdraw("mia", role="reader")
    with db.acting_as("ann"):
        assert db.people.objects("ann") == []
        with pytest.raises(NotFound):
            db.branch("views/towns")
    assert [(one.by, one.is_valid) for one in db.people.objects("ann")] == [("mia", False)]
    db.people.grant_object("ann", "views/towns")
    with db.acting_as("ann"):
        db.branch("views/towns")
    db.people.withdraw_object("ann", "views/towns")
    with db.acting_as("ann"), pytest.raises(NotFound):
        db.branch("views/towns")
