"""What guards a sync, from the command line: conditions, alerts, holding and going on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.telling import tell

import livingdb

VIEW = ["--sql", "SELECT id, city FROM orders", "--when", "immediate"]


def test_a_sync_is_held_and_goes_on(shop: Path) -> None:
    guard = ["--condition", "max_changed_share(0.5)", "--action", "hold", "--alert", "log"]
    assert tell("derive", "places", *VIEW, *guard, db=shop).code == 0
    told = tell("-o", "json", "sync", "places", db=shop)
    (condition,) = told.json["conditions"]
    assert condition["action"] == "hold"
    assert tell("sql", "UPDATE orders SET city = 'Rome'", db=shop).code == 0
    told = tell("-o", "json", "sync", "places", db=shop)
    assert told.json["state"] == "held"
    alerts = tell("-o", "json", "alerts", "--state", "open", db=shop).json
    assert "main/places" in {alert["sync"] for alert in alerts}
    assert tell("sync", "places", "resume", db=shop).code == 4
    told = tell("-o", "json", "sync", "places", "approve", "--by", "eva", db=shop)
    assert told.code == 0, told.err
    assert told.json["state"] == "active"
    assert "eva" in {step["by"] for step in told.json["trail"]}
    with livingdb.open(shop) as db:
        assert set(db.branch("places").table("places").to_arrow()["city"].to_pylist()) == {"Rome"}


def test_detach_and_reattach(shop: Path) -> None:
    assert tell("sync", "large", "detach", "--reason", "repairs", db=shop).code == 0
    assert tell("sql", "UPDATE orders SET amount = 70 WHERE id = 2", db=shop).code == 0
    told = tell("-o", "json", "sync", "large", db=shop)
    assert (told.json["state"], told.json["reason"]) == ("detached", "repairs")
    told = tell("-o", "json", "sync", "large", "reattach", db=shop)
    assert (told.code, told.json["state"]) == (0, "active"), told.err
    with livingdb.open(shop) as db:
        row = db.branch("large").table("large").get(2)
        assert row == {"id": 2, "amount": 70.0}


def test_views_move_to_what_is_kept(shop: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert tell("derive", "places", *VIEW, "--on-break", "move", db=shop).code == 0
    assert tell("derive", "others", *VIEW, db=shop).code == 0
    told = tell("sync", "others", "alter", "--on-break", "move", db=shop)
    assert told.code == 0, told.err
    drop = ["ALTER TABLE orders DROP COLUMN city", "--keep", "old", "--sync", "both"]
    assert tell("evolve", *drop, "--on-break", "stay", db=shop).code == 2
    assert tell("evolve", *drop, db=shop).code == 0
    for name in ("places", "others"):
        told = tell("-o", "json", "sync", name, db=shop)
        assert (told.json["name"], told.json["state"]) == (f"old/{name}", "active")
    assert tell("sql", "SELECT count(*) AS n FROM places", db=shop).code == 0
    assert any("'places' is made of 'old'" in message for message in caplog.messages)


def test_what_does_not_go_together(shop: Path) -> None:
    for words in (
        ["detach", "--note", "x"],
        ["resume", "--on-conflict", "ours"],
        ["approve", "--reason", "x"],
        ["show", "--by", "eva"],
        ["resume", "--on-break", "move"],
    ):
        assert tell("sync", "totals", *words, db=shop).code == 2


def test_what_is_made_once_says_so(shop: Path) -> None:
    made = ["--sql", "SELECT id FROM orders", "--sync", "none", "--engine", "embedded"]
    told = tell("derive", "places", *made, db=shop)
    assert told.code == 0, told.err
    assert told.out.rstrip().endswith(", made once")
