"""Garbage is collected again and again while other processes write, clone, merge and drop."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import livingdb
from livingdb import Retention

WRITER = """
import random, sys, livingdb
who, chance = sys.argv[2], random.Random(sys.argv[2])
with livingdb.open(sys.argv[1], engine="embedded", author=who) as db:
    main = db.branch("main")
    for step in range(40):
        try:
            main.upsert("t", {"id": [chance.randrange(300)], "v": [f"{who} {step}"]})
            if step % 7 == 0:
                side = main.clone(f"{who}/{step}")
                side.insert("t", {"id": [1000 + step], "v": ["x" * 100]})
                db.merge(side.name, into="main", on_conflict="theirs")
                db.drop_branch(side.name)
            if step % 11 == 0:
                with main.transaction() as tx:
                    tx.upsert("t", {"id": [5], "v": ["both"]})
        except (livingdb.TransactionConflict, livingdb.AlreadyExists, livingdb.DuplicateKey):
            db.drop_branch(side.name) if side.name in {b.name for b in db.branches()} else None
        assert len(main.table("t").to_arrow()) >= 200
"""


@pytest.mark.slow
def test_collecting_beside_writers(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with livingdb.create(path, engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "string"}, key="id")
        main.insert("t", {"id": range(200), "v": ["a"] * 200})
        main.derive("counted", "SELECT count(*) AS n FROM t", when="immediate")
        writers = [
            subprocess.Popen([sys.executable, "-c", WRITER, str(path), who])
            for who in ("ann", "bo")
        ]
        count = 0
        while any(writer.poll() is None for writer in writers):
            policy = Retention(snapshots=1 + 5 * (count % 3), dropped_days=0, grace_seconds=0)
            db.collect_garbage(policy)
            count += 1
        assert [writer.returncode for writer in writers] == [0, 0]
        assert db.check(deep=True).problems == []
        assert main.head.author in ("ann", "bo")
