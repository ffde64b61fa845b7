"""The door: who comes in, by which name, with how much, and what is said of the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.responses import Response
from tests.server.http.conftest import Served

from livingdb import errors
from livingdb.errors import Forbidden, InvalidData
from livingdb.server.http.browser_sessions import BrowserSessions
from livingdb.server.http.failures import STATUSES, status_of
from livingdb.server.serve import Server
from livingdb.server.settings import Limits, ServerSettings

ABOUT = "/v1/about"


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 401, "unauthenticated"),
        ({"Authorization": "Bearer ldb_no_such"}, 401, "unauthenticated"),
        ({"Authorization": "Basic YTpi"}, 401, "unauthenticated"),
        ({"Cookie": "livingdb_session=x"}, 401, "unauthenticated"),
        ({"Host": "rebound.example"}, 421, "unknown_host"),
        ({"Host": "127.0.0.1.rebound.example"}, 421, "unknown_host"),
        ({"Origin": "https://evil.example"}, 403, "foreign_origin"),
        ({"Origin": "null"}, 403, "foreign_origin"),
    ],
)
def test_who_does_not_come_in(
    served: Served, headers: dict[str, str], status: int, code: str
) -> None:
    answer = served.client(None).get(ABOUT, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_anybody_may_ask_whether_it_is_well(served: Served) -> None:
    nobody = served.client(None)
    assert nobody.get("/health").json() == nobody.get("/ready").json() == {"done": True}
    for path in ("/health", "/ready", "/", "/openapi.json"):
        whole, head = nobody.get(path), nobody.head(path)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["Content-Length"] == whole.headers["Content-Length"]
        assert head.headers["Content-Type"] == whole.headers["Content-Type"]
    assert nobody.head("/v1/about").status_code == 401


def test_counts_are_told_to_owners_and_by_their_own_token(
    serve_shop: Callable[..., Served],
) -> None:
    served = serve_shop(metrics_token="a-secret-of-prometheus")
    count = 'livingdb_requests_total{operation="health",status="200"}'
    nobody = served.client(None)
    assert nobody.get("/health").status_code == 200
    assert nobody.get("/metrics").status_code == 401
    for name in ("rita", "will"):
        refused = served.client(name).get("/metrics")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert "livingdb_" not in refused.text
    assert count in served.client("olga").get("/metrics").text
    prometheus = served.client(None, Authorization="Bearer a-secret-of-prometheus")
    assert count in prometheus.get("/metrics").text
    assert prometheus.get(ABOUT).status_code == 401
    wrong = served.client(None, Authorization="Bearer a-secret-of-prometheuS")
    assert wrong.get("/metrics").status_code == 401
    with pytest.raises(InvalidData, match="at least 16 characters"):
        ServerSettings(metrics_token="short")
    assert "prometheus" not in repr(served.server.settings)


def test_every_answer_has_its_headers(served: Served) -> None:
    for path in ("/health", "/nothing", ABOUT):
        headers = served.client("olga").get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        assert headers["x-request-id"]
        assert "server" not in headers


def test_a_browser_has_a_cookie_and_knows_a_secret(served: Served) -> None:
    browser = served.client(None, Origin=served.server.address)
    told = browser.post("/v1/login", json={"token": served.tokens["will"]})
    assert told.json()["user"] == "will"
    cookie = told.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert served.tokens["will"] not in cookie
    assert browser.get(ABOUT).json()["user"] == "will"
    body = {"name": "dev/browser", "from": "dev/one"}
    refused = browser.post("/v1/branches", json=body)
    assert (refused.status_code, refused.json()["code"]) == (403, "csrf")
    knowing = {"X-CSRF-Token": told.json()["csrf_token"]}
    assert browser.post("/v1/branches", json=body, headers=knowing).status_code == 201
    assert browser.post("/v1/logout", headers=knowing).status_code == 200
    assert browser.get(ABOUT).status_code == 401
    assert browser.post("/v1/login", json={"token": "wrong"}).status_code == 401


def test_who_logs_in_often_ends_no_session_of_others() -> None:
    browsers, answer = BrowserSessions(), Response()

    def log_in(token: str) -> str:
        browsers.open(token, answer, is_secure=False)
        return answer.headers.getlist("set-cookie")[-1].partition("=")[2].partition(";")[0]

    first = log_in("ann")
    last = [log_in("bob") for _ in range(150)][-1]
    assert browsers.find(first) is not None
    assert browsers.find(last) is not None
    assert len(browsers._sessions) == 101


def test_a_token_counts_until_it_is_revoked(served: Served) -> None:
    olga = served.client("olga")
    assert olga.post("/v1/users", json={"name": "tom", "role": "reader"}).status_code == 201
    secret = olga.post("/v1/user/tokens", json={"name": "tom", "days": 1}).json()["token"]
    tom = served.client(None, Authorization=f"Bearer {secret}")
    assert tom.get("/v1/me").json() == {
        "name": "tom",
        "grants": [{"role": "reader", "branches": "*"}],
        "everywhere": "reader",
    }
    assert tom.get("/v1/users").json()["code"] == "forbidden"
    (token,) = olga.get("/v1/user/tokens", params={"name": "tom"}).json()["tokens"]
    assert olga.delete("/v1/token", params={"id": token["id"]}).status_code == 200
    assert tom.get("/v1/me").status_code == 401
    trail = olga.get("/v1/audit").json()["rows"]
    assert {"add user", "issue token", "revoke token", "list_users"} <= {
        row["action"] for row in trail
    }
    assert secret not in olga.get("/v1/audit").text


def test_rights_are_those_of_who_asks(served: Served) -> None:
    will, rita = served.client("will"), served.client("rita")
    row, orders = {"rows": [{"id": 1, "city": "x"}]}, {"table": "orders"}
    main, dev = {**orders, "branch": "main"}, {**orders, "branch": "dev/one"}
    assert rita.post("/v1/rows/upsert", params=main, json=row).json()["code"] == "forbidden"
    assert rita.get("/v1/rows", params={**orders, "ref": "main"}).status_code == 200
    assert rita.get("/v1/rows", params={**orders, "ref": "dev/one"}).status_code == 404
    assert will.get("/v1/rows", params={**orders, "ref": "main"}).status_code == 404
    made = will.post("/v1/rows/upsert", params=dev, json=row).json()
    assert made["author"] == "will"
    assert rita.get("/v1/snapshot", params={"ref": made["id"]}).status_code == 404
    for path in ("/v1/collect", "/v1/erase", "/v1/check", "/v1/backup"):
        body = {"table": "orders", "keys": [[1]], "reason": "x"} if "erase" in path else {}
        body = {"name": "x"} if "backup" in path else body
        answer = rita.post(path, json=body)
        if answer.status_code == 202:
            assert served.wait(rita, answer)["error"]["code"] == "forbidden", path
        else:
            assert answer.json()["code"] in ("forbidden", "not_found"), path


def test_a_run_token_counts_while_there_are_no_users(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop(people=False)
    client = served.client("olga")
    assert client.get(ABOUT).json()["user"] == "root"
    row = {"rows": [{"id": 1, "city": "x"}]}
    made = client.post("/v1/rows/upsert", params={"table": "orders"}, json=row)
    assert made.json()["author"] == "root"
    assert client.post("/v1/users", json={"name": "ann", "role": "owner"}).status_code == 201
    assert client.get(ABOUT).status_code == 401


def test_where_a_database_may_be_served(served: Served) -> None:
    with pytest.raises(InvalidData, match="certificate and its key"):
        ServerSettings(certificate="server.pem")
    with pytest.raises(InvalidData, match="rows"):
        Limits(rows=0)
    open_house = ServerSettings(host="0.0.0.0", port=0)
    Server(served.db, open_house)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(served.db.people), "are_any", False)
        with pytest.raises(Forbidden, match="without users"):
            Server(served.db, open_house)


def test_a_request_has_its_size_and_its_turn(serve_shop: Callable[..., Served]) -> None:
    given = {"body_bytes": 1000, "concurrent": 2, "wait_seconds": 0.1}
    served = serve_shop(limits=given)
    olga = served.client()
    for content in (b"x" * 2000, iter([b"x" * 600] * 2)):
        big = olga.post("/v1/sql", content=content, headers={"Content-Type": "application/json"})
        assert (big.status_code, big.json()["code"]) == (413, "too_large")
    held, go_on = threading.Barrier(3), threading.Event()

    def slow(*_: object) -> None:
        held.wait()
        go_on.wait(30)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(served.db), "tags", slow)
        threads = [threading.Thread(target=served.client().get, args=("/v1/tags",)) for _ in "ab"]
        for thread in threads:
            thread.start()
        held.wait()
        late = olga.get(ABOUT)
        other = served.client("rita").get(ABOUT)
        go_on.set()
        for thread in threads:
            thread.join()
    assert (late.status_code, late.json()["code"]) == (429, "too_many_requests")
    assert late.headers["retry-after"]
    assert other.status_code == 200


def test_strangers_send_little(served: Served) -> None:
    nobody = served.client(None)
    token = {"token": served.tokens["rita"]}
    assert nobody.post("/v1/login", json=token).status_code == 200
    for content in (b" " * 100_000, iter([b" " * 10_000] * 10)):
        json = {"Content-Type": "application/json"}
        big = nobody.post("/v1/login", content=content, headers=json)
        assert (big.status_code, big.json()["code"]) == (413, "too_large")


def test_pages_of_sites_that_are_allowed_come_in(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop(allowed_origins=("https://app.example.com",))
    nobody, rita = served.client(None), served.client("rita")
    here, there = {"Origin": "https://app.example.com"}, {"Origin": "https://evil.example"}
    wish = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "if-match"}
    asked = nobody.options("/v1/retention", headers={**here, **wish})
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == here["Origin"]
    assert "PUT" in asked.headers["access-control-allow-methods"]
    assert "if-match" in asked.headers["access-control-allow-headers"].lower()
    assert "access-control-allow-credentials" not in asked.headers
    for client, status in ((rita, 200), (nobody, 401)):
        answer = client.get(ABOUT, headers=here)
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == here["Origin"]
        assert "LivingDB-Next" in answer.headers["access-control-expose-headers"]
    for refused in (
        nobody.options(ABOUT, headers={**there, **wish}),
        rita.get(ABOUT, headers=there),
        nobody.options(ABOUT, headers={**here, **wish, "Host": "rebound.example"}),
    ):
        assert refused.status_code in (403, 421)
        assert "access-control-allow-origin" not in refused.headers


def test_some_users_do_not_take_all_threads(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop()
    people = ["ann", "bob", "eve"]
    for name in people:
        served.db.people.add(name, "reader")
        served.tokens[name] = served.db.people.issue_token(name)
    each = Limits().concurrent
    held, go_on = threading.Barrier(len(people) * each + 1), threading.Event()

    def slow(*_: object) -> dict[str, object]:
        held.wait(30)
        go_on.wait(30)
        return {}

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(len(people) * each) as pool:
        patch.setattr(type(served.db), "tags", slow)
        clients = [served.client(name) for name in people]
        asked = [pool.submit(one.get, "/v1/tags") for one in clients for _ in range(each)]
        held.wait(30)
        try:
            assert served.client("rita").get(ABOUT, timeout=10).status_code == 200
            assert served.client(None).get("/ready", timeout=10).status_code == 200
        finally:
            go_on.set()
        assert {one.result().status_code for one in asked} == {200}


def test_every_error_has_a_status() -> None:
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert 400 <= status_of(kind("x")) < 600, name
    assert status_of(errors.NotFound("x")) == 404
    assert status_of(errors.InvalidData("x")) == 422
    assert status_of(errors.Forbidden("x")) == 403
    assert status_of(errors.AlreadyExists("x")) == 409
    assert len({kind for kind, _ in STATUSES}) == len(STATUSES)


def test_an_error_that_nobody_expected_says_nothing(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a secret value")

    with pytest.MonkeyPatch.context() as patch, caplog.at_level("INFO", "livingdb.server"):
        patch.setattr(type(served.db), "tags", fail)
        answer = served.client("olga").get("/v1/tags")
        told = answer.json()
        assert (answer.status_code, told["code"]) == (500, "internal")
        assert "secret" not in answer.text
        for _ in range(1000):  # it is logged once it was sent
            facts = [getattr(record, "facts", {}) for record in list(caplog.records)]
            if told["details"]["id"] in str(facts):
                break
            time.sleep(0.01)
    assert any(one.get("error") == "builtins.ValueError" for one in facts)
    assert "secret" not in str(facts)


def test_conflicts_come_with_their_rows(served: Served) -> None:
    main = served.db.branch("main")
    main.clone("left")
    main.clone("right")
    for name in ("left", "right"):
        served.db.branch(name).update("orders", [{"id": 9, "city": name}])
    olga = served.client("olga")
    body = {"source": "left", "into": "right"}
    assert not olga.post("/v1/merge/preview", json=body).json()["is_clean"]
    refused = olga.post("/v1/merge", json=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "merge_conflict")
    (row,) = refused.json()["details"]["conflicts"]["orders"]
    assert (row["_ours"]["city"], row["_theirs"]["city"]) == ("right", "left")
    merged = olga.post("/v1/merge", json={**body, "on_conflict": {"orders": "theirs"}})
    assert merged.json()["kind"] == "merge"
