"""A writer without the key does not fail and detaches nothing: the sync waits for the key."""

from __future__ import annotations

import pytest
from tests.unit.commit.masks.shop import (
    KEY,
    NAME,
    SOURCE,
    VARIABLE,
    everything,
    forget_keys,
    lags,
    names,
    plant_row,
    rows,
)

import livingdb
from livingdb.cli.commands.syncs import sync_row
from livingdb.errors import MaskKeyMissing, RuleViolation
from livingdb.evolution import AddColumn, MaskColumn, RenameColumn, RenameTable

WHEN = pytest.mark.parametrize("when", ["immediate", "deferred"])
HOW = pytest.mark.parametrize("how", ["propagate", "commit"])


def come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


@WHEN
def test_a_clone_falls_behind(
    db: livingdb.Database, main: livingdb.Branch, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = main.clone("clone", transform=NAME, sync="forward", when=when)
    before = everything(clone)
    forget_keys(monkeypatch)
    main.insert("customers", [{"id": 20, "name": "raw 1"}])
    main.insert("orders", [{"id": 20, "customer": 20}])
    sync = db.sync("clone")
    assert (sync.state, sync.lag) == ("active", 2)
    assert sync.lag.sources == {"main": 2}
    assert SOURCE in sync.lag.reason
    assert sync_row(sync)["reason"] == sync.lag.reason
    (run,) = db.propagate()
    assert (run.name, run.snapshot) == ("clone", None)
    assert SOURCE in run.error
    with pytest.raises(MaskKeyMissing, match=SOURCE):
        db.refresh("clone")
    assert everything(clone) == before
    assert db.alerts() == []
    report = db.check(deep=True)
    assert report.problems == []
    assert [one.sync for one in report.not_checked] == ["main/clone"]
    come_back(monkeypatch)
    assert db.sync("clone").lag.reason == ""
    assert [run.name for run in db.propagate()] == ["clone"]
    assert lags(db) == {"main/clone": 0}
    assert clone.table("customers").get(20)["name"] == clone.table("customers").get(1)["name"]
    assert clone.table("orders").get(20) is not None
    assert db.check(deep=True).problems == []


@WHEN
def test_what_no_mask_concerns_is_carried(
    db: livingdb.Database, main: livingdb.Branch, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = main.clone("clone", transform=NAME, sync="forward", when=when)
    forget_keys(monkeypatch)
    main.insert("orders", [{"id": 20, "customer": 2}])
    main.create_table("extras", {"id": "bigint"}, key="id")
    main.insert("extras", [{"id": 1}])
    main.evolve(AddColumn("orders", "vat", "double", default=0.5))
    db.propagate()
    assert lags(db) == {"main/clone": 0}
    assert clone.table("orders").get(20)["vat"] == 0.5
    assert len(clone.table("extras")) == 1


@HOW
def test_schema_changes_while_it_waits(
    db: livingdb.Database, main: livingdb.Branch, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clones = [
        main.clone(f"clone_{when}", transform=NAME, sync="forward", when=when)
        for when in ("immediate", "deferred")
    ]
    forget_keys(monkeypatch)
    main.insert("customers", [{"id": 20, "name": "raw 1"}])
    main.evolve(RenameColumn("customers", "name", "who"))
    main.evolve([RenameTable("customers", "people"), AddColumn("people", "age", "int", default=7)])
    main.update("people", [{"id": 3, "who": "raw 7"}])
    main.create_table("extras", {"id": "bigint"}, key="id")
    come_back(monkeypatch)
    if how == "commit":
        main.insert("extras", [{"id": 1}])
        assert db.sync("clone_immediate").lag == 0
    db.propagate()
    assert set(lags(db).values()) == {0}
    anew = main.clone("anew", transform=MaskColumn("people", "who", key=SOURCE))
    for clone in clones:
        assert everything(clone) == everything(anew)
    assert db.check(deep=True).problems == []


@HOW
def test_what_stands_behind_waits(
    db: livingdb.Database, main: livingdb.Branch, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = main.clone("clone", transform=NAME, sync="forward")
    clone.derive(
        "counts", "SELECT name, count(*) AS n FROM customers GROUP BY name", when="immediate"
    )
    lens = clone.clone("lens", transform=RenameColumn("customers", "city", "town"), sync="forward")
    again = clone.clone(
        "again", transform=MaskColumn("customers", "name", key="another key"), sync="forward"
    )
    forget_keys(monkeypatch)
    main.insert("customers", [{"id": 20, "name": "raw 9"}])
    behind = lags(db)
    assert behind.pop("main/clone") == 1
    assert set(behind.values()) == {0}
    come_back(monkeypatch)
    if how == "commit":
        main.insert("customers", [{"id": 21, "name": "raw 9"}])
    else:
        db.propagate()
    known = clone.table("customers").get(20)["name"]
    assert db.branch("counts").table("counts").get(known)["n"] == (2 if how == "commit" else 1)
    assert lens.table("customers").get(20)["name"] == known
    assert again.table("customers").get(20) is None
    assert db.sync("again").lag == 1
    MaskColumn("customers", "name", key="another key")
    db.propagate()
    assert again.table("customers").get(20) is not None
    assert set(lags(db).values()) == {0}
    assert db.check(deep=True).problems == []


@HOW
@pytest.mark.parametrize("is_chain", [False, True])
def test_a_two_way_sync_waits(
    db: livingdb.Database,
    main: livingdb.Branch,
    how: str,
    is_chain: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    more = [RenameColumn("customers", "city", "town")] if is_chain else []
    last = [AddColumn("customers", "level", "int", default=1)] if is_chain else []
    main.evolve([*more, NAME, *last], to="two", sync="both")
    two = db.branch("two")
    forget_keys(monkeypatch)
    two.update("customers", [{"id": 1, "town" if is_chain else "city": "Moss"}])
    assert main.table("customers").get(1)["city"] == "Moss"
    before = everything(two)
    main.insert("customers", [{"id": 20, "name": "raw 1"}])
    main.update("customers", [{"id": 2, "name": "raw 1"}])
    sync = db.sync("two")
    assert (sync.state, sync.lag) == ("active", 2)
    assert SOURCE in sync.lag.reason
    with pytest.raises(RuleViolation, match="waits for the key"):
        two.update("customers", [{"id": 5, "town" if is_chain else "city": "Voss"}])
    with pytest.raises(RuleViolation, match="waits for the key"):
        main.reset("main~1")
    with pytest.raises(RuleViolation, match="waits for the key"):
        db.refresh("two", full=True)
    (run,) = db.propagate()
    assert run.name == "two"
    assert SOURCE in run.error
    assert everything(two) == before
    come_back(monkeypatch)
    if how == "commit":
        main.insert("customers", [{"id": 21, "name": "raw 1"}])
    else:
        assert [run.name for run in db.propagate()] == ["two"]
    assert lags(db) == {"main/two": 0}
    assert len(names(two)) == 3
    assert len(rows(two)) == len(rows(main))
    two.delete("customers", [20])
    assert main.table("customers").get(20) is None
    assert db.check(deep=True).problems == []


@pytest.mark.parametrize("is_chain", [False, True])
def test_a_two_way_sync_that_waits_can_be_detached(
    db: livingdb.Database,
    main: livingdb.Branch,
    is_chain: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    more = [RenameColumn("orders", "note", "text"), RenameColumn("customers", "city", "town")]
    main.evolve([*more, NAME] if is_chain else NAME, to="two", sync="both")
    two, city = db.branch("two"), "town" if is_chain else "city"
    main.insert("customers", [{"id": 19, "name": "raw 1"}])
    forget_keys(monkeypatch)
    main.insert("customers", [{"id": 20, "name": "raw 1"}])
    db.sync("two").detach()
    two.insert("customers", [{"id": 30, city: "Voss"}])
    main.update("customers", [{"id": 3, "city": "Moss"}])
    with pytest.raises(MaskKeyMissing):
        db.sync("two").reattach()
    come_back(monkeypatch)
    db.sync("two").reattach()
    assert two.table("customers").get(20)["name"] == two.table("customers").get(1)["name"]
    assert two.table("customers").get(3)[city] == "Moss"
    assert main.table("customers").get(30) == {"id": 30, "name": None, "city": "Voss"}
    assert lags(db) == {"main/two": 0}
    assert db.check(deep=True).problems == []


def test_a_planted_row_is_found(
    db: livingdb.Database, main: livingdb.Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deep check needs the key, and says so."""
    main.clone("clone", transform=NAME, sync="forward")
    plant_row(db.branch("clone"), {"id": 1, "name": "stale", "city": "Oslo"})
    (problem,) = db.check(deep=True).problems
    assert "customers" in str(problem)
    forget_keys(monkeypatch)
    report = db.check(deep=True)
    assert report.problems == []
    (skipped,) = report.not_checked
    assert SOURCE in skipped.why
    come_back(monkeypatch)
    db.refresh("clone", full=True)
    assert db.check(deep=True).problems == []
