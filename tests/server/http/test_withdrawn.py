"""Rights and names that change while something is open: what was taken is gone there, too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import httpx
from tests.server.http.conftest import Served

ORDER = {"id": 1000, "city": "on main alone"}


def run(client: httpx.Client, session: str, sql: str) -> httpx.Response:
    return client.post(f"/v1/sql/sessions/{session}/statements", json={"sql": sql})


def open_session(client: httpx.Client) -> str:
    """A session on main with a transaction that has read."""
    session: str = client.post("/v1/sql/sessions", json={"branch": "main"}).json()["id"]
    for sql in ("BEGIN", "SELECT count(*) AS n FROM orders"):
        assert run(client, session, sql).status_code == 200
    return session


def refusals(served: Served, person: str) -> list[str]:
    """What somebody was refused, newest first."""
    rows = served.db.people.audit().to_pylist()
    return [r["details"] for r in rows if (r["person"], r["outcome"]) == (person, "refused")]


def test_an_open_transaction_reads_no_more(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop()
    served.db.people.grant("will", role="reader", branches="main")
    served.db.branch("main").insert("orders", [ORDER])
    will = served.client("will")
    session = open_session(will)
    served.db.people.withdraw("will", "reader", "main")
    for sql in ("SELECT * FROM orders", "SELECT * FROM main.orders", "DESCRIBE orders"):
        answer = run(will, session, sql)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), answer.text
    assert will.get(f"/v1/sql/sessions/{session}/tables").status_code == 404
    assert run(will, session, "ROLLBACK").status_code == 200


def test_a_write_is_refused_when_it_is_asked_for(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop()
    served.db.people.grant("will", role="reader", branches="main")
    will = served.client("will")
    session = open_session(will)
    place = f"/v1/sql/sessions/{session}"

    def is_refused(answer: httpx.Response) -> None:
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), answer.text
        assert "will may not write to 'main'" in answer.json()["message"]
        assert "will may not write to 'main'" in refusals(served, "will")[0]

    for sql in ("DELETE FROM orders", "UPDATE orders SET city = 'x' WHERE id = -1"):
        is_refused(run(will, session, sql))
    rows = {"rows": [{"id": 1000}]}
    is_refused(will.post(f"{place}/rows", params={"table": "orders"}, json=rows))
    assert run(will, session, "SELECT count(*) AS n FROM orders").json()["rows"] == [{"n": 100}]
    assert run(will, session, "COMMIT").status_code == 200
    served.db.people.grant("will", role="writer", branches="main")
    for sql in ("BEGIN", "DELETE FROM orders WHERE id = 1"):
        assert run(will, session, sql).status_code == 200
    served.db.people.withdraw("will", "writer", "main")
    is_refused(run(will, session, "DELETE FROM orders WHERE id = 2"))
    is_refused(run(will, session, "COMMIT"))
    assert len(served.db.branch("main").table("orders")) == 100


def test_things_belong_to_a_user_and_not_to_a_name(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop()
    served.db.people.add("ann", role="maintainer")
    served.tokens["ann"] = served.db.people.issue_token("ann")
    before = served.client("ann")
    session = open_session(before)
    job = served.wait(before, before.post("/v1/check", json={}))
    assert job["state"] == "done"
    served.db.people.remove("ann")
    served.db.people.add("ann", role="reader", branches="dev/*")
    served.tokens["ann"] = served.db.people.issue_token("ann")
    after = served.client("ann")
    assert after.get("/v1/sql/sessions").json()["sessions"] == []
    assert run(after, session, "SELECT * FROM orders").status_code == 404
    assert after.delete(f"/v1/sql/sessions/{session}").status_code == 404
    assert after.get("/v1/jobs").json()["jobs"] == []
    assert after.get(f"/v1/jobs/{job['id']}").status_code == 404


@contextmanager
def listening(client: httpx.Client) -> Iterator[tuple[list[str], Event]]:
    """The events that somebody hears, and whether the stream has ended."""
    heard: list[str] = []
    begun, ended = Event(), Event()

    def listen() -> None:
        with client.stream("GET", "/v1/events") as answer:
            for line in answer.iter_lines():
                heard.append(line)
                begun.set()
        ended.set()

    thread = Thread(target=listen, daemon=True)
    thread.start()
    assert begun.wait(30)
    yield heard, ended
    client.close()
    thread.join(30)


def wait_for(is_so: Callable[[], bool]) -> None:
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it does not happen")


def test_events_are_told_by_the_rights_there_are_now(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop()
    db = served.db
    db.people.grant("will", role="reader", branches="main")
    with listening(served.client("will")) as (heard, ended):
        db.branch("main").insert("orders", [ORDER])
        wait_for(lambda: any('"main"' in line for line in heard))
        db.people.withdraw("will", "reader", "main")
        heard.clear()
        db.branch("main").insert("orders", [{"id": 1001}])
        db.branch("dev/one").insert("orders", [{"id": 1001}])
        wait_for(lambda: any('"dev/one"' in line for line in heard))
        assert not any('"main"' in line for line in heard)
        heard.clear()
        db.people.revoke(db.people.tokens("will")[0].id)
        db.branch("dev/one").insert("orders", [{"id": 1002}])
        assert ended.wait(30)
        assert not any("dev/one" in line for line in heard)


def test_what_a_job_is_refused_is_in_the_audit_trail(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop()
    will = served.client("will")
    asked: dict[str, dict[str, Any]] = {
        "/v1/check": {"json": {}},
        "/v1/collect": {"json": {}},
        "/v1/compact": {},
        "/v1/upkeep": {},
        "/v1/tune": {"json": {}},
        "/v1/propagate": {},
        "/v1/schema/migrate": {"json": {"branch": "dev/one"}},
    }
    for path, body in asked.items():
        before = len(refusals(served, "will"))
        job = served.wait(will, will.post(path, **body))
        assert job["error"]["code"] == "forbidden", path
        new = refusals(served, "will")
        assert len(new) == before + 1, path
        assert "will may not" in new[0]


def test_a_job_that_waited_has_the_rights_there_are_now(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop()
    served.db.people.add("ann", role="owner")
    served.tokens["ann"] = served.db.people.issue_token("ann")
    ann, go_on = served.client("ann"), Event()
    jobs = served.server.app.context.jobs
    own = served.db.people.find("ann").key
    held = [jobs.start("test", own, lambda _: go_on.wait(60)) for _ in range(2)]
    erasure = {"table": "orders", "keys": [[1]], "reason": "asked for", "branch": "main"}
    answer = ann.post("/v1/erase", json=erasure)
    served.db.people.withdraw("ann", "owner")
    served.db.people.grant("ann", role="reader")
    go_on.set()
    job = served.wait(ann, answer)
    assert job["error"]["code"] == "forbidden"
    assert all(one.over.wait(30) for one in held)
    assert served.db.branch("main").table("orders").get(1) is not None
