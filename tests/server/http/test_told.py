"""What the server tells of itself, of syncs and of the log, so that a page can say it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.server.http.conftest import ARROW, Served

from livingdb.evolution import AddColumn, DropTable

_TOTALS = "SELECT city, count(*) AS n FROM orders GROUP BY city"


@pytest.fixture(scope="module")
def totals(served: Served) -> str:
    served.db.branch("main").derive("totals", sql=_TOTALS, when="immediate")
    served.db.branch("main").clone("replica", sync="forward", when="immediate")
    return "main/totals"


def _sync(client: httpx.Client, name: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/v1/sync", params={"name": name}).json()
    return found


def test_a_database_has_a_name(olga: httpx.Client) -> None:
    assert olga.get("/v1/about").json()["name"] == "shop.ldb"


def test_a_sync_tells_what_it_makes_and_of_what(olga: httpx.Client, totals: str) -> None:
    found = _sync(olga, totals)
    assert [found["makes"], found["definition"]] == ["view", _TOTALS]
    assert _sync(olga, "main/replica")["makes"] == "clone"


def test_who_may_not_read_the_source_is_not_told_the_query(served: Served, totals: str) -> None:
    served.db.people.add("vera", "reader", "totals")
    token = served.db.people.issue_token("vera")
    vera = served.client(None, Authorization=f"Bearer {token}")
    told = vera.get("/v1/syncs").text + vera.get("/v1/sync", params={"name": totals}).text
    assert "GROUP BY" not in told


def test_the_log_tells_how_a_view_was_refreshed(
    olga: httpx.Client, served: Served, totals: str
) -> None:
    served.db.branch("main").upsert("orders", [{"id": 1, "city": "Moss"}])
    newest = olga.get("/v1/snapshots", params={"ref": "totals"}).json()["snapshots"][0]
    assert newest["refresh"]["strategy"] == "additive"
    assert newest["refresh"]["rows"] == 2
    written = olga.get("/v1/snapshots", params={"ref": "main"}).json()["snapshots"][0]
    assert written["refresh"] == {}


def test_the_log_of_a_table_has_what_changed_it(olga: httpx.Client, served: Served) -> None:
    main = served.db.branch("main")
    main.create_table("goods", {"id": "bigint"}, key="id", message="goods")
    main.insert("goods", [{"id": 1}], message="one of them")
    main.upsert("orders", [{"id": 2, "city": "Moss"}], message="an order")
    asked = {"ref": "main", "table": "goods"}
    found = olga.get("/v1/snapshots", params=asked).json()["snapshots"]
    assert [one["message"] for one in found] == ["one of them", "goods"]
    assert [one.message for one in main.log(1, "orders")] == ["an order"]
    assert main.log(table="nowhere") == []
    main.evolve(AddColumn("goods", "name", "string"), message="a name")
    main.evolve(DropTable("goods"), message="no goods")
    assert [one.message for one in main.log(2, "goods")] == ["no goods", "a name"]


def test_answers_tell_of_rows_that_they_leave_out(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop(limits={"page_rows": 10})
    olga, main = served.client(), served.db.branch("main")
    main.derive("totals", sql=_TOTALS, when="immediate")
    main.derive(
        "pairs", "SELECT a.id, b.id AS other FROM orders a JOIN orders b ON a.city = b.city"
    )
    back = olga.get("/v1/lineage", params={"view": "totals", "key": "Oslo"}).json()
    assert (len(back["tables"]["orders"]), back["more"]) == (10, ["orders"])
    asked = {"table": "orders", "key": "1"}
    forward = olga.get("/v1/lineage/forward", params=asked).json()
    assert (len(forward["objects"]["pairs"]), forward["more"]) == (10, ["pairs"])
    main.clone("dev/x").sql("UPDATE orders SET city = 'Moss'")
    asked = {"before": "main", "after": "dev/x", "table": "orders"}
    accept = {"Accept": ARROW}
    for given, headers, rows, more in (
        ({}, accept, 100, False),
        ({"limit": 3}, accept, 3, True),
        ({"limit": 100}, accept, 100, False),
        ({}, {}, 10, True),
    ):
        found = olga.get("/v1/diff/rows", params=asked | given, headers=headers)
        told = pa.ipc.open_stream(found.content).read_all() if headers else found.json()["rows"]
        assert len(told) == rows
        assert ("LivingDB-More" in found.headers) is more
