"""10,000 requests by clients that are killed at random: nothing is lost, and nothing is left."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
from pathlib import Path

import pytest
from tests.server.http.conftest import ARROW
from tests.server.http.test_serve import process

import livingdb

REQUESTS, THREADS = 10_000, 4
READS = (
    "/v1/rows?table=orders&limit=5",
    "/v1/row?table=orders&key=1",
    "/v1/rows?table=orders",
    "/v1/events",
    "/v1/status",
)


def open_files(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))


def resident_bytes(process: int) -> int:
    pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def half_a_request(address: str, token: str, choice: random.Random) -> None:
    """Ask for something, read a little of the answer or nothing, and be gone."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    text = (
        f"GET {choice.choice(READS)} HTTP/1.1\r\nHost: localhost\r\nAccept: {ARROW}\r\n"
        f"Authorization: Bearer {token}\r\n\r\n"
    ).encode()
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(text[: choice.randint(1, len(text))])
        if choice.random() < 0.5:
            connection.settimeout(0.01)
            with contextlib.suppress(TimeoutError):
                connection.recv(choice.randint(1, 4096))


@pytest.mark.slow
def test_clients_are_killed_at_random(tmp_path: Path) -> None:
    acknowledged: set[int] = set()
    sizes: list[int] = []
    with process(tmp_path, "--log-level", "error", "--no-upkeep") as running:
        server, address = running.process.pid, running.told["address"]

        def ask(thread: int, first: int, count: int) -> None:
            choice = random.Random(thread)
            with running.client() as client:
                for number in range(first, first + count):
                    if choice.random() < 0.5:
                        half_a_request(address, running.told["token"], choice)
                    elif choice.random() < 0.3:
                        key = number * THREADS + thread
                        body = {"rows": [{"id": key, "city": "x"}]}
                        asked = {"table": "orders"}
                        made = client.post("/v1/rows/insert", params=asked, json=body)
                        assert made.status_code == 200
                        acknowledged.add(key)
                    else:
                        asked = {"table": "orders", "limit": "1"}
                        assert client.get("/v1/rows", params=asked).status_code == 200

        part = REQUESTS // THREADS // 10
        for round_number in range(10):
            threads = [
                threading.Thread(target=ask, args=(at, round_number * part, part))
                for at in range(THREADS)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with running.client() as client:
                for _ in range(200):
                    metrics = client.get("/metrics").text
                    if "event_streams 0.0" in metrics and "requests_running 1.0" in metrics:
                        break
                    threading.Event().wait(0.1)
            sizes.append(resident_bytes(server))
            if round_number == 1:
                files = open_files(server)
        assert open_files(server) <= files + 45  # each thread of the pool has a line of its own
        assert sizes[-1] < sizes[2] * 1.25 + (32 << 20)
    with livingdb.open(tmp_path / "shop.ldb") as db:
        found = set(db.branch("main").table("orders").to_arrow(["id"])["id"].to_pylist())
        assert found == acknowledged
        assert db.check().ok


def test_what_the_container_runs_is_there() -> None:
    text = (Path(__file__).parents[3] / "Containerfile").read_text()
    for word in ("USER livingdb", "VOLUME /data", "/health", '"serve"', "[server,postgres,mcp]"):
        assert word in text
    command = text[text.rindex("CMD") :]
    from typer.testing import CliRunner

    from livingdb.cli.app import app

    told = CliRunner().invoke(app, ["serve", "--help"]).output
    for option in ("--host", "--port", "--flight-port", "--engine"):
        assert option in command
        assert option in told
