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
