"""What the server can do is in reach of the page, too: tags, defaults, rights, rules, copies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.page.conftest import Browser
from tests.page.keyboard import Keyboard
from tests.page.shop import make_shop
from tests.page.visitor import Visitor

import livingdb
from livingdb.evolution import AddColumn
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with make_shop(tmp_path / "shop.ldb") as made:
        yield made


@pytest.fixture
def server(db: livingdb.Database, tmp_path: Path) -> Iterator[Server]:
    places = {"backup_place": str(tmp_path / "backups"), "export_folder": str(tmp_path / "files")}
    with Server(db, ServerSettings(port=0, upkeep=False, **places)) as running:
        yield running


def is_shut(visitor: Visitor) -> bool:
    return bool(visitor.run("return !document.querySelector('dialog')"))


def test_a_tag_is_dropped_from_the_graph(visitor: Visitor, db: livingdb.Database) -> None:
    db.tag("v1", "dev")
    db.tag("v2", "dev")
    visitor.choose("dev")
    visitor.see("#panel", "⚑ v2")
    visitor.press("Drop tag…", within="#panel")
    visitor.fill("Tag", "v2", within="dialog")
    visitor.press("Drop tag", within="dialog")
    visitor.until(lambda: list(db.tags()) == ["v1"])
    visitor.until(lambda: "⚑ v2" not in visitor.see("#panel"))


def test_a_branch_that_follows_masked_is_made_from_the_graph(
    visitor: Visitor, db: livingdb.Database
) -> None:
    visitor.choose("main")
    visitor.press("Branch…", within="#panel")
    visitor.fill("Name of the new branch", "analysts", within="dialog")
    visitor.fill("Stays in step with main", "forward", within="dialog")
    visitor.fill("Columns that are masked", "city", within="dialog")
    visitor.fill("Key of the masks", "a secret of our own", within="dialog")
    visitor.press("Create branch", within="dialog")
    visitor.see("dialog .problem", "say the table, too")
    visitor.fill("Columns that are masked", "orders.city", within="dialog")
    visitor.press("Create branch", within="dialog")
    visitor.until(lambda: is_shut(visitor))
    assert db.sync("main/analysts").direction == "forward"
    assert db.at("analysts").table("orders").get(1)["city"] != "Bodø"


def test_a_branch_tells_where_it_was_before_a_reset(
    visitor: Visitor, db: livingdb.Database
) -> None:
    left = db.at("dev").id
    db.branch("dev").reset("dev~1")  # where it began: it has no snapshot of its own any more
    # The graph of before has a head of dev, too, which goes once the page hears of the reset.
    moved = """
        const nodes = window.snapshotGraph ? snapshotGraph.nodes : [];
        return nodes.some((one) => one.id === arguments[0] && one.heads.includes('dev'));
    """
    visitor.until(lambda: visitor.run(moved, db.at("dev").id))
    visitor.choose("dev")
    visitor.press("Log", within="#panel")
    told = visitor.see("main ol.trail", left[:10])
    assert told.index("reset") < told.index(left[:10])
    place = f"main ol.trail li:nth-child({2 if told.startswith('reset') else 1})"
    visitor.press("its tables", within=place)
    visitor.see("table.rows", "22.00")
    assert visitor.axe() == []


def test_the_default_branch_is_chosen(visitor: Visitor, db: livingdb.Database) -> None:
    visitor.choose("dev")
    visitor.press("Default…", within="#panel")
    visitor.press("Let it be this one", within="dialog")
    visitor.until(lambda: is_shut(visitor))
    assert db.default_branch.name == "dev"


def test_roles_are_granted_and_tokens_revoked(
    browser: Browser, db: livingdb.Database, server: Server
) -> None:
    db.people.add("olga", "owner")
    db.people.add("sam", "reader", "dev")
    lost = db.people.issue_token("sam", note="lost phone")
    visitor = Visitor(browser, server)
    visitor.come(db.people.issue_token("olga"))
    visitor.go("#/people")
    sam = ".cards li:nth-child(2)"
    visitor.press("Grant a role…", within=sam)
    visitor.fill("Role", "writer", within="dialog")
    visitor.fill("Branches", "wish", within="dialog")
    visitor.press("Grant", within="dialog")
    visitor.see(sam, "writer of wish")
    visitor.press("Tokens", within=sam)
    visitor.see(sam, "lost phone")
    assert visitor.axe() == []
    visitor.press("Revoke…", within=sam)
    visitor.press("Revoke", within="dialog")
    visitor.see(sam, "revoked")
    assert not db.people.tokens("sam")[0].is_valid
    visitor.browser.driver.get("about:blank")
    visitor.browser.driver.get(f"{server.address}/#token={lost}")
    visitor.see("main.login", "Log in with your token")


def test_what_a_branch_asks_of_requests_is_told_and_set(
    visitor: Visitor, db: livingdb.Database
) -> None:
    visitor.go("#/requests?number=1")
    visitor.see("main", "main asks for no approval and takes changes by hand, too")
    visitor.press("Change…")
    visitor.fill("Approvals", "2", within="dialog")
    visitor.run("document.querySelector('dialog input[type=checkbox]').click()")
    visitor.press("Ask it", within="dialog")
    visitor.see("main", "main asks for 2 approvals and takes nothing but merges")
    visitor.see("ul.bad", "approval")
    rule = db.merge_rule("main")
    assert (rule.approvals, rule.merge_only) == (2, True)


def test_a_version_of_a_schema_is_ended(visitor: Visitor, db: livingdb.Database) -> None:
    added = AddColumn("orders", "vat", "double")
    db.branch("dev").evolve(added, keep="dev_v1", sync="both")
    visitor.go("#/schemas")
    visitor.press("Retire dev_v1…")
    visitor.press("Retire", within="dialog")
    visitor.until(lambda: is_shut(visitor))
    visitor.until(lambda: "dev_v1" not in [one.name for one in db.branches()])
    visitor.until(lambda: "Retire dev_v1…" not in visitor.text())


def test_a_change_of_a_schema_can_be_tried_without_knowing_how_it_is_said(
    visitor: Visitor,
) -> None:
    visitor.go("#/schemas?branch=dev")
    for words in ("Add a column", "Rename one", "Drop one", "Change a type"):
        visitor.press(words)
        visitor.press("What would it do?")
        visitor.see(".try .fine", "kept in step")
        assert "did not work" not in visitor.see(".try")
        visitor.fill("ALTER TABLE statement", "")


def test_a_row_tells_where_it_has_gone_and_is_erased_once_it_was_looked_at(
    visitor: Visitor, db: livingdb.Database
) -> None:
    def ask() -> None:
        visitor.press("Erase for good…")
        visitor.see("dialog", "nobody brings it back")

    def erase(action: str) -> None:
        visitor.go("#/data?ref=main&table=orders&where=id%20%3D%209")
        visitor.press("9", within="table.rows")
        ask()
        visitor.fill("What is done", "look" if action == "Look" else "erase", within="dialog")
        visitor.fill("Reason", "asked to be forgotten", within="dialog")
        visitor.press(action, within="dialog")
        visitor.see("main .cards", "erase")
        visitor.until(lambda: is_shut(visitor))
        visitor.until(lambda: visitor.see("main .cards").startswith("erase done"))

    db.sync("main/careful").detach()
    visitor.go("#/data?ref=main&table=orders&where=id%20%3D%209")
    visitor.press("9", within="table.rows")
    visitor.press("Where it has gone", within="aside")
    visitor.see("aside details", "branch wish")
    assert visitor.axe() == []
    ask()
    Keyboard(visitor).press("Escape")
    visitor.until(lambda: is_shut(visitor))
    visitor.see("aside h3", "9")
    before = db.at("main~2").id
    erase("Look")
    assert db.at(before).table("orders").get(9) is not None
    erase("Erase")
    assert db.at(before).table("orders").get(9) is None


def test_more_rows_that_differ_are_shown_when_they_are_wanted(
    visitor: Visitor, db: livingdb.Database
) -> None:
    many = [{"id": n, "city": "Hamar", "net": n} for n in range(1000, 1300)]
    db.branch("dev").insert("orders", many)
    visitor.go("#/compare?before=dev~1&after=dev&table=orders")
    visitor.see("main", "The first 200 rows are shown")
    visitor.press("More rows")
    visitor.until(
        lambda: (
            visitor.run("return document.querySelectorAll('table.differences tbody tr').length")
            == 300
        )
    )
    assert "are shown" not in visitor.see("main")


def test_requests_are_found_by_their_state(visitor: Visitor) -> None:
    visitor.go("#/requests")
    visitor.see(".cards", "One more order")
    visitor.fill("Show", "merged")
    visitor.see(".nothing", "None is merged")


def test_the_database_is_backed_up_and_tables_exported(visitor: Visitor, tmp_path: Path) -> None:
    visitor.go("#/storage")
    visitor.press("Back up…")
    visitor.fill("Name of the backup", "nightly", within="dialog")
    visitor.press("Back up", within="dialog")
    visitor.until(lambda: is_shut(visitor))
    visitor.press("Export…")
    visitor.fill("Name of the folder", "orders", within="dialog")
    visitor.fill("As", "csv", within="dialog")
    visitor.press("Export", within="dialog")
    visitor.until(lambda: is_shut(visitor))
    visitor.until(lambda: visitor.see(".cards").count("done") == 2)
    assert (tmp_path / "backups" / "nightly").exists()
    assert list((tmp_path / "files" / "orders").rglob("*.csv"))


def test_a_server_that_writes_no_files_says_who_can_change_that(
    browser: Browser, db: livingdb.Database
) -> None:
    with Server(db, ServerSettings(port=0, upkeep=False)) as bare:
        visitor = Visitor(browser, bare)
        visitor.come()
        visitor.go("#/storage")
        visitor.press("Back up…")
        visitor.fill("Name of the backup", "nightly", within="dialog")
        visitor.press("Back up", within="dialog")
        visitor.see("dialog .problem", "--backup-place")
