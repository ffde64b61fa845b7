"""The page that is served, as somebody uses it: a real server, a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.page.conftest import Browser
from tests.page.visitor import VIEWS, Visitor

import livingdb
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_can_be_used_by_everybody(visitor: Visitor, name: str) -> None:
    visitor.go(VIEWS[name])
    assert visitor.run("return document.querySelector('.problem') === null"), visitor.text()
    assert visitor.axe() == []
    assert visitor.browser.complaints() == []


def test_the_first_ten_minutes(visitor: Visitor, db: livingdb.Database) -> None:
    # The graph: a snapshot is found and told of.
    visitor.until(
        lambda: visitor.run("return window.snapshotGraph && snapshotGraph.nodes.length > 5")
    )
    visitor.run(
        "const wanted = snapshotGraph.nodes.find((node) => node.message === 'seven was wrong');"
        "snapshotGraph.select(wanted, true)"
    )
    assert "bob" in visitor.see("#panel", "seven was wrong")

    # Who changed a row?
    visitor.go("#/data?ref=main&table=orders")
    visitor.press("7", within="table.rows")
    assert "bob" in visitor.see("aside.side", "update by bob")

    # What differs between two branches?
    visitor.go("#/compare?before=main&after=dev")
    assert "orders" in visitor.see("table.summary")
    assert "22" in visitor.see("table.differences")

    # A conflict is settled for one row.
    visitor.go("#/merge?source=dev&into=main")
    visitor.see("main", "Both sides changed 1 row")
    visitor.press("dev's", within="table.rows")
    visitor.see("main", "All conflicts are settled")
    visitor.press("Merge into main")
    visitor.until(lambda: db.at("main").table("orders").get(1)["net"] == 11)

    # A view that was held goes on.
    visitor.go("#/syncs?name=main%2Fcareful")
    visitor.see("main", "held")
    visitor.press("Approve…")
    visitor.fill("Reason", "I looked at it", within="dialog")
    visitor.press("Approve", within="dialog")
    visitor.until(lambda: db.sync("main/careful").state == "active")
    visitor.see("main", "up to date")

    # A request is merged.
    visitor.go("#/requests?number=1")
    visitor.see("main", "Nothing stands in the way")
    visitor.press("Merge into main")
    visitor.until(lambda: db.at("main").table("orders").get(100) is not None)

    # Where does a number come from?
    visitor.go("#/data?ref=totals&table=totals")
    visitor.press("Moss", within="table.rows")
    assert "orders: 13 rows" in visitor.see("aside.side", "Made from")

    # A query, as a table and as a chart.
    visitor.go("#/sql")
    visitor.fill("Statement", "SELECT city, count(*) AS n FROM orders GROUP BY city ORDER BY city")
    visitor.press("Run")
    assert "Tromsø" in visitor.see("table.rows", "Tromsø")
    visitor.press("Chart")
    assert "Tromsø" in visitor.see("table.bars")

    # The versions of a model, and what became different.
    visitor.go("#/syncs?name=main%2Fforecast")
    visitor.press("Refresh…")
    visitor.press("Refresh", within="dialog")
    visitor.until(lambda: visitor.run("return document.querySelectorAll('ol.trail').length") >= 2)
    assert visitor.browser.complaints() == []


def test_a_merge_waits_until_its_conflicts_are_settled(visitor: Visitor) -> None:
    off = """
        const all = [...document.querySelectorAll('main button')];
        return all.find((one) => one.innerText === 'Merge into wish').disabled;
    """
    visitor.go("#/merge?source=dev&into=wish")
    visitor.see("main", "Both sides changed 1 row")
    assert visitor.run(off)
    visitor.press("wish's", within="table.rows")
    visitor.see("main", "All conflicts are settled")
    assert not visitor.run(off)


def test_rows_that_a_sync_makes_are_not_offered_to_be_changed(visitor: Visitor) -> None:
    visitor.go("#/data?ref=totals&table=totals")
    visitor.see("main", "Made by the sync main/totals")
    visitor.press("Oslo", within="table.rows")
    visitor.see("aside.side", "History")
    words = "return [...document.querySelectorAll('main button')].map((one) => one.innerText)"
    assert not {"New row", "Change", "Delete"} & set(visitor.run(words))


def test_a_new_branch_that_is_looked_at_stays_so_when_the_graph_grows(
    visitor: Visitor, db: livingdb.Database
) -> None:
    """It begins where another branch has the same snapshot, and has none of its own."""
    db.branch("dev").clone("fresh")
    visitor.choose("fresh")
    db.branch("dev").upsert("orders", [{**db.at("dev").table("orders").get(9), "net": 99.0}])
    head = "return snapshotGraph.nodes.some((one) => one.id === arguments[0])"
    visitor.until(lambda: visitor.run(head, db.at("dev").id))
    assert "head of fresh" in visitor.run("return document.getElementById('panel').innerText")


def test_who_went_elsewhere_stays_there(visitor: Visitor, db: livingdb.Database) -> None:
    db.branch("main").clone("slow").clone("slow_wish").delete("orders", [9])
    visitor.go("#/merge?source=slow_wish&into=slow")
    visitor.see("main", "Nothing stands in the way")
    visitor.run(
        """
        const ask = window.fetch;
        window.fetch = async (...given) => {
            if (!String(given[0]).endsWith('/v1/merge')) return ask(...given);
            await new Promise((answer) => { window.answer = answer; });
            const answered = await ask(...given);
            setTimeout(() => { window.isAnswered = true; }, 200);
            return answered;
        };
        """
    )
    visitor.press("Merge into slow")
    visitor.until(lambda: visitor.run("return Boolean(window.answer)"))
    visitor.go("#/alerts")
    visitor.run("window.answer()")
    visitor.until(lambda: visitor.run("return Boolean(window.isAnswered)"))
    assert db.at("slow").table("orders").get(9) is None
    assert visitor.run("return location.hash") == "#/alerts"


def test_rows_are_edited_in_one_transaction(visitor: Visitor, db: livingdb.Database) -> None:
    visitor.go("#/data?ref=wish&table=orders")
    before = db.branch("wish").head.id
    visitor.press("3", within="table.rows")
    visitor.fill("city", "Ål's", within="aside.side")
    visitor.press("Change", within="aside.side")
    visitor.press("4", within="table.rows")
    visitor.press("Delete", within="aside.side")
    visitor.see(".edits", "2 changes in one transaction")
    visitor.fill("Message", "by hand", within=".edits")
    visitor.press("Commit", within=".edits")
    visitor.until(lambda: db.branch("wish").head.id != before)
    wish = db.at("wish")
    assert wish.table("orders").get(3)["city"] == "Ål's"
    assert wish.table("orders").get(4) is None
    assert [wish.message, list(wish.parents)] == ["by hand", [before]]


def test_it_is_live(visitor: Visitor, db: livingdb.Database) -> None:
    visitor.go("#/data?ref=live&table=orders")
    assert "Not there" in visitor.see(".problem")
    db.branch("main").clone("live")
    visitor.see("table.rows", "Oslo")
    db.branch("live").insert("orders", [{"id": 0, "city": "Vardø", "net": 1}])
    visitor.see("table.rows", "Vardø")


def test_what_somebody_else_named_comes_and_goes(visitor: Visitor, db: livingdb.Database) -> None:
    db.branch("main").clone("brief")
    visitor.choose("brief")
    lanes = "return snapshotGraph.lanes.filter((lane) => !lane.dropped).map((lane) => lane.name)"
    assert "brief" in visitor.run(lanes)
    tags = "return snapshotGraph.nodes.flatMap((node) => node.tags)"
    db.tag("noted", "brief")
    visitor.until(lambda: visitor.run(tags) == ["noted"])
    db.drop_tag("noted")
    visitor.until(lambda: visitor.run(tags) == [])
    db.drop_branch("brief")
    visitor.until(lambda: "brief" not in visitor.run(lanes))


def test_a_change_is_tried_before_it_is_made(visitor: Visitor, db: livingdb.Database) -> None:
    db.branch("main").clone("next")
    visitor.go("#/schemas?branch=next")
    visitor.fill("ALTER TABLE", "ALTER TABLE orders ADD COLUMN note STRING")
    visitor.press("What would it do?")
    assert "can be kept in step" in visitor.see(".try", "both")
    assert "note" not in db.branch("next").table("orders").schema.names
    visitor.fill("Sync", "none")
    visitor.press("Change next")
    visitor.until(lambda: "note" in db.branch("next").table("orders").schema.names)


def test_what_is_wrong_is_told(visitor: Visitor, server: Server) -> None:
    visitor.go("#/sql")
    visitor.fill("Statement", "SELECT nothing FROM nowhere")
    visitor.press("Run")
    assert "nowhere" in visitor.see(".problem", "nowhere")
    visitor.press("Log out")
    visitor.see("main.login")
    visitor.fill("Token", "ldb_no_token")
    visitor.press("Log in")
    visitor.see(".problem")
    assert "orders" not in visitor.text()


def test_a_lost_connection_is_told(browser: Browser, db: livingdb.Database) -> None:
    with Server(db, ServerSettings(port=0, upkeep=False)) as passing:
        visitor = Visitor(browser, passing)
        visitor.come()
        visitor.go("#/alerts")
    assert "tried again by itself" in visitor.see(".lost", "lost")


def test_a_database_without_anything(browser: Browser, tmp_path: Path) -> None:
    with (
        livingdb.create(tmp_path / "empty.ldb") as empty,
        Server(empty, ServerSettings(port=0, upkeep=False)) as server,
    ):
        visitor = Visitor(browser, server)
        visitor.come()
        for place in VIEWS.values():
            if "?" not in place:
                visitor.go(place)
                assert visitor.run("return document.querySelector('.problem') === null"), place
        visitor.go("#/data")
        assert "No tables" in visitor.see(".nothing")
