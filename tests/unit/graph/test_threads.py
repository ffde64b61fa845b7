"""What threads of one process share: the index over versions, staging and packs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import livingdb
from livingdb.chunks.address import Address
from livingdb.graph.graph import Graph
from livingdb.tables.index import Tree
from livingdb.testing.store_contract import all_bytes, small_chunks

ROUNDS = 300


@pytest.fixture(autouse=True)
def hasty() -> Iterator[None]:
    """Threads take turns very often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    """That of a database with a table of three versions."""
    with livingdb.create(tmp_path / "shop") as db:
        main = db.branch("main")
        main.create_table("orders", {"id": "bigint"}, key="id")
        main.insert("orders", {"id": range(5)})
        main.insert("orders", {"id": range(5, 9)})
        yield db._graph


def while_busy(work: Callable[[], None], *others: Callable[[], object]) -> None:
    """Do the others over and over in threads until the work is done."""
    is_over = threading.Event()

    def again(task: Callable[[], object]) -> None:
        while not is_over.is_set():
            task()

    with ThreadPoolExecutor(len(others)) as pool:
        running = [pool.submit(again, task) for task in others]
        try:
            work()
        finally:
            is_over.set()
        for task in running:
            task.result(timeout=240)


def test_index(graph: Graph) -> None:
    """Versions come and go in one thread while others look at those that stay."""
    index = graph.index
    version = graph.version(graph.snapshots.at(graph.branch("main").head), "orders")
    root = graph.fold(version)
    others = [
        replace(version, address=Address(bytes([number]) * 32), rows=None) for number in range(40)
    ]

    def make() -> None:
        for _ in range(ROUNDS):
            for other in others:
                index.put(other)
                index.set_rows(other.address, 9)
                index.materialize(other.address, Tree(root))
            for other in others:
                assert index.get(other.address) == replace(other, rows=9)
                assert index.tree(other.address) == Tree(root)
            index.forget([other.address for other in others])

    def look() -> None:
        assert index.get(version.address) is not None
        assert index.tree(version.address) == Tree(root)
        near = index.materialized_versions(version.origin, -1, version.depth)
        assert version.address in {found.address for found in near}

    while_busy(make, look, look, index.refresh)
    assert index._unsaved == {}
    assert index._unsaved_trees == {}
    assert index._makers == {}


def test_staging(graph: Graph) -> None:
    """One thread fills it, packs and all, while others find what it holds."""
    chunks = small_chunks(800)
    taken: list[int] = []

    with graph.stage(2_000) as staging:

        def fill() -> None:
            for number, chunk in enumerate(chunks):
                staging.sink(chunk)
                if not number % 100:
                    taken.append(number)

        def find() -> None:
            for number in taken[-2:]:
                assert all_bytes(graph.store.get(chunks[number].address)) == chunks[number].data

        while_busy(fill, find, find)
        staging.finish_packs()
        with graph.catalog.write() as connection:
            staging.write(connection)
            staging.keep()
        staging.publish()
    for chunk in chunks:
        assert all_bytes(graph.store.get(chunk.address)) == chunk.data


def test_packs_that_another_thread_publishes(graph: Graph) -> None:
    """Asking which packs there are never takes a new one for one that is gone."""
    store = graph.store

    def publish() -> None:
        for seed in range(30):
            with graph.stage(100) as staging:
                for chunk in small_chunks(5, seed):
                    staging.sink(chunk)
                staging.finish_packs()
                with graph.catalog.write() as connection:
                    staging.write(connection)
                    staging.keep()
                staging.publish()

    while_busy(publish, store.refresh, store.refresh)
    assert store._gone == {}
    assert set(store.packs.names) == set(graph.catalog.packs.names())
