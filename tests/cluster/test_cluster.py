"""A cluster of two workers: it reads, writes and streams, and a lost worker costs only time."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cluster import steps
from tests.cluster.cluster import Cluster
from tests.cluster.driver import Driver
from tests.conftest import ObjectStoreServer

import livingdb

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc"),
]

ROWS = 1_000_000


def loaded(rows: int) -> pd.DataFrame:
    """What `steps.load` loads."""
    number = np.arange(rows)
    data = {"id": number * 7919 % 1_000_003, "v": number * 0.5, "s": (number % 100).astype(str)}
    return pd.DataFrame(data).set_index("id").sort_index()


def upserted(old: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([old[~old.index.isin(new.index)], new]).sort_index()


def same(url: str, name: str, expected: pd.DataFrame) -> None:
    """Whoever opens the database finds these rows in the table, each once."""
    with livingdb.open(url) as db:
        found = db.branch("main").table(name).to_arrow()
    frame = expected.reset_index()
    assert found["id"].to_pylist() == frame["id"].tolist()
    assert np.array_equal(found["v"].to_numpy(), frame["v"].to_numpy())
    assert found["s"].to_pylist() == frame["s"].tolist()


def orphans(db: livingdb.Database) -> set[str]:
    """Packs that do not count; every one that does is there."""
    graph = db._graph
    there = {path.removeprefix("packs/") for path in graph.place.files.list("packs")}
    counted = set(graph.catalog.packs.names())
    assert counted <= there
    return there - counted - {name for name, _ in graph.catalog.packs.retired_packs()}


def until(holds: Callable[[], bool]) -> None:
    last = time.monotonic() + 240
    while not holds():
        assert time.monotonic() < last
        time.sleep(0.02)


@contextmanager
def held_uploads(store: ObjectStoreServer) -> Iterator[set[str]]:
    """Packs on their way to the store wait until the block ends; which ones do."""
    waiting: set[str] = set()
    go = threading.Event()

    def hold(request: str) -> bool:
        method, _, rest = request.partition(" ")
        path = rest.partition("?")[0]
        if method in ("PUT", "POST") and "/packs/" in path and not go.is_set():
            waiting.add(path)
            go.wait(60)
        return False

    before = store.refuse
    store.refuse = hold
    try:
        yield waiting
    finally:
        store.refuse = before
        go.set()


def lose_one(cluster: Cluster) -> None:
    cluster.workers.pop(0).kill()


def test_a_cluster(
    url: str, cluster: Cluster, driver: Driver, s3_server: ObjectStoreServer, tmp_path: Path
) -> None:
    driver.run(steps.ready, 2)
    with livingdb.open(url, author="ann") as db:
        rows = load_and_read(db, url, driver)
        rows = write(db, url, driver, rows)
        stream(db, url, driver, tmp_path)
        assert orphans(db) == set()
        assert db.check().ok
        lose_a_reader(url, cluster, driver, rows, tmp_path)
        lose_a_loader(db, url, cluster, driver, s3_server)
        lose_a_writer(db, url, cluster, driver, rows, s3_server)
        assert db.check().ok


def load_and_read(db: livingdb.Database, url: str, driver: Driver) -> pd.DataFrame:
    driver.run(steps.load, url, "t", ROWS, None)
    rows = loaded(ROWS)
    same(url, "t", rows)
    frame = rows.reset_index()
    groups = frame.groupby("s").agg(n=("id", "count"), least=("id", "min"), v=("v", "sum"))
    wanted = [tuple(row) for row in groups.reset_index().itertuples(index=False)]
    assert driver.run(steps.aggregate, url, "t") == sorted(wanted)
    for condition, chosen in (
        ("id BETWEEN 500000 AND 500099", frame[frame.id.between(500_000, 500_099)]),
        ("id IN (0, 7919, 1000002) OR id = 77", frame[frame.id.isin([0, 7919, 1_000_002, 77])]),
        ("id > 999990 AND s = '7'", frame[(frame.id > 999_990) & (frame.s == "7")]),
    ):
        expected = sorted(tuple(row) for row in chosen.itertuples(index=False))
        assert driver.run(steps.filtered, url, "t", condition) == expected
    return rows


def write(db: livingdb.Database, url: str, driver: Driver, rows: pd.DataFrame) -> pd.DataFrame:
    columns = (10_000, "id * 150 AS id", "-1D * id AS v", "'new' AS s")
    assert driver.run(steps.write, url, "t", "upsert", *columns) is None
    number = np.arange(10_000)
    new = pd.DataFrame({"id": number * 150, "v": -1.0 * number, "s": "new"}).set_index("id")
    rows = upserted(rows, new)
    assert driver.run(steps.write, url, "t", "delete", 1000, "id * 300 AS id") is None
    rows = rows[~rows.index.isin(np.arange(1000) * 300)]
    same(url, "t", rows)
    head = db.branch("main").head
    twice = (1000, "2000000 + id % 999 AS id", "1D AS v", "'x' AS s")
    failure = driver.run(steps.write, url, "t", "upsert", *twice)
    assert failure is not None
    assert "2000000" in failure
    assert "twice" in failure
    assert db.branch("main").head == head
    return rows


def stream(db: livingdb.Database, url: str, driver: Driver, folder: Path) -> None:
    main = db.branch("main")
    main.create_table("events", {"id": "bigint", "v": "double", "s": "string"}, key="id")
    expected = loaded(0)
    source, out = folder / "source", folder / "out"
    source.mkdir()
    changes: list[tuple[Any, ...]] = []
    for number in range(3):
        ids = np.arange(number * 500, number * 500 + 1000)
        new = pd.DataFrame({"id": ids, "v": ids * 1.5 + number, "s": str(number)}).set_index("id")
        path = source / f"{number}.parquet"
        pq.write_table(pa.Table.from_pandas(new.reset_index()), path)
        os.utime(path, (number, number))  # the order that Spark takes them in
        for row in new.itertuples():
            is_old = row.Index in expected.index
            changes.append((number, "update_postimage" if is_old else "insert", row.Index, row.v))
        expected = upserted(expected, new)
    before = len(main.log())
    driver.run(steps.fill, url, "events", str(source), str(folder / "in-checkpoint"))
    same(url, "events", expected)
    assert len(main.log()) == before + 3
    checkpoint = folder / "out-checkpoint"
    driver.run(steps.follow, url, "events", str(out), str(checkpoint))
    assert len(list(checkpoint.glob("commits/[0-9]*"))) == 1 + 3
    feed = pq.read_table(out).to_pandas()
    feed = feed[feed._change_type != "update_preimage"]
    first = feed._commit_sequence.min()
    found = zip(feed._commit_sequence - first, feed._change_type, feed.id, feed.v, strict=True)
    assert sorted(found) == sorted(changes)


# --- losing a worker ----------------------------------------------------------------------------


def replace(cluster: Cluster, driver: Driver) -> None:
    """A new worker for the one that was lost."""
    cluster.add_worker()
    driver.run(steps.ready, 2)


def lose_a_reader(
    url: str, cluster: Cluster, driver: Driver, rows: pd.DataFrame, folder: Path
) -> None:
    marks = folder / "marks"
    marks.mkdir()
    driver.start(steps.slow_sums, url, "t", str(marks))
    until(lambda: len(list(marks.iterdir())) >= 2)
    lose_one(cluster)
    (marks / "go").touch()
    count = len(rows)
    assert driver.result() == (count, count, rows.index.values.sum(), rows.v.sum())
    assert len(list(marks.iterdir())) > 1 + steps.READERS
    replace(cluster, driver)


def lose_a_loader(
    db: livingdb.Database, url: str, cluster: Cluster, driver: Driver, store: ObjectStoreServer
) -> None:
    with held_uploads(store) as waiting:
        driver.start(steps.load, url, "again", 200_000, 4)
        until(lambda: len(waiting) >= 2)
        lose_one(cluster)
    driver.result()
    same(url, "again", loaded(200_000))
    assert len(orphans(db)) <= 1
    replace(cluster, driver)


def lose_a_writer(
    db: livingdb.Database,
    url: str,
    cluster: Cluster,
    driver: Driver,
    rows: pd.DataFrame,
    store: ObjectStoreServer,
) -> None:
    main = db.branch("main")
    before = len(main.log())
    columns = (100_000, "id * 11 AS id", "id * 2D AS v", "'late' AS s")
    with held_uploads(store) as waiting:
        driver.start(steps.write, url, "t", "upsert", *columns)
        until(lambda: len(waiting) >= 2)
        lose_one(cluster)
    assert driver.result() is None
    number = np.arange(100_000)
    new = pd.DataFrame({"id": number * 11, "v": number * 2.0, "s": "late"}).set_index("id")
    same(url, "t", upserted(rows, new))
    assert len(main.log()) == before + 1
    assert len(orphans(db)) <= 2
