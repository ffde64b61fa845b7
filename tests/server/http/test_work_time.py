"""The time of a request: scans of tables end with it, and waiting for a client does not count."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread

import httpx
import numpy as np
import pyarrow as pa
import pytest
from tests.server.http.conftest import ARROW, Served

ROWS = 400_000
TABLE = {"table": "noise"}


def fill(served: Served) -> None:
    """Rows that are more than what sockets hold."""
    data = np.random.default_rng(1).integers(0, 2**63, (ROWS, 4))
    columns = {f"c{number}": data[:, number] for number in range(4)}
    main = served.db.branch("main")
    main.create_table("noise", {"id": "bigint", **dict.fromkeys(columns, "bigint")}, key="id")
    main.insert("noise", pa.table({"id": np.arange(ROWS), **columns}))


@pytest.mark.slow
def test_a_slow_client_has_as_much_time_as_a_fast_one(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop(limits={"seconds": 3.0})
    fill(served)
    with served.client().stream("GET", "/v1/rows", params=TABLE, headers={"Accept": ARROW}) as told:
        assert told.status_code == 200
        parts = told.iter_raw()
        whole = [next(parts)]
        time.sleep(4.0)
        whole += parts
    assert pa.ipc.open_stream(b"".join(whole)).read_all().num_rows == ROWS


def test_a_scan_ends_with_its_time(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop(limits={"seconds": 0.001})
    fill(served)
    try:
        told = served.client().get("/v1/rows", params=TABLE, headers={"Accept": ARROW})
    except httpx.RemoteProtocolError:
        return  # it had begun: what was sent ends too early for anybody to take it for whole
    assert (told.status_code, told.json()["code"]) == (429, "limit_exceeded")


def test_a_server_that_stops_stops_what_is_at_work(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop(stop_seconds=2.0)
    olga, head = served.client(), served.db.branch("main").head.id
    session = olga.post("/v1/sql/sessions", json={}).json()["id"]
    olga.post(f"/v1/sql/sessions/{session}/statements", json={"sql": "BEGIN"})
    long = "SELECT 1000 + count(*) FROM range(100000) a, range(100000) b WHERE a.id * b.id % 7 = 3"
    answers: list[httpx.Response] = []

    def ask(path: str) -> None:
        said = {"sql": f"INSERT INTO orders (id) {long}"}
        answers.append(served.client().post(path, json=said))

    paths = "/v1/sql", f"/v1/sql/sessions/{session}/statements"
    threads = [Thread(target=ask, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    began = time.monotonic()
    served.server.stop()
    assert time.monotonic() - began < 20
    for thread in threads:
        thread.join(30)
    assert [(one.status_code, one.json()["code"]) for one in answers] == [
        (429, "limit_exceeded")
    ] * 2
    assert all("the server stops" in one.json()["message"] for one in answers)
    assert served.db.branch("main").head.id == head
