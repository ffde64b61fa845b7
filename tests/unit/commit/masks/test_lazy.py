"""materialize="lazy": rows are masked and stored when somebody who has the key first reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.commit.masks.shop import (
    KEY,
    NAME,
    SOURCE,
    VARIABLE,
    everything,
    forget_keys,
    is_stored,
    lags,
    rows,
)

import livingdb
from livingdb import condition
from livingdb.errors import IllegalSync, InvalidData, MaskKeyMissing
from livingdb.evolution import AddColumn, DropColumn, MaskColumn, RenameColumn

WHEN = pytest.mark.parametrize("when", ["immediate", "deferred"])


@WHEN
def test_the_first_reader_stores_them(
    db: livingdb.Database,
    main: livingdb.Branch,
    path: Path,
    when: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clone = main.clone("clone", transform=NAME, sync="forward", when=when, materialize="lazy")
    assert not is_stored(clone)
    forget_keys(monkeypatch)
    with pytest.raises(MaskKeyMissing, match=SOURCE):
        rows(clone)
    assert len(rows(clone, "orders")) == 20
    main.insert("customers", [{"id": 20, "name": "raw 1"}])
    db.propagate()
    assert lags(db) == {"main/clone": 0}
    with pytest.raises(MaskKeyMissing, match=SOURCE):
        clone.table("customers").get(20)
    monkeypatch.setenv(VARIABLE, KEY)
    shown = rows(clone)
    assert len(shown) == 11
    main.delete("orders", [1])  # who reads writes down what was made with its next commit
    db.propagate()
    forget_keys(monkeypatch)
    assert rows(clone) == shown
    with livingdb.open(path, engine="embedded") as other:
        assert rows(other.branch("clone")) == shown
        with pytest.raises(MaskKeyMissing):
            other.at("clone~2").table("customers").to_arrow()
        report = other.check(deep=True)
        assert report.problems == []
        assert len(report.not_checked) == 1


@WHEN
def test_it_is_what_another_clone_is(
    db: livingdb.Database, main: livingdb.Branch, when: str
) -> None:
    changes = [
        RenameColumn("customers", "name", "who"),
        MaskColumn("customers", "who", key=SOURCE),
        MaskColumn("customers", "id", key=SOURCE),
        DropColumn("orders", "note"),
    ]
    lazy = main.clone("lazy", transform=changes, sync="forward", when=when, materialize="lazy")
    full = main.clone("full", transform=changes, sync="forward", when=when)
    for step in range(3):
        if step == 1:
            main.insert("customers", [{"id": 20, "name": "raw 1"}])
            main.delete("orders", [3, 13])
        if step == 2:
            main.evolve(AddColumn("customers", "age", "int", default=3))
        db.propagate()
        assert everything(lazy) == everything(full)
    assert db.check(deep=True).problems == []


def test_a_view_over_it_waits(
    db: livingdb.Database, main: livingdb.Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = main.clone("clone", transform=NAME, sync="forward", materialize="lazy")
    query = "SELECT name, count(*) AS n FROM customers GROUP BY name"
    with pytest.raises(IllegalSync, match="may not be masked yet"):
        clone.derive("counts", query, when="immediate")
    clone.derive("counts", query, when="deferred")
    forget_keys(monkeypatch)
    main.insert("customers", [{"id": 20, "name": "raw 9"}])
    (run,) = db.propagate()
    assert SOURCE in run.error
    assert db.sync("counts").state == "active"
    assert db.sync("counts").lag == 1
    monkeypatch.setenv(VARIABLE, KEY)
    db.propagate()
    assert len(db.branch("counts").table("counts")) == 4


def test_what_does_not_go_together(main: livingdb.Branch) -> None:
    with pytest.raises(InvalidData, match="materialize"):
        main.clone("clone", transform=NAME, sync="forward", materialize="none")
    with pytest.raises(InvalidData, match="masks"):
        main.clone("clone", materialize="lazy")
    with pytest.raises(IllegalSync, match="lazy"):
        main.clone(
            "clone",
            transform=NAME,
            sync="forward",
            materialize="lazy",
            conditions=[condition.max_changed_share(0.5)],
        )
