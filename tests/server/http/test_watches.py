"""Watches over HTTP: made, looked at, and forgotten by who may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.server.http.conftest import Served

import livingdb

WATCHES: list[dict[str, Any]] = [
    {"event": "schema_change", "table": "orders", "branch": "main"},
    {"event": "merge", "into": "main"},
    {"event": "lag", "sync": "late", "limit": "10 minutes"},
    {"event": "failures", "sync": "late", "times": 2},
    {"event": "growth", "limit": "500 MB", "per": "1 day"},
]


def test_what_is_watched_raises_alerts(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop()
    olga, main = served.client(), served.db.branch("main")
    main.derive("late", "SELECT city FROM orders GROUP BY city", when="deferred")
    for on in WATCHES:
        answer = olga.post("/v1/watches", json={"name": on["event"], "on": on})
        assert answer.status_code == 201, answer.text
        assert (answer.json()["event"], answer.json()["severity"]) == (on["event"], "warning")
    known = {watch.name: watch.what for watch in served.db.watches()}
    assert known["lag"] == livingdb.alert.on_lag("late", "10 minutes")
    assert known["growth"] == livingdb.alert.on_growth("500 MB")
    again = olga.post("/v1/watches", json={"name": "merge", "on": WATCHES[1]})
    assert (again.status_code, again.json()["code"]) == (409, "already_exists")
    main.clone("side").insert("orders", [{"id": 500, "city": "Bonn"}])
    body = {"source": "side", "into": "main"}
    assert olga.post("/v1/merge", json=body).status_code == 200
    assert [one["event"] for one in olga.get("/v1/alerts").json()["alerts"]] == ["merge"]
    assert olga.post("/v1/watches/check").json() == {"alerts": []}
    assert olga.delete("/v1/watches", params={"name": "merge"}).status_code == 200
    assert olga.delete("/v1/watches", params={"name": "merge"}).status_code == 404
    assert "merge" not in [one["name"] for one in olga.get("/v1/watches").json()["watches"]]


@pytest.mark.parametrize(
    "body",
    [
        {"name": "", "on": {"event": "merge"}},
        {"name": "x", "on": {"event": "rain"}},
        {"name": "x", "on": {"event": "lag", "sync": "late", "limit": "never"}},
        {"name": "x", "on": {"event": "growth", "limit": "-5"}},
        {"name": "x", "on": {"event": "growth", "limit": 0.2, "per": 0}},
        {"name": "x", "on": {"event": "merge"}, "alerts": ["pigeon:home"]},
        {"name": "x", "on": {"event": "merge"}, "severity": "awful"},
    ],
)
def test_what_cannot_be_watched(olga: httpx.Client, served: Served, body: dict[str, Any]) -> None:
    assert olga.post("/v1/watches", json=body).status_code == 422
    assert served.db.watches() == []
    for name in ("will", "rita"):
        fine = {"name": "x", "on": {"event": "merge"}}
        assert served.client(name).post("/v1/watches", json=fine).status_code == 403
