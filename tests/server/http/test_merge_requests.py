"""Merge requests over HTTP: asked for, approved and merged, as the target's rule says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
from tests.server.http.conftest import Served


def test_a_request_is_approved_and_merged(olga: httpx.Client, served: Served) -> None:
    db = served.db
    db.people.add("max", role="maintainer")
    served.tokens["max"] = db.people.issue_token("max")
    asking = served.client("max")
    rule = {"branch": "main", "approvals": 1, "merge_only": True}
    rule["checks"] = [{"text": "rows >= 1", "action": "fail"}]
    told = olga.put("/v1/merge-rule", json=rule).json()
    assert (told["approvals"], told["merge_only"], len(told["checks"])) == (1, True, 1)
    row = {"rows": [{"id": 500, "city": "Bern"}]}
    where = {"table": "orders"}
    refused = asking.post("/v1/rows/insert", params={**where, "branch": "main"}, json=row)
    assert refused.status_code in (403, 409)
    db.branch("main").clone("fix")
    assert asking.post("/v1/rows/insert", params={**where, "branch": "fix"}, json=row).is_success
    made = asking.post("/v1/merge-requests", json={"source": "fix", "into": "main"}).json()
    place = f"/v1/merge-requests/{made['number']}"

    def get(path: str = "") -> dict[str, Any]:
        found: dict[str, Any] = asking.get(place + path).json()
        return found

    assert get()["problems"] == ["1 more approval is needed"]
    assert get("/preview")["changes"] == {"orders": {"inserted": 1, "updated": 0, "deleted": 0}}
    assert get("/diff")["tables"]["orders"]["inserted"] == 1
    assert get("/checks")["checks"][0]["holds"]
    assert asking.post(f"{place}/merge", json={}).status_code == 409
    said = {"action": "comment", "text": "please"}
    assert asking.post(f"{place}/notes", json=said).is_success
    assert olga.post(f"{place}/notes", json={"action": "approve"}).is_success
    merged = asking.post(f"{place}/merge", json={"message": "in it goes"})
    assert merged.is_success, merged.text
    seen = get()
    assert (seen["state"], seen["snapshot"]) == ("merged", merged.json()["id"])
    assert [(one["kind"], one["author"]) for one in seen["notes"]][:2] == [
        ("comment", "max"),
        ("approve", "olga"),
    ]
    assert asking.post(f"{place}/notes", json={"action": "reopen"}).status_code == 409


def test_a_rule_that_is_refused_changes_nothing(serve_shop: Callable[..., Served]) -> None:
    olga = serve_shop().client()
    check = {"text": "in_range('amount', 0, 5)", "action": "quarantine"}
    said = {"branch": "main", "merge_only": True, "checks": [check]}
    assert olga.put("/v1/merge-rule", json=said).status_code == 422
    assert olga.get("/v1/merge-rule", params={"branch": "main"}).json()["merge_only"] is False


def pages(client: httpx.Client, path: str, listed: str, by: str, **given: Any) -> list[list[int]]:
    """All pages of a list that is told newest first: what numbers its items."""
    found: list[list[int]] = []
    following: int | None = 2**62
    while following is not None:
        answer = client.get(path, params={**given, "before": following})
        assert answer.status_code == 200, answer.text
        found.append([one[by] for one in answer.json()[listed]])
        following = answer.json()["next"]
        assert following is None or following == found[-1][-1]
    return found


def test_requests_are_told_by_pages(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop()
    db = served.db
    for number in range(7):
        source = db.branch("main").clone(f"{'dev' if number % 2 else 'own'}/{number}").name
        db.request_merge(source, into="dev/one" if number % 2 else "main")
    db.merge_request(6).close()
    olga, will = served.client("olga"), served.client("will")
    where = ("/v1/merge-requests", "merge_requests", "number")
    assert pages(olga, *where, limit=3) == [[7, 6, 5], [4, 3, 2], [1]]
    assert pages(olga, *where, limit=7) == [[7, 6, 5, 4, 3, 2, 1], []]
    assert pages(olga, *where, limit=4, state="open") == [[7, 5, 4, 3], [2, 1]]
    assert pages(will, *where, limit=2) == [[6, 4], [2]]  # those that he sees
    told = olga.get("/v1/merge-requests").json()
    assert (len(told["merge_requests"]), told["next"]) == (7, None)
    for wrong in ({"before": 0}, {"before": "x"}, {"limit": 0}, {"limit": 10_001}):
        assert olga.get("/v1/merge-requests", params=wrong).status_code == 422
    served.db.people.withdraw("will", "writer", "dev/*")
    assert will.get("/v1/merge-requests", params={"before": 6}).json()["merge_requests"] == []


def test_movements_are_told_by_pages(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop()
    dev = served.db.branch("dev/one")
    for number in range(5):
        dev.insert("orders", [{"id": 1000 + number}])
    last = dev.movements()[0].position
    olga, rita = served.client("olga"), served.client("rita")
    where = ("/v1/branch/movements", "movements", "position")
    assert pages(olga, *where, name="dev/one", limit=2) == [[5, 4], [3, 2], [1, 0], []]
    assert last == 5
    told = olga.get(where[0], params={"name": "dev/one", "before": 0}).json()
    assert told == {"movements": [], "next": None}
    first = olga.get(where[0], params={"name": "dev/one", "limit": 2}).json()
    dev.reset("dev/one~1")  # what comes meanwhile is before the page that is asked for next
    asked = {"name": "dev/one", "limit": 2, "before": first["next"]}
    older = olga.get(where[0], params=asked).json()["movements"]
    assert [one["position"] for one in older] == [3, 2]
    assert rita.get(where[0], params=asked).status_code == 404
    assert olga.get(where[0], params={"name": "dev/one", "before": -1}).status_code == 422
