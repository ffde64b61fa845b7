"""What the server tells of rights is what it decides by: nobody is offered what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import httpx
import pytest
from tests.server.http.conftest import Served, make_shop, serve

import livingdb
from livingdb import alert, condition
from livingdb.evolution import AddColumn

ROLES = ["reader", "writer", "maintainer", "owner"]
KINDS = ["plain", "merges only", "asks for approval", "in step"]
DEEDS: dict[str, Callable[[httpx.Client, str], httpx.Response]] = {
    "write": lambda client, name: client.post(
        "/v1/rows/upsert",
        params={"branch": name, "table": "orders"},
        json={"rows": [{"id": 1, "city": "x"}]},
    ),
    "merge": lambda client, name: client.post("/v1/merge", json={"source": "ahead", "into": name}),
    "change_schema": lambda client, name: client.post(
        "/v1/schema/changes",
        json={"branch": name, "changes": ["ALTER TABLE orders ADD COLUMN more STRING"]},
    ),
    "reset": lambda client, name: client.post(
        "/v1/branch/reset", json={"branch": name, "ref": "main~1"}
    ),
    "rename": lambda client, name: client.patch(
        "/v1/branch", json={"name": name, "to": f"{name}-too"}
    ),
    "drop": lambda client, name: client.delete("/v1/branch", params={"name": name, "detach": True}),
    "retire": lambda client, name: client.post("/v1/schema/retire", json={"branch": name}),
    "set_rule": lambda client, name: client.put(
        "/v1/merge-rule", json={"branch": name, "approvals": 0}
    ),
}
_numbers = count()


@pytest.fixture(scope="module")
def offered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with make_shop(tmp_path_factory.mktemp("offered")) as db:
        main = db.branch("main")
        main.clone("ahead").update("orders", [{"id": 5, "city": "Moss"}])
        main.derive(
            "totals",
            "SELECT city, count(*) AS n FROM orders GROUP BY city",
            when="immediate",
            conditions=[condition.max_changed(50, action="hold", severity="critical")],
            alerts=[alert.webhook("https://example.org/secret-path", severity="error")],
        )
        db.request_merge("ahead", "main", title="one more")
        for role in ROLES:
            db.people.add(role, "reader", "main")
            for pattern in ("ahead", "totals", "own-*"):
                db.people.grant(role, role, pattern)
            db.people.grant(role, "reader", "far-*")
        made = serve(db)
        for role in ROLES:
            made.tokens[role] = db.people.issue_token(role)
        yield made
        made.close()


def _make(db: livingdb.Database, kind: str) -> str:
    """A branch of its own, on which a role is tried."""
    number = next(_numbers)
    name = f"own-{number}"
    branch = db.branch("main").clone(name)
    if kind == "merges only":
        db.protect(name)
    if kind == "asks for approval":
        db.set_merge_rule(name, approvals=1)
    if kind == "in step":
        branch.evolve(AddColumn("orders", "vat", "double"), keep=f"far-{number}", sync="both")
    return name


def _branch(client: httpx.Client, name: str) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/v1/branch", params={"name": name}).json()
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("role", ROLES)
def test_what_may_be_done_to_a_branch_is_what_is_not_refused(
    offered: Served, role: str, kind: str
) -> None:
    client, wrong = offered.client(role), []
    for deed, act in DEEDS.items():
        name = _make(offered.db, kind)
        told = _branch(client, name)
        assert told["role"] == role
        answer = act(client, name)
        if (answer.status_code == 403) == (deed in told["may"]):
            wrong.append((deed, told["may"], answer.status_code, answer.text))
    assert not wrong, "\n".join(map(str, wrong))


def test_a_merge_that_was_asked_for_is_offered_where_others_are_not(offered: Served) -> None:
    name = _make(offered.db, "asks for approval")
    may = _branch(offered.client("writer"), name)["may"]
    assert "merge_request" in may
    assert "merge" not in may
    assert "merge_request" not in _branch(offered.client("reader"), name)["may"]


def test_rights_to_branches_that_are_not_seen_are_not_told(offered: Served) -> None:
    hidden = offered.db.branch("main").clone("hidden")
    for role in ROLES:
        client = offered.client(role)
        assert "hidden" not in client.get("/v1/branches").text
        assert client.get("/v1/branch", params={"name": "hidden"}).status_code == 404
    offered.db.drop_branch(hidden.name)


def test_a_list_of_branches_tells_the_same(offered: Served) -> None:
    client = offered.client("writer")
    listed = client.get("/v1/branches", params={"limit": 1000}).json()["branches"]
    assert {one["name"]: one["may"] for one in listed}["main"] == []
    assert all(one["may"] == _branch(client, one["name"])["may"] for one in listed)


def test_who_asks_is_told_the_role_on_the_database(offered: Served) -> None:
    assert offered.client("olga").get("/v1/me").json()["everywhere"] == "owner"
    assert offered.client("owner").get("/v1/me").json()["everywhere"] is None


@pytest.mark.parametrize("role", ROLES)
def test_what_may_be_done_about_a_sync_is_what_is_not_refused(offered: Served, role: str) -> None:
    client = offered.client(role)
    may = client.get("/v1/sync", params={"name": "main/totals"}).json()["may"]
    for action in ("approve", "resume", "detach", "reattach"):
        answer = client.post("/v1/sync/action", json={"name": "main/totals", "action": action})
        assert (answer.status_code == 403) != (action in may), answer.text
    answer = client.patch("/v1/sync", json={"name": "main/totals", "on_break": "detach"})
    assert (answer.status_code == 403) != ("alter" in may)
    job = offered.wait(client, client.post("/v1/views/refresh", json={"name": "totals"}))
    is_refused = job["error"] is not None and job["error"]["code"] == "forbidden"
    assert is_refused != ("refresh" in may)


def test_who_may_settle_an_alert_is_told_so(offered: Served) -> None:
    main = offered.db.branch("main")
    main.derive(
        "own-strict", "SELECT id FROM orders", when="immediate", conditions=["changed <= 0"]
    )
    main.upsert("orders", [{"id": 1000, "city": "Oslo"}])
    for role in ROLES:
        client = offered.client(role)
        told = client.get("/v1/alerts").json()["alerts"]
        assert told
        for one in told:
            answer = client.post(f"/v1/alerts/{one['number']}", json={"action": "acknowledge"})
            assert (answer.status_code == 403) != one["may_settle"]


def test_guards_of_a_sync_are_told_without_secrets_and_changed_one_by_one(
    offered: Served,
) -> None:
    client, sync = offered.client("maintainer"), offered.db.sync("main/totals")

    def told() -> dict[str, Any]:
        answer = client.get("/v1/sync", params={"name": "main/totals"})
        assert "secret-path" not in answer.text
        found: dict[str, Any] = answer.json()
        return found

    def alter(**given: Any) -> httpx.Response:
        return client.patch("/v1/sync", json={"name": "main/totals", **given})

    [known] = told()["conditions"]
    [sink] = told()["alerts"]
    text = sync.condition_texts[0]["text"]
    assert known == {"text": text, "action": "hold", "severity": "critical"}
    assert sink == {"number": 0, "label": "webhook https://example.org/…", "severity": "error"}

    # What is said as it is told stays, and what comes is beside it.
    new = {"text": "not_null(city)", "action": "warn"}
    assert alter(conditions=[known, new]).status_code == 200
    assert [one["text"] for one in told()["conditions"]] == [text, "not_null('city')"]
    assert offered.db.sync("main/totals").conditions[0].severity == "critical"
    kept = {"number": 0, "label": sink["label"], "severity": "critical"}
    assert alter(alerts=[kept, {"to": "log", "severity": "warning"}, "log"]).status_code == 200
    assert [(one["label"], one["severity"]) for one in told()["alerts"]] == [
        ("webhook https://example.org/…", "critical"),
        ("log", "warning"),
        ("log", "info"),
    ]
    assert offered.db.sync("main/totals").alerts[0] == alert.webhook(
        "https://example.org/secret-path", severity="critical"
    )

    # What is wrong is told with its place.
    for given, code, at in (
        ({"conditions": [known, {"text": "nonsense("}]}, "invalid_data", ["conditions", 1]),
        ({"alerts": ["log", "pigeon:post"]}, "invalid_data", ["alerts", 1]),
        ({"alerts": [{"number": 1, "label": sink["label"]}]}, "transaction_conflict", None),
    ):
        answer = alter(**given)
        assert (answer.json()["code"], answer.json()["details"].get("at")) == (code, at)
    offered.db.branch("main").derive("later", "SELECT id FROM orders", when="on demand")
    two = [{"text": "not_empty AND rows >= 1"}, {"text": "not_empty", "action": "fail"}]
    answer = offered.client("olga").patch("/v1/sync", json={"name": "later", "conditions": two})
    assert (answer.json()["code"], answer.json()["details"]) == (
        "illegal_sync",
        {"at": ["conditions", 1]},
    )
    assert alter(conditions=[], alerts=[]).status_code == 200
    assert (told()["conditions"], told()["alerts"], told()["on_break"]) == ([], [], "detach")
    assert sync.on_break == "detach"


def test_a_sync_that_is_no_view_has_nothing_that_breaks_it(offered: Served) -> None:
    offered.db.branch("main").clone("replica", sync="forward", when="immediate")
    told = offered.client().get("/v1/sync", params={"name": "main/replica"}).json()
    assert told["on_break"] is None
