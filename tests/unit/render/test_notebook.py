"""How things look in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.unit.render.shop import shop

import livingdb
from livingdb.evolution import AddColumn, DropTable, RenameColumn


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    with shop(tmp_path_factory.mktemp("shop") / "shop.ldb") as opened:
        yield opened


def balanced(text: str) -> str:
    """The text, if every tag that opens in it closes."""
    open_tags: list[str] = []

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("br", "hr"):
                open_tags.append(tag)

        def handle_startendtag(self, tag: str, attrs: object) -> None:
            pass

        def handle_endtag(self, tag: str) -> None:
            assert open_tags.pop() == tag

    parser = Tags()
    parser.feed(text)
    parser.close()
    assert not open_tags
    return text


def test_a_database_shows_its_graph_and_branches(db: livingdb.Database) -> None:
    text = balanced(db._repr_html_())
    assert "<svg" in text
    assert all(branch.name in text for branch in db.branches())


def test_a_closed_database_says_so(tmp_path: Path) -> None:
    db = livingdb.create(tmp_path / "a.ldb")
    db.close()
    assert "closed" in balanced(db._repr_html_())


def test_a_branch_and_a_snapshot(db: livingdb.Database) -> None:
    branch = balanced(db.branch("main")._repr_html_())
    assert "merge dev into main" in branch
    assert "orders" in branch
    totals = db.branch("totals").head
    snapshot = balanced(totals._repr_html_())
    assert totals.id in snapshot
    assert totals.sources["main"][:12] in snapshot


def test_a_diff_and_a_sync(db: livingdb.Database) -> None:
    diff = balanced(db.diff("dev~1", "dev")["orders"]._repr_html_())
    assert "1 updated" in diff
    assert "Bergen" in diff
    sync = balanced(db.sync("totals")._repr_html_())
    assert "main → totals" in sync
    assert "immediate" in sync


def test_what_users_wrote_is_text(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "a.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "x": "string"}, key="id")
        main.insert("t", [{"id": 1, "x": "<i>"}], message="<script>alert(1)</script>")
        diff = db.diff("main~1", "main")["t"]
        shown = [thing._repr_html_() for thing in (db, main, main.head)]
        for text in map(balanced, [*shown, diff._repr_html_()]):
            assert "<script>" not in text
            assert "<i>" not in text


def test_what_differs_between_snapshots(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "a.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "x": "string", "n": "bigint"}, key="id")
        main.insert("t", {"id": list(range(40)), "x": ["<b>"] * 40, "n": [None] * 40})
        main.create_table("gone", {"id": "bigint"}, key="id")
        dev = main.clone("dev")
        dev.evolve([RenameColumn("t", "x", "y<"), AddColumn("t", "vat", "double")])
        dev.update("t", {"id": [1], "y<": ["<u>new</u>"]})
        dev.upsert("t", {"id": [50], "y<": ["in"], "n": [7]})
        dev.delete("t", list(range(10, 35)))
        dev.evolve(DropTable("gone"))
        diff = db.diff("main", "dev")
        text = balanced(diff._repr_html_())
        assert text.index("RenameColumn t x y&lt;") < text.index("AddColumn t vat")
        assert text.index("AddColumn t vat") < text.index("<b>t</b>")
        assert "1 inserted, 1 updated, 25 deleted <small>(another schema)" in text
        assert "<b>gone</b>: 0 inserted" in text
        assert "&lt;b&gt;</del> <ins" in text  # what was, and what is
        assert "&lt;u&gt;new&lt;/u&gt;</ins>" in text
        assert "<u>" not in text
        assert "<em>null</em>" in text
        assert "and 7 more rows" in text
        assert text.count("<tr>") == 21  # one of them has the names
        assert balanced(db.diff("main", "main")._repr_html_()) == "<p>nothing differs</p>"
