"""The chunks of a database that others write to at the same time."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

import livingdb


def test_threads_that_meet_a_new_pack_all_read_it(tmp_path: Path) -> None:
    """Who asks after another thread has found the pack is not told that a chunk is missing."""
    livingdb.create(tmp_path / "db").close()
    with livingdb.open(tmp_path / "db") as reader, livingdb.open(tmp_path / "db") as writer:
        main = writer.branch("main")
        main.create_table("t", {"id": "bigint", "v": "double"}, "id")
        chance = np.random.default_rng(1)
        failures: list[Exception] = []
        for attempt in range(5):
            rows = {"id": np.arange(100_000) + attempt * 100_000, "v": chance.random(100_000)}
            main.insert("t", rows)
            graph = writer._graph
            version = graph.version(graph.resolve("main").snapshot, "t")
            chunks = graph.versions.recipe(version)
            address = getattr(chunks, "root", None) or chunks.chunks[0]
            gate = threading.Barrier(8)

            def read(address: object = address, gate: threading.Barrier = gate) -> None:
                gate.wait()
                try:
                    reader._graph.store.get(address)
                except livingdb.LivingDBError as error:
                    failures.append(error)

            threads = [threading.Thread(target=read) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert failures == []
