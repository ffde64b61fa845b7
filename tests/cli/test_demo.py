"""The demonstration: its figures hold together, and it leaves nothing behind."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console
from tests.cli.telling import tell as told_by
from tests.cli.test_cli import livingdb_process

import livingdb
from livingdb.cli.commands.demo import show
from livingdb.cli.shop import CITIES, Shop
from livingdb.cli.story import Chapter, Code, Listing, tell
from livingdb.cli.story.returns import chance_of_return, train

ROWS = 16_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def chapters(home: Path) -> list[Chapter]:
    return list(tell(home, ROWS, lambda _: nullcontext(), home / "graph.html"))


@pytest.fixture(scope="module")
def facts(chapters: list[Chapter]) -> dict[int, dict[str, Any]]:
    return {chapter.number: dict(chapter.facts) for chapter in chapters}


@pytest.fixture
def left(home: Path, chapters: list[Chapter]) -> Iterator[livingdb.Database]:
    """The database that the story left behind."""
    with livingdb.open(home / "shop.ldb") as database:
        yield database


# --- the story ------------------------------------------------------------------------------


def test_the_shop_moves_in(facts: dict[int, dict[str, Any]], left: livingdb.Database) -> None:
    first = facts[1]
    assert (first["orders"], first["customers"]) == (ROWS, ROWS // 10)
    assert first["stored_bytes"] < first["text_bytes"]
    opening = left.at("opening")
    assert opening.table("customers").get(3) == {
        "id": 3,
        "name": "Ida Aas",
        "city": "Hamar",
        "email": "ida.aas.3@example.com",
    }
    cities = opening.sql("SELECT DISTINCT city FROM customers ORDER BY city").to_arrow()
    assert cities.column("city").to_pylist() == list(CITIES)
    statuses = opening.sql("SELECT DISTINCT status FROM orders ORDER BY 1").to_arrow()
    assert statuses.column(0).to_pylist() == ["delivered", "returned"]


def test_both_applications_see_what_the_other_writes(facts: dict[int, dict[str, Any]]) -> None:
    assert facts[2]["seen"] == [
        {"write": "INSERT on main_v1", "main_v1": "Kari Nordmann", "main": "Kari | Nordmann"},
        {"write": "UPDATE on main", "main_v1": "Kari Vik", "main": "Kari | Vik"},
    ]


def test_what_is_derived_follows(facts: dict[int, dict[str, Any]], left: livingdb.Database) -> None:
    third = facts[3]
    assert third["revenue_after"] > third["revenue_before"]
    assert third["lags"] == {"revenue": 0, "report": 1, "returns": 1}
    runs = {run["name"]: run for run in third["runs"]}
    assert runs["returns"]["strategy"] == "full"
    assert (runs["report"]["strategy"], runs["report"]["engine"]) == ("touched", "spark")
    assert runs["report"]["rows"] == 1, "one city, one month"
    old, new = third["model_versions"]
    assert new["orders"] == old["orders"] + 200
    assert min(old["auc"], new["auc"]) > 0.7
    assert old["source"] != new["source"]
    assert left.sync("report").when == "every 1 hour"


def test_the_analyst_sees_no_address(
    facts: dict[int, dict[str, Any]], left: livingdb.Database
) -> None:
    fourth = facts[4]
    assert [row["given"] for row in fourth["analyst"]] == ["Anna", "Kari", "Per"]
    for clear, hidden in zip(fourth["main"], fourth["analyst"], strict=True):
        assert "@" in clear["email"]
        assert "@" not in hidden["email"]
    assert "analyst" in fourth["refused"]
    emails = left.branch("analyst").table("customers").to_arrow(["email"]).column("email")
    assert not any("@" in email for email in emails.to_pylist())


def test_the_merge_stops_and_then_goes_through(
    facts: dict[int, dict[str, Any]], left: livingdb.Database
) -> None:
    fifth = facts[5]
    assert len(fifth["conflicts"]) == 3
    for row in fifth["conflicts"]:
        assert row["_ours"] == row["_base"] + 1
        assert abs(row["_theirs"] - row["_base"] * Decimal("0.9")) <= Decimal("0.005")
        found = left.branch("main").table("orders").get(int(row["id"]))
        assert found is not None
        assert found["price"] == row["_theirs"]


def test_the_mistake_never_reaches_the_dashboard(
    facts: dict[int, dict[str, Any]], left: livingdb.Database
) -> None:
    sixth = facts[6]
    assert sixth["changed"] == ROWS + 200
    assert (sixth["state"], sixth["state_after"]) == ("held", "active")
    known = {sixth[name] for name in ("revenue_before", "revenue_held", "revenue_after")}
    assert known == {facts[5]["revenue"]}
    assert sixth["alert"]["sync"] == "main/revenue"
    assert "0.2" in sixth["alert"]["message"]
    prices = left.branch("main").sql("SELECT min(price) AS least FROM orders").to_arrow()
    assert prices.column("least")[0].as_py() > 0
    for made in left.branch("revenue").log():
        if "revenue" in made.tables():
            assert made.table("revenue").get("Oslo")["revenue"] > 0  # type: ignore[index]


def test_the_number_is_traced_to_rows_and_commits(
    facts: dict[int, dict[str, Any]], left: livingdb.Database
) -> None:
    seventh = facts[7]
    assert seventh["recomputed"] == facts[6]["revenue_after"]
    assert sum(row["id_count"] for row in seventh["commits"]) == seventh["sources"]["orders"]
    assert {row["author"] for row in seventh["commits"]} == {"you", "eva"}
    query = (
        "SELECT count(*) AS n FROM orders o JOIN customers c ON o.customer = c.id "
        "WHERE c.city = 'Oslo'"
    )
    (row,) = left.branch("main").sql(query)
    assert seventh["sources"]["orders"] == row["n"]


def test_the_dashboard_is_there_as_it_was(facts: dict[int, dict[str, Any]]) -> None:
    now, before, first, opening = facts[8]["versions"]
    assert now["revenue"] == facts[6]["revenue_after"] < before["revenue"]
    assert first["revenue"] == opening["revenue"] == facts[3]["revenue_before"]
    assert len({row["source"] for row in (now, before, first, opening)}) == 4


def test_it_ends_sound_and_small(
    facts: dict[int, dict[str, Any]], home: Path, left: livingdb.Database
) -> None:
    last = facts[9]
    assert last["is_sound"]
    assert last["sharing"] > 2
    assert last["snapshots"] == len(left.snapshots())
    assert last["branches"] == [branch.name for branch in left.branches()]
    assert "<html" in (home / "graph.html").read_text(encoding="utf-8")
    assert {path.name for path in home.iterdir()} == {"shop.ldb", "graph.html"}


# --- how it is told -------------------------------------------------------------------------


def shown(chapters: list[Chapter], width: int, **how: Any) -> str:
    out = io.StringIO()
    show(chapters, Console(file=out, width=width, highlight=False, **how))
    return out.getvalue()


def test_what_it_shows_is_what_it_found(chapters: list[Chapter]) -> None:
    text = shown(chapters, 100)
    for chapter in chapters:
        assert f"{chapter.number}  {chapter.title}" in text
        for part in chapter.parts:
            if isinstance(part, Code):
                assert f">>> {part.text.splitlines()[0][:60]}" in text
            elif isinstance(part, Listing):
                assert all(column in text for column in part.columns)
    assert f"{chapters[5].facts['revenue_held']:,}" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("width", [40, 80, 100])
def test_it_stays_within_the_terminal(chapters: list[Chapter], width: int) -> None:
    lines = shown(chapters, width).splitlines()
    assert max(map(len, lines)) <= width
    assert len(shown(chapters, 100).splitlines()) < 150, "no wall of text"


def test_colours_are_for_terminals_that_want_them(
    chapters: list[Chapter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[36m" in shown(chapters, 100, force_terminal=True, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[36m" not in shown(chapters, 100, force_terminal=True, color_system="standard")


@pytest.mark.parametrize("form", ["json", "csv"])
def test_scripts_get_the_facts(
    form: str, chapters: list[Chapter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livingdb.cli.story.tell", lambda *_: iter(chapters))
    told = told_by("-o", form, "demo")
    assert (told.code, told.err) == (0, "")
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(told.out)))
        assert [int(row["chapter"]) for row in rows] == list(range(1, 10))
        return
    found = {row["chapter"]: row for row in json.loads(told.out)}
    assert found[9]["facts"]["is_sound"] is True
    assert Decimal(found[6]["facts"]["revenue_held"]) == chapters[5].facts["revenue_held"]
    assert found[5]["title"] == chapters[4].title


def test_an_error_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise livingdb.NotFound("there is no such thing")

    monkeypatch.setattr("livingdb.cli.story.tell", fail)
    told = told_by("demo")
    assert (told.code, told.err) == (3, "livingdb: there is no such thing\n")


def test_what_would_fail_in_the_end_fails_at_once(tmp_path: Path) -> None:
    for bad in (tmp_path / "none" / "graph.html", tmp_path):
        told = told_by("demo", "--graph", bad)
        assert told.code == 2
        assert "--graph" in told.err
    (tmp_path / "file").touch()
    assert told_by("demo", "--keep", tmp_path / "file").code == 2


def test_a_kept_database_is_not_overwritten(tmp_path: Path) -> None:
    livingdb.create(tmp_path / "shop.ldb").close()
    told = told_by("demo", "--rows", "2000", "--keep", tmp_path)
    assert told.code == 2
    assert "shop.ldb" in told.err
    assert [path.name for path in tmp_path.iterdir()] == ["shop.ldb"]


def test_what_to_do_next_can_be_pasted(
    chapters: list[Chapter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livingdb.cli.story.tell", lambda *_: iter(chapters))
    kept = told_by("demo", "--keep", tmp_path / "a shop").out
    assert f"livingdb --db '{tmp_path}/a shop/shop.ldb' sql" in kept
    assert "--keep FOLDER" in told_by("demo").out


@pytest.mark.slow
def test_the_demo_runs_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    answer = livingdb_process("demo", "--rows", "4000")
    assert answer.returncode == 0
    assert answer.stderr == "", "progress is for terminals"
    assert "9  What is left" in answer.stdout
    assert "PROBLEMS" not in answer.stdout
    assert list(tmp_path.iterdir()) == []


# --- the shop and its model -----------------------------------------------------------------


def test_the_shop_is_the_same_every_time() -> None:
    one, two = Shop.of(4_000), Shop.of(4_000)
    assert one.customers() == two.customers()
    assert one.raw_orders() == two.raw_orders()
    sold = one.new_orders("Oslo", 0, 50)
    assert sold.column("id").to_pylist() == list(range(4_000, 4_050))
    assert {number % len(CITIES) for number in sold.column("customer").to_pylist()} == {
        CITIES.index("Oslo")
    }
    assert max(sold.column("customer").to_pylist()) < one.customer_count


def test_the_model_learns_what_is_returned() -> None:
    shop = Shop.of(10_000)
    orders = shop.orders(np.arange(10_000), np.zeros(10_000, np.int64))
    artefact, metrics = train({"orders": orders})
    assert metrics["orders"] == 10_000
    assert metrics["auc"] > 0.7
    cheap, dear = (chance_of_return(artefact, price, 2) for price in (50.0, 1500.0))
    assert 0 < cheap < 0.2 < dear < 1


def test_a_model_of_nothing_knows_nothing() -> None:
    shop = Shop.of(2_000)
    none = shop.orders(np.arange(0), np.zeros(0, np.int64))
    _, metrics = train({"orders": none})
    assert metrics == {"auc": 0.5, "orders": 0}
    same = shop.orders(np.arange(100), np.zeros(100, np.int64))
    kept = same.set_column(5, "status", pa.array(["delivered"] * 100))
    assert train({"orders": kept})[1]["auc"] == 0.5
