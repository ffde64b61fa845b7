"""A server as a process: it starts, stops when told, dies without loss, and is not held up."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_flightsql import dbapi as adbc
from tests.server.http.conftest import ARROW, Served

import livingdb
from livingdb import dbapi
from livingdb.server.serve import Server, _listen
from livingdb.server.settings import ServerSettings

CANARY = "canary7f3a"


class Process:
    """`livingdb serve`, and where it is."""

    def __init__(self, db: Path, *options: str):
        words = ["-m", "livingdb", "-o", "json", "--db", str(db), "serve", "--port", "0"]
        self.log = db.parent / "log.jsonl"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, *words, *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "LIVINGDB_AUTHOR": "root"},
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        self.told: dict[str, Any] = json.loads(line)

    def client(self) -> httpx.Client:
        known = {"Authorization": f"Bearer {self.told['token']}"}
        return httpx.Client(base_url=self.told["address"], headers=known, timeout=60.0)


@contextmanager
def process(folder: Path, *options: str) -> Iterator[Process]:
    with livingdb.create(folder / "shop.ldb", engine="embedded") as db:
        db.branch("main").create_table("orders", {"id": "bigint", "city": "string"}, key="id")
    running = Process(folder / "shop.ldb", "--engine", "embedded", *options)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def flight_connection(running: Process, token: str | None = None) -> Any:
    known = f"Bearer {token or running.told['token']}"
    given = {DatabaseOptions.AUTHORIZATION_HEADER.value: known}
    return adbc.connect(running.told["flight_address"], db_kwargs=given, autocommit=True)


def insert(client: httpx.Client, key: int, city: str = "x") -> httpx.Response:
    body = {"rows": [{"id": key, "city": city}]}
    return client.post("/v1/rows/insert", params={"table": "orders"}, json=body)


def test_it_stops_when_it_is_told_and_logs_no_secrets(tmp_path: Path) -> None:
    with process(tmp_path, "--flight-port", "0") as running, running.client() as client:
        assert running.told["flight_address"].startswith("grpc://127.0.0.1:")
        assert insert(client, 1, CANARY).status_code == 200
        assert insert(client, 1, CANARY).status_code == 409
        where = {"table": "orders", "where": f"city = '{CANARY}'"}
        assert client.get("/v1/rows", params=where).json()["rows"] == [{"id": 1, "city": CANARY}]
        wrong = f"SELECT {CANARY} FROM {CANARY}"
        assert client.post("/v1/sql", json={"sql": wrong}).status_code == 404
        assert client.get("/health", headers={"X-Secret": CANARY}).status_code == 200
        with flight_connection(running) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT city FROM orders WHERE city = '{CANARY}'")
            assert cursor.fetchall() == [(CANARY,)]
            with pytest.raises(adbc.Error):
                cursor.execute(wrong)
        with (
            pytest.raises(adbc.Error),
            flight_connection(running, f"ldb_run_{CANARY}") as connection,
        ):
            connection.cursor().execute("SELECT 1")
        counts = client.get("/metrics").text
        for _ in range(500):
            if running.log.read_text().count('"request"') >= 6:
                break
            time.sleep(0.01)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(30) == 0
    text = running.log.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    asked = [line for line in lines if line["event"] == "request"]
    assert {one["operation"] for one in asked} == {
        *("write_rows", "read_rows", "run_sql", "health", "metrics")
    }
    calls = [line for line in lines if line["event"] == "flight call"]
    told = {(one["operation"], one["outcome"], one["user"]) for one in calls}
    assert ("TicketStatementQuery", "ok", "root") in told
    assert "not_found" in {outcome for _, outcome, _ in told}
    assert "unauthenticated" in {outcome for _, outcome, user in told if user is None}
    assert 'flight_calls_total{operation="TicketStatementQuery",outcome="ok"} 1.0' in counts
    assert "livingdb_flight_open_answers 0.0" in counts
    assert [one["status"] for one in asked][:2] == [200, 409]
    assert CANARY not in text
    assert running.told["token"] not in text
    with livingdb.open(tmp_path / "shop.ldb") as db:
        assert len(db.branch("main").table("orders")) == 1


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    with process(tmp_path, "--log-level", "error") as running:
        ready = threading.Semaphore(0)

        def write(first: int) -> None:
            with running.client() as client:
                for key in range(first, first + 10_000):
                    try:
                        if insert(client, key).status_code == 200:
                            acknowledged.append(key)
                            ready.release()
                    except httpx.HTTPError:
                        return

        threads = [threading.Thread(target=write, args=(at * 10_000,)) for at in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(12):
            assert ready.acquire(timeout=60)
        running.process.kill()
        for thread in threads:
            thread.join()
    with livingdb.open(tmp_path / "shop.ldb") as db:
        found = set(db.branch("main").table("orders").to_arrow(["id"])["id"].to_pylist())
        assert set(acknowledged) <= found
        assert len(found) <= len(acknowledged) + 3
        assert db.check().ok


def test_many_ask_at_once(served: Served) -> None:
    async def ask() -> list[int]:
        known = {"Authorization": f"Bearer {served.tokens['rita']}"}
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(
            base_url=served.server.address, headers=known, timeout=120.0, limits=limits
        ) as client:
            asked = [
                client.get("/v1/row", params={"table": "orders", "key": str(at % 100)})
                for at in range(200)
            ]
            return [answer.json()["row"]["id"] for answer in await asyncio.gather(*asked)]

    assert asyncio.run(ask()) == [at % 100 for at in range(200)]


def test_a_slow_client_holds_nobody_up(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop(limits={"stall_seconds": 0.5, "concurrent": 1})
    main = served.db.branch("main")
    main.create_table("large", {"id": "bigint", "text": "string"}, key="id")
    main.insert("large", pa.table({"id": range(200_000), "text": ["x" * 100] * 200_000}))
    host, port = "127.0.0.1", served.server.port
    silent = socket.create_connection((host, port))
    half = socket.create_connection((host, port))
    half.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
    slow = socket.create_connection((host, port))
    slow.sendall(
        f"GET /v1/rows?table=large HTTP/1.1\r\nHost: localhost\r\nAccept: {ARROW}\r\n"
        f"Authorization: Bearer {served.tokens['rita']}\r\n\r\n".encode()
    )
    body = socket.create_connection((host, port))
    body.sendall(
        b"POST /v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{"
    )
    for one in (silent, half, body, slow):
        one.settimeout(30)
    assert slow.recv(1)
    began = time.monotonic()
    assert served.client("olga").get("/health").status_code == 200
    # The share of who is slow is theirs alone, and free again once they are cut off.
    assert served.client("rita").get("/v1/about").status_code == 200
    assert time.monotonic() - began < 25
    assert silent.recv(1) == half.recv(1) == b""
    assert b" 408 " in body.recv(100)
    with pytest.raises((ConnectionResetError, AssertionError)):
        while slow.recv(1 << 20):
            pass
        raise AssertionError("the stream came to an end")
    for one in (silent, half, body, slow):
        one.close()


def test_nothing_is_left_of_who_goes_away(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop(limits={"concurrent": 2})
    main = served.db.branch("main")
    main.create_table("large", {"id": "bigint", "text": "string"}, key="id")
    main.insert("large", pa.table({"id": range(100_000), "text": ["x" * 100] * 100_000}))
    client = served.client("rita")
    for _ in range(6):
        with client.stream(
            "GET", "/v1/rows", params={"table": "large"}, headers={"Accept": ARROW}
        ) as answer:
            next(answer.iter_raw(1000))
    assert client.get("/v1/about").status_code == 200
    for _ in range(1000):  # a server learns a little later that somebody went away
        metrics = served.client("olga").get("/metrics").text
        if "livingdb_requests_running 1.0" in metrics:
            break
        time.sleep(0.01)
    assert "livingdb_requests_running 1.0" in metrics


def self_signed(folder: Path) -> tuple[str, str]:
    """A certificate for this machine, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "server.pem", folder / "server.key"
    form = serialization.Encoding.PEM
    files[0].write_bytes(made.public_bytes(form))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    files[1].write_bytes(key.private_bytes(form, *plain))
    return str(files[0]), str(files[1])


