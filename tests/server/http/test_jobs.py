"""Jobs: long work with progress, a result or an error, and an end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Semaphore
from typing import Any

import httpx
import pytest
from tests.server.http.conftest import Served, serve

import livingdb
from livingdb.errors import InvalidData, LimitExceeded, NotFound
from livingdb.server.http.jobs import Job, Jobs, JsonText
from livingdb.server.settings import Limits

TRAINING, GO_ON, FAILS = Event(), Event(), Event()


def train(_tables: dict[str, Any]) -> bytes:
    """A model whose own Python nothing interrupts."""
    TRAINING.set()
    assert GO_ON.wait(30)
    if FAILS.is_set():
        raise ValueError("no")
    return b"trained"


def test_long_work_is_a_job(olga: httpx.Client, served: Served) -> None:
    view = {"name": "late", "sql": "SELECT city FROM orders GROUP BY city", "when": "deferred"}
    assert olga.post("/v1/views", json={**view, "engine": "embedded"}).status_code == 201
    served.db.branch("main").insert("orders", [{"id": 1000, "city": "Bonn"}])
    (run,) = served.wait(olga, olga.post("/v1/propagate"))["result"]
    assert (run["name"], run["rows"]) == ("late", 1)
    asked: list[tuple[str, dict[str, Any] | None]] = [
        ("/v1/check", {"deep": True}),
        ("/v1/compact", None),
        ("/v1/collect", {"keep": {"days": 1}, "dry_run": True}),
        ("/v1/upkeep", None),
        ("/v1/schema/migrate", {}),
        ("/v1/views/refresh", {"name": "late"}),
        ("/v1/erase", {"table": "orders", "keys": [[1000]], "reason": "asked"}),
    ]
    for path, body in asked:
        job = served.wait(olga, olga.post(path, json=body))
        assert (job["state"], job["error"]) == ("done", None), path
    assert served.db.branch("main").table("orders").get(1000) is None
    listed = olga.get("/v1/jobs").json()["jobs"]
    assert [job["kind"] for job in listed][:2] == ["erase", "refresh"]
    assert served.client("rita").get("/v1/jobs").json() == {"jobs": []}
    assert served.client("rita").get(f"/v1/jobs/{listed[0]['id']}").status_code == 404


def test_files_are_written_where_the_server_says(
    serve_shop: Callable[..., Served], tmp_path: Path
) -> None:
    places = {name: str(tmp_path / name) for name in ("export_folder", "backup_place")}
    served = serve_shop(**places)
    olga = served.client()
    for path, name in (("/v1/export", "../x"), ("/v1/backup", "/x"), ("/v1/export", "")):
        assert olga.post(path, json={"name": name}).json()["code"] == "invalid_name"
    job = served.wait(olga, olga.post("/v1/export", json={"name": "all"}))
    assert job["result"]["rows"] == 100
    assert (tmp_path / "export_folder" / "all" / "orders.parquet").exists()
    job = served.wait(olga, olga.post("/v1/backup", json={"name": "first"}))
    assert job["state"] == "done"
    with livingdb.restore(tmp_path / "backup_place" / "first", tmp_path / "again.ldb") as again:
        assert len(again.branch("main").table("orders")) == 100


def test_a_job_ends_when_it_is_asked_to() -> None:
    seen: list[str] = []
    jobs = Jobs(Limits(jobs=2), lambda job: seen.append(job.state))
    begun, go_on = Event(), Event()

    def work(say: Any) -> None:
        say(1, 10, "first")
        begun.set()
        go_on.wait(30)
        say("never")

    job = jobs.start("test", "ann", work)
    assert begun.wait(30)
    assert (job.done, job.total, job.progress) == (1, 10, "first")
    job.cancel()
    go_on.set()
    assert job.over.wait(30)
    assert (job.state, job.progress) == ("cancelled", "first")
    assert seen[-1] == "cancelled"
    with pytest.raises(NotFound):
        jobs.find(job.id, "bob")

    def fail(error: Exception) -> Any:
        def work(_say: Any) -> None:
            raise error

        return work

    for error, code in ((InvalidData("no"), "invalid_data"), (ValueError("secret"), "internal")):
        failed = jobs.start("test", "ann", fail(error))
        assert failed.over.wait(30)
        assert failed.error is not None
        assert (failed.state, failed.error["code"]) == ("failed", code)
        assert "secret" not in failed.error["message"]
    go_on.clear()
    for _ in range(2):
        jobs.start("test", "ann", work)
    with pytest.raises(LimitExceeded):
        jobs.start("test", "ann", work)
    go_on.set()
    jobs.close(30)
    assert jobs.count("running") == jobs.count("waiting") == 0


def test_nobody_waits_for_the_jobs_of_others() -> None:
    jobs, go_on, at_work = Jobs(Limits()), Event(), Semaphore(0)

    def work(_report: object) -> bool:
        at_work.release()
        return go_on.wait(30)

    held = [jobs.start("test", "ann", work) for _ in range(5)]
    assert at_work.acquire(timeout=30)
    assert at_work.acquire(timeout=30)
    assert jobs.start("test", "bob", lambda _: 1).over.wait(30)
    assert not any(one.over.is_set() for one in held)
    assert jobs.count("waiting") == 3
    go_on.set()
    assert all(one.over.wait(30) for one in held)
    assert jobs.start("test", "ann", lambda _: 1).over.wait(30)
    jobs.close(30)


def test_large_results_are_not_kept_for_ever() -> None:
    jobs = Jobs(Limits())

    def run(size_bytes: int, owner: str = "ann") -> Job:
        text = b'"%s"' % (b"x" * size_bytes)
        job = jobs.start("test", owner, lambda _: JsonText(text))
        assert job.over.wait(30)
        return job

    other = run(4 << 20, "bob")
    small = jobs.start("test", "ann", lambda _: {"n": 1})
    assert small.over.wait(30)
    made = [run(4 << 20) for _ in range(9)]
    jobs.close(30)
    assert [job.id for job in jobs.all("ann")] == [
        *(job.id for job in reversed(made[2:])),
        small.id,
    ]
    assert len(made[-1].result) == 4 << 20
    assert jobs.find(other.id, "bob").result == other.result


def test_a_query_of_a_job_ends_with_it(served: Served) -> None:
    jobs = Jobs(Limits())
    begun = Event()

    def work(_say: Any) -> object:
        begun.set()
        long = "SELECT count(*) FROM range(100000) a, range(100000) b WHERE a.id * b.id % 7 = 3"
        return served.db.branch("main").sql(long, engine="embedded")

    job = jobs.start("test", "ann", work)
    assert begun.wait(30)
    job.cancel()
    assert job.over.wait(30)
    assert job.state == "cancelled"


def test_what_a_cancelled_job_still_makes_is_not_stored(tmp_path: Path) -> None:
    GO_ON.set()
    with livingdb.create(tmp_path / "db", engine="embedded", trust=["tests.*"]) as db:
        main = db.branch("main")
        main.create_table("orders", {"id": "bigint"}, key="id")
        main.derive("forecast", model=f"{__name__}:train", when="on demand")
        main.insert("orders", {"id": [1]})
        head = db.branch("forecast").head
        served = serve(db)
        olga = served.client("olga")

        def refresh() -> httpx.Response:
            return olga.post("/v1/views/refresh", json={"name": "forecast"})

        try:
            for act in (FAILS.clear, FAILS.set):
                act()
                TRAINING.clear()
                GO_ON.clear()
                answer = refresh()
                assert TRAINING.wait(30)
                job = f"/v1/jobs/{answer.json()['id']}"
                assert olga.get(job).json()["state"] == "running"
                told = olga.post(f"{job}/cancel").json()
                assert (told["state"], told["ended"]) == ("cancelling", None)
                assert olga.get(job).json()["state"] == "cancelling"
                GO_ON.set()
                ended = served.wait(olga, answer)
                assert (ended["state"], ended["result"]) == ("cancelled", None)
                assert db.branch("forecast").head == head
                assert db.sync("forecast").state == "active"
            FAILS.clear()
            assert served.wait(olga, refresh())["state"] == "done"
            assert db.branch("forecast").head != head
        finally:
            GO_ON.set()
            FAILS.clear()
            served.close()


def test_any_answer_may_come_later_as_a_job(olga: httpx.Client, served: Served) -> None:
    later = {"Prefer": "wait=1, respond-async"}

    def ask(path: str, client: httpx.Client = olga, **given: Any) -> dict[str, Any]:
        answer = client.request(given.pop("method", "POST"), path, headers=later, **given)
        assert answer.headers["Preference-Applied"] == "respond-async"
        assert answer.headers["Location"] == f"/v1/jobs/{answer.json()['id']}"
        return served.wait(client, answer)

    asked = {"table": "orders", "branch": "dev/one"}
    job = ask("/v1/rows/insert", params=asked, json={"rows": [{"id": 2000, "city": "Bonn"}]})
    assert (job["kind"], job["state"]) == ("write_rows", "done")
    assert job["result"]["id"] == served.db.branch("dev/one").head.id
    job = ask("/v1/merge", json={"source": "dev/one", "into": "main"})
    assert served.db.branch("main").table("orders").get(2000) is not None
    assert job["result"]["author"] == "olga"
    job = ask("/v1/sql", json={"sql": "SELECT city FROM orders WHERE id = 2000"})
    assert job["result"]["rows"] == [{"city": "Bonn"}]
    job = ask("/v1/graph", method="GET", params={"format": "svg"})
    assert job["result"].startswith("<svg")
    # What goes wrong is told as it would have been, and rights are those of who asks.
    job = ask("/v1/sql", json={"sql": "SELECT nothing FROM orders"})
    assert (job["state"], job["error"]["code"]) == ("failed", "not_found")
    job = ask("/v1/merge", served.client("rita"), json={"source": "main~1", "into": "main"})
    assert (job["state"], job["error"]["code"]) == ("failed", "forbidden")
    assert olga.post("/v1/sql", headers=later, json={"sql": 1}).status_code == 202
    # What is about the connection, and what is a job already, is answered as ever.
    assert olga.post("/v1/sql/sessions", headers=later, json={}).status_code == 201
    assert olga.get("/v1/jobs", headers=later).status_code == 200
    assert "Preference-Applied" not in olga.post("/v1/compact", headers=later).headers
    assert olga.get("/v1/nothing", headers=later).status_code == 404


def test_what_is_answered_later_has_time_and_an_end(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop(limits={"seconds": 0.5})
    olga = served.client()
    long = "SELECT count(*) FROM range(100000) a, range(100000) b WHERE a.id * b.id % 7 = 3"
    told = olga.post("/v1/sql", json={"sql": long}).json()
    assert told["code"] == "limit_exceeded"
    assert "Prefer: respond-async" in told["message"]
    answer = olga.post("/v1/sql", json={"sql": long}, headers={"Prefer": "respond-async"})
    time.sleep(1)
    place = answer.headers["Location"]
    assert olga.get(place).json()["state"] == "running"
    olga.post(f"{place}/cancel")
    assert served.wait(olga, answer)["state"] == "cancelled"
    many = {"sql": "SELECT id, repeat('x', 1000) AS x FROM range(9000)"}
    answer = olga.post("/v1/sql", json=many, headers={"Prefer": "respond-async"})
    assert served.wait(olga, answer)["error"]["code"] == "limit_exceeded"
