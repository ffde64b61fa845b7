"""A shop in which every command finds something to tell."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest
from tests.clock import stopped
from tests.ids import counted

import livingdb
from livingdb.evolution import DropColumn

SCHEMA = {"id": "bigint", "city": "string", "amount": "double", "day": "date", "note": "string"}
TOTALS = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"


def make_shop(path: Path) -> None:
    """Two tables, two branches in conflict, a tag, and views: due, in step, and detached."""
    with livingdb.create(path, author="eva") as db:
        main = db.branch("main")
        main.create_table("orders", SCHEMA, "id", message="orders")
        main.create_table(
            "visits", {"city": "string", "day": "date", "count": "int"}, ["city", "day"]
        )
        orders = [
            {"id": 1, "city": "Oslo", "amount": 3.5, "day": date(2024, 1, 1), "note": "a\tb\nc"},
            {"id": 2, "city": "Bodø", "amount": 4.0, "day": date(2024, 1, 2), "note": ""},
            {"id": 3, "city": None, "amount": None, "day": None, "note": None},
            {"id": 4, "city": "Oslo", "amount": 1.25, "day": date(2024, 1, 4), "note": 'x,"y"'},
        ]
        main.insert("orders", orders, message="first orders")
        main.insert("visits", [{"city": "Oslo", "day": date(2024, 1, 1), "count": 7}])
        db.tag("v1", "main")
        dev = main.clone("dev")
        dev.upsert("orders", [{"id": 1, "city": "Rome", "amount": 3.5}], message="moved")
        dev.delete("orders", [2], message="gone")
        main.update("orders", [{"id": 1, "amount": 9.0}], message="dearer")
        main.derive("totals", sql=TOTALS, engine="embedded", author="eva")
        main.derive("large", sql="SELECT id, amount FROM orders WHERE amount > 2", when="immediate")
        main.derive("notes", sql="SELECT id, note FROM orders", when="immediate")
        main.evolve(DropColumn("orders", "note"), message="no more notes")
        main.insert("orders", [{"id": 5, "city": "Oslo", "amount": 2.0}], message="late")


@pytest.fixture(scope="session")
def shop_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "shop.ldb"
    with stopped(), counted():
        make_shop(path)
    return path


@pytest.fixture
def shop(shop_made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shop of one's own, in a folder that is the current one."""
    for name in ("LIVINGDB", "COLUMNS", "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LIVINGDB_AUTHOR", "eva")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "shop.ldb"
    shutil.copytree(shop_made, path)
    return path