def test_connections_can_be_encrypted(serve_shop: Callable[..., Served], tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    served = serve_shop(certificate=certificate, key=key, flight_port=0)
    assert served.server.flight_address is not None
    assert served.server.flight_address.startswith("grpc+tls://")
    trusted = ssl.create_default_context(cafile=certificate)
    with httpx.Client(base_url=f"https://localhost:{served.server.port}", verify=trusted) as client:
        told = client.post("/v1/login", json={"token": served.tokens["rita"]})
        assert "Secure" in told.headers["set-cookie"]
        assert told.headers["strict-transport-security"]
        assert client.get("/v1/about").json()["user"] == "rita"
    url = f"livingdb+https://rita:{served.tokens['rita']}@localhost:{served.server.port}"
    with dbapi.connect(url, certificate=certificate) as connection:
        assert connection.execute("SELECT count(*) FROM orders").fetchone() == (100,)
    with pytest.raises(dbapi.OperationalError, match="certificate verify failed"):
        dbapi.connect(url)
    with pytest.raises(dbapi.DataError, match="cannot be used"):
        dbapi.connect(url, certificate=key)
    with pytest.raises(dbapi.OperationalError, match=r"no server of LivingDB|does not answer"):
        dbapi.connect(url.replace("+https", ""))


def test_answers_are_sent_at_once_in_however_small_parts() -> None:
    with _listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # what asyncio asks before TCP_NODELAY


def test_a_place_that_is_taken_is_told(served: Served, tmp_path: Path) -> None:
    taken = ServerSettings(port=served.server.port, upkeep=False)
    with pytest.raises(livingdb.StorageFailure, match="cannot listen"):
        Server(served.db, taken).start()
    with pytest.raises(livingdb.InvalidData, match="cannot listen"):
        Server(served.db, ServerSettings(host="no.such.host.invalid", port=0)).start()
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    settings = ServerSettings(port=0, certificate=str(broken), key=str(broken))
    with pytest.raises(livingdb.InvalidData, match="certificate"):
        Server(served.db, settings).start()


def test_small_answers_are_sent_at_once(served: Served) -> None:
    """A socket that is not known as TCP waits for its client before it sends the second part."""
    listening = served.server._socket
    assert listening is not None
    assert listening.proto == socket.IPPROTO_TCP
