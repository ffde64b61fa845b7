"""The tree of what made a snapshot."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import livingdb
from livingdb.evolution import AddColumn, MaskColumn

TOTALS = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"


def train(tables: dict[str, pa.Table], depth: int = 3) -> tuple[bytes, dict[str, float]]:
    """A model of sorts."""
    return str(depth).encode(), {"rows": float(sum(map(len, tables.values())))}


def test_a_transaction_counts_those_before_it(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.update("orders", {"id": [1], "amount": [5]}, message="five")
    found = db.provenance("main")
    (only,) = found
    assert (only.kind, only.operation, only.author) == ("transaction", "update", "ann")
    assert only.before == 5
    assert only.branches == ("main",)
    assert list(only.tables) == ["orders"]
    assert "and 5 transactions before it" in found.to_text()
    assert db.provenance(main.head).root == only
    assert db.provenance("main~1").root.tables == {"orders": {"rows": 6}}


def test_a_view_names_query_strategy_and_sources(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("totals", sql=TOTALS, when="deferred")
    main.update("orders", {"id": [1], "amount": [5]}, message="five", author="bo")
    db.propagate()
    root = db.provenance("totals").root
    assert (root.kind, root.query, root.engine) == ("propagate", TOTALS, "embedded")
    assert root.strategy
    assert root.sync == "main/totals"
    assert root.before == 1
    (source,) = root.children
    assert (source.role, source.author, source.message) == ("from main", "bo", "five")
    assert source.snapshot == main.head.id
    text = db.provenance("totals").to_text()
    assert "query: SELECT city" in text
    assert f"strategy: {root.strategy}" in text
    assert "and 1 version before it" in text
    assert [node.message for node in db.provenance("totals").transactions()] == ["five"]


def test_immediate_views_know_their_query(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", sql=TOTALS, when="immediate")
    main.derive("large", sql="SELECT city FROM totals WHERE total > 1", when="immediate")
    main.update("orders", {"id": [1], "amount": [5]}, message="five")
    found = db.provenance("large")
    assert [node.kind for node in found] == ["propagate", "propagate", "transaction"]
    assert [node.role for node in found] == ["", "from totals", "from main"]
    assert found.root.query == "SELECT city FROM totals WHERE total > 1"


def test_merges_clones_and_schema_changes(db: livingdb.Database, main: livingdb.Branch) -> None:
    dev = main.clone("dev")
    dev.evolve(AddColumn("orders", "vat", "double", default=0.0), message="vat")
    dev.update("orders", {"id": [1], "vat": [1.0]}, message="on dev")
    found = db.provenance("dev")
    assert [node.kind for node in found] == [
        "transaction",
        "schema_change",
        "clone",
        "transaction",
    ]
    assert list(found)[1].changes == ("AddColumn orders vat",)
    assert list(found)[2].message == "dev came from main"
    main.update("orders", {"id": [2], "city": ["x"]}, message="on main")
    db.merge("main", "dev", message="merged")
    root = db.provenance("dev").root
    assert [child.role for child in root.children] == ["into", "merged"]
    assert [child.message for child in root.children] == ["on dev", "on main"]


def test_what_a_sync_carried(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.evolve(AddColumn("orders", "vat", "double"), keep="v1", sync="both", message="vat")
    for number in range(3):
        db.branch("v1").update("orders", {"id": [1], "amount": [number]}, message=f"m{number}")
    root = db.provenance("main").root
    assert (root.sync, root.direction) == ("v1/main", "forward")
    source, before = root.children
    assert (source.role, source.message) == ("from v1", "m2")
    assert (before.kind, before.message) == ("schema_change", "vat")
    assert root.before == 2
    assert "and 2 snapshots before it" in root.lines


def test_models_and_masked_clones(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive(
        "model", model="tests.unit.tracing.provenance.test_provenance:train", when="on demand"
    )
    root = db.provenance("model").root
    assert root.function == "tests.unit.tracing.provenance.test_provenance:train"
    assert root.metrics == {"rows": 9.0}
    assert root.engine == "python"
    mask = MaskColumn("customers", "name")
    main.clone("masked", transform=[mask], sync="forward", when="deferred")
    main.update("customers", {"id": [1], "name": ["x"]}, message="x")
    db.propagate()
    (source,) = list(db.provenance("masked"))[1:]
    assert (source.snapshot, source.message) == (main.head.id, "")


def test_text_is_cut_and_json_is_whole(db: livingdb.Database, main: livingdb.Branch) -> None:
    for number in range(12):
        dev = main.clone(f"dev{number}")
        dev.update("orders", {"id": [1], "amount": [number]}, message=f"dev {number}")
        main.update("orders", {"id": [2], "amount": [number]}, message=f"main {number}")
        db.merge(f"dev{number}", "main")
    found = db.provenance("main")
    assert len(found) > 24
    short, whole = found.to_text(depth=2), found.to_text(depth=None)
    assert f"… {len(found) - 7} more" in short or "more" in short
    assert len(whole.splitlines()) > len(short.splitlines())
    data = json.loads(found.to_json())
    assert data == found.to_dict()
    assert data["kind"] == "merge"
    assert "earlier" not in data
    html = found._repr_html_()
    assert html.count("<li>") == html.count("</li>")


def test_html_is_escaped(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.update("orders", {"id": [1], "amount": [5]}, message="<script>")
    html = db.provenance("main")._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_long_histories_are_bounded(
    db: livingdb.Database, main: livingdb.Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.evolve(AddColumn("orders", "vat", "double"), message="vat")
    for number in range(60):
        main.update("customers", {"id": [1], "name": [str(number)]})
    assert [node.before for node in db.provenance("main")] == [59, 0, 4]
    monkeypatch.setattr("livingdb.tracing.provenance.search._FAR", 50)
    found = db.provenance("main")
    assert len(found) == 1
    assert found.root.before == 65
    assert "and 65 snapshots before it" in found.to_text()
    dev = main.clone("dev")
    dev.update("orders", {"id": [1], "amount": [7]})
    main.update("orders", {"id": [2], "amount": [7]})
    db.merge("dev", "main")
    monkeypatch.setattr("livingdb.tracing.provenance.search._MOST_NODES", 1)
    cut = db.provenance("main").root
    assert cut.is_cut
    assert "… more that is not shown" in cut.lines


def test_conditions_that_were_judged(db: livingdb.Database, main: livingdb.Branch) -> None:
    limit = livingdb.condition.max_changed_share(0.9, action="warn")
    main.derive("totals", sql=TOTALS, when="immediate", conditions=[limit])
    main.update("orders", {"id": [1], "amount": [5]}, message="five")
    root = db.provenance("totals").root
    assert list(root.conditions) == ["changed_share <= 0.9"]
    assert any(line.startswith("condition changed_share <= 0.9: ") for line in root.lines)
