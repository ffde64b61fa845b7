"""Rows on the page: edited as they are typed, through their history, and where they come from."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.page.visitor import Visitor

import livingdb
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings

_SLIDE = """
    const slider = document.querySelector('.slider input');
    slider.value = arguments[0];
    slider.dispatchEvent(new Event('input', { bubbles: true }));
"""
_ROWS = "return document.querySelectorAll('.beside table.rows tbody tr').length"


def choose(visitor: Visitor, key: str) -> None:
    visitor.press(key, within=".beside table.rows")
    visitor.see("aside.side h3", key)


def test_changes_wait_on_the_branch_on_which_they_were_made(
    visitor: Visitor, db: livingdb.Database
) -> None:
    one, other = db.branch("main").clone("one"), db.branch("main").clone("other")
    before = other.head.id
    visitor.go("#/data?ref=one&table=orders")
    choose(visitor, "3")
    visitor.fill("city", "Ål", within="aside.side")
    visitor.press("Change", within="aside.side")
    visitor.see(".edits", "1 change in one transaction on one")
    visitor.go("#/data?ref=other&table=orders")
    visitor.see("main", "Changes wait to be committed on one")
    assert visitor.run("return document.querySelector('.edits')") is None
    visitor.go("#/alerts")
    visitor.go("#/data?ref=one&table=orders")
    visitor.see(".edits", "Ål")
    visitor.press("Commit", within=".edits")
    visitor.until(lambda: one.table("orders").get(3)["city"] == "Ål")
    assert db.branch("other").head.id == before


def test_the_last_of_many_branches_is_one(visitor: Visitor, db: livingdb.Database) -> None:
    main = db.branch("main")
    for number in range(1_001):
        main.clone(f"many{number:04}")
    visitor.go("#/data?ref=many1000&table=orders")
    visitor.see("main", "Choose a row for its history, or to change it")


def test_a_change_of_nothing_is_no_change(visitor: Visitor) -> None:
    visitor.go("#/data?ref=main&table=orders")
    choose(visitor, "5")
    visitor.press("Change", within="aside.side")
    visitor.see("aside.side", "Nothing is different yet")
    assert visitor.run("return document.querySelector('.edits')") is None


def test_values_of_every_type_are_written_as_they_are_shown(
    visitor: Visitor, db: livingdb.Database
) -> None:
    kinds = db.branch("main").clone("kinds")
    fields = [
        ("id", pa.int64()),
        ("data", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("net", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("paid", pa.bool_()),
        ("note", pa.string()),
    ]
    kinds.create_table("kinds", pa.schema(fields), key="id")
    row = {"id": 1, "data": b"\x00\xff", "tags": ["a"], "net": 1, "paid": True}
    kinds.insert("kinds", [row | {"note": "a first line\nand a second"}])
    visitor.go("#/data?ref=kinds&table=kinds")
    choose(visitor, "1")
    typed = {
        "data": "AAH/",
        "tags": '["b", "ü"]',
        "net": "",
        "at": "2026-11-18T10:00:00Z",
        "paid": "false",
    }
    for name, value in typed.items():
        visitor.fill(name, value, within="aside.side")
    lines = "return document.querySelector('aside.side textarea').value.split('\\n').length"
    assert visitor.run(lines) == 2
    visitor.press("Change", within="aside.side")
    visitor.press("Commit", within=".edits")
    visitor.until(lambda: kinds.table("kinds").get(1)["data"] == b"\x00\x01\xff")
    found = kinds.table("kinds").get(1)
    assert [found["tags"], found["net"], found["paid"]] == [["b", "ü"], None, False]
    assert [found["at"].isoformat()[:19], found["note"]] == [
        "2026-11-18T10:00:00",
        "a first line\nand a second",
    ]


def test_an_empty_value_is_not_null(visitor: Visitor, db: livingdb.Database) -> None:
    empty = db.branch("main").clone("empty")
    empty.create_table("notes", {"id": "bigint", "data": "binary", "note": "string"}, key="id")
    empty.insert("notes", [{"id": 1, "data": b"", "note": ""}])
    visitor.go("#/data?ref=empty&table=notes")
    choose(visitor, "1")
    visitor.fill("note", "mine", within="aside.side")
    visitor.press("Change", within="aside.side")
    assert "data" not in visitor.see(".edits", "note")
    empty.update("notes", [{"id": 1, "note": None}], author="eva")
    visitor.press("Commit", within=".edits")
    visitor.see(".edits .problem", "note was '' and is null now")
    visitor.press("Keep mine", within=".edits .problem")
    visitor.press("Commit", within=".edits")
    visitor.until(lambda: empty.table("notes").get(1) == {"id": 1, "data": b"", "note": "mine"})


def test_a_long_value_is_no_narrow_column(visitor: Visitor, db: livingdb.Database) -> None:
    long = db.branch("main").clone("long")
    long.create_table("notes", {f"c{n}": "string" for n in range(12)}, key="c0")
    long.insert("notes", [{f"c{n}": f"{n} " + "word" * 90 for n in range(12)}])
    visitor.go("#/data?ref=long&table=notes")
    visitor.see("table.rows", "word")
    size = "return document.querySelector('.beside tbody td:nth-child(2)').getBoundingClientRect()"
    place = visitor.run(size)
    assert place["width"] > 200
    assert place["height"] < 400


def test_sorted_rows_have_pages(visitor: Visitor, db: livingdb.Database) -> None:
    many = db.branch("main").clone("many")
    rows = [{"id": n, "city": "Hamar", "net": 1} for n in range(1000, 1090)]
    many.insert("orders", rows)
    visitor.go("#/data?ref=many&table=orders")
    visitor.press("net", within="table.rows")
    visitor.see("table.rows thead", "net ↑")
    visitor.until(lambda: visitor.run(_ROWS) == 100)
    visitor.press("More rows")
    visitor.until(lambda: visitor.run(_ROWS) == 30)
    visitor.press("Back")
    visitor.until(lambda: visitor.run(_ROWS) == 100)


def test_a_filter_and_an_order_are_in_the_address(visitor: Visitor) -> None:
    visitor.go("#/data?ref=main&table=orders")
    visitor.fill("Only rows where", "net BETWEEN 30 AND 40")
    visitor.press("Filter")
    visitor.see("main", "before the filter")
    for arrow in ("net ↑", "net ↓"):
        visitor.press("net" if arrow == "net ↑" else "net ↑", within="table.rows")
        visitor.see("table.rows thead", arrow)
    first = "return document.querySelector('.beside table.rows tbody')?.innerText.split('\\n')[0]"
    visitor.until(lambda: (visitor.run(first) or "?").split()[0] == "40")
    told = visitor.run(first)
    visitor.browser.driver.refresh()
    visitor.see("table.rows thead", "net ↓")
    visitor.until(lambda: visitor.run(first) == told)
    visitor.press("All rows")
    visitor.until(lambda: visitor.run(_ROWS) > 30)
    assert "where" not in visitor.run("return location.hash")


def test_the_slider_goes_through_the_changes_of_the_table_and_shows_them(
    visitor: Visitor, db: livingdb.Database
) -> None:
    slow = db.branch("main").clone("slider")
    slow.create_table("aside", {"id": "bigint"}, key="id", message="another table")
    slow.insert("aside", [{"id": 1}], message="a row of it")
    slow.delete("orders", [9], message="nine goes", author="eva")
    visitor.go("#/data?ref=slider&table=aside")
    visitor.see(".slider", "slide back through 2 changes of aside")
    visitor.go("#/data?ref=slider&table=orders")
    visitor.see(".slider", "changes of orders")
    visitor.press("Earlier")
    told = visitor.see(".then", "nine goes")
    assert "1 row of orders changed in" in told
    assert visitor.see(".then table").splitlines()[-1].split()[:2] == ["delete", "9"]
    visitor.press("Earlier")
    visitor.see(".then", "many, by bob")
    # Columns in which nothing was updated are left out, until one wants them.
    assert "city" not in visitor.see(".then thead", "net")
    visitor.run("document.querySelector('.then label.tick input').click()")
    visitor.see(".then thead", "city")
    visitor.run(_SLIDE, 0)
    visitor.see(".slider", "change 1 of")
    visitor.press("Now")
    visitor.see(".slider", "As of now")
    assert visitor.axe() == []


def test_a_row_tells_who_wrote_each_value_and_what_each_step_changed(visitor: Visitor) -> None:
    visitor.go("#/data?ref=main&table=orders")
    choose(visitor, "7")
    visitor.see("aside.side .trail", "net: 7.00 70.00")
    words = """
        const told = [...document.querySelectorAll('aside.side .value')].map((e) => e.innerText);
        return told.map((text) => /by (\\w+)/.exec(text)?.[1] ?? '');
    """
    assert visitor.until(lambda: [one for one in visitor.run(words) if one]) == ["ann", "bob"]


def test_a_cell_of_a_view_leads_to_the_columns_and_rows_behind_it(visitor: Visitor) -> None:
    visitor.go("#/data?ref=totals&table=totals")
    visitor.see("table.rows", "Oslo")
    cell = "document.querySelector('.beside tbody tr:nth-child(2) td:nth-child(3)').click()"
    visitor.run(cell)
    visitor.see("aside.side", "total comes from orders.net")
    marked = "return document.querySelectorAll('aside.side td.changed').length"
    assert visitor.run(marked) == 13
    # Where they were read, as it was then.
    visitor.press("orders as it was then", within="aside.side")
    visitor.see("header.view", "As it was: nothing can be changed here")
    visitor.see("nav.tabs", "orders")


def test_a_row_without_a_key_is_no_new_row(visitor: Visitor, db: livingdb.Database) -> None:
    large = "SELECT city, net FROM orders WHERE net > 35"
    db.branch("main").derive("large", sql=large, when="immediate")
    visitor.go("#/data?ref=large&table=large")
    visitor.see("table.rows", "Oslo")
    visitor.run("document.querySelector('.beside tbody td:nth-child(2)').click()")
    visitor.see("aside.side h3", "A row of large")
    told = visitor.see("aside.side", "net comes from orders.net")
    assert "large has no key" in told
    db.sync("main/large").detach()
    visitor.until(lambda: "Made by the sync" not in visitor.see("main"))
    words = "return [...document.querySelectorAll('main button')].map((one) => one.innerText)"
    assert not {"New row", "Change", "Delete"} & set(visitor.run(words))


def test_a_view_that_cannot_be_found_by_the_name_main_is_no_dead_end(
    visitor: Visitor, tmp_path: Path
) -> None:
    with livingdb.create(tmp_path / "trunk.ldb") as other:
        other.branch("main").create_table("goods", {"id": "bigint"}, key="id")
        other.rename_branch("main", "trunk")
        with Server(other, ServerSettings(port=0, upkeep=False)) as server:
            there = Visitor(visitor.browser, server)
            there.come()
            assert "trunk.ldb" in there.see("header.top h1")
            for place in ("#/data", "#/schemas", "#/sql", "#/provenance"):
                there.go(place)
                assert there.run("return document.querySelector('.problem') === null"), place
            there.go("#/data")
            there.see("nav.tabs", "goods")
