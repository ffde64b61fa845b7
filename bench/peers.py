"""Replay the paper's workloads on LivingDB and on the engines a user would pick instead.

    python -m bench.peers --engines livingdb,doltlite,limit --workloads uniform --commits 500

Each engine replays the same history in its own process and prints one JSON line:
bytes on disk, files, commit latency, point reads, full scans, reads of an old
version, the diff of one commit, blame and a merge.  `limit` is not an engine: it is the base
table and each change, zstd-compressed: what the history weighs as information.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench import workloads


class Engine:
    """One versioned store holding the one table `t`, keyed by `id`."""

    def __init__(self, home: Path):
        self.home = home

    def load(self, base: pa.Table) -> None: ...
    def commit(self, change: workloads.Change) -> None: ...
    def get(self, key: int): ...
    def scan(self) -> int: ...
    def scan_at(self, commit: int) -> int: ...
    def diff(self, commit: int) -> int: ...
    def blame(self) -> int: ...
    def merge(self, ours: workloads.Change, theirs: workloads.Change) -> float: ...
    def compact(self) -> None: ...
    def close(self) -> None: ...


def unable(*_):
    """What an engine does that cannot do something."""
    raise NotImplementedError


class LivingDB(Engine):
    def load(self, base):
        import livingdb

        self.db = livingdb.create(self.home / "shop.ldb")
        self.main = self.db.branch("main")
        self.main.create_table("t", workloads.SCHEMA, key="id")
        self.main.insert("t", base)
        self.ids = [self.main.head.id]

    def commit(self, change):
        with self.main.transaction(message="c") as tx:
            tx.upsert("t", change.upserts)
            if len(change.deletes):
                tx.delete("t", change.deletes)
        self.ids.append(tx.snapshot.id)

    def get(self, key):
        return self.main.table("t").get(key)

    def scan(self):
        return self.main.table("t").to_arrow(columns=["amount"]).num_rows

    def scan_at(self, commit):
        return self.db.at(self.ids[commit]).table("t").to_arrow(columns=["amount"]).num_rows

    def diff(self, commit):
        return len(self.db.diff(self.ids[commit - 1], self.ids[commit])["t"].to_arrow())

    def blame(self):
        return self.db.blame("main", "t").num_rows

    def merge(self, ours, theirs):
        self.main.clone("theirs").upsert("t", theirs.upserts)
        self.main.upsert("t", ours.upserts)
        return timed(self.db.merge, "theirs", "main")

    def compact(self):
        self.db.compact()

    def close(self):
        self.db.close()


class DoltLite(Engine):
    def load(self, base):
        import sqlite3

        import doltlite  # noqa: F401  (must precede sqlite3)

        self.db = sqlite3.connect(str(self.home / "repo.db"), isolation_level=None)
        self.db.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, customer TEXT, city TEXT, amount REAL, "
            "quantity INTEGER)"
        )
        self._write(base, None)
        self.hashes = [self._commit("load")]

    def _write(self, upserts, deletes):
        self.db.execute("BEGIN")
        if deletes is not None and len(deletes):
            self.db.executemany("DELETE FROM t WHERE id=?", [(k,) for k in deletes.to_pylist()])
        cols = [c.to_pylist() for c in upserts.columns]
        self.db.executemany(
            "INSERT OR REPLACE INTO t VALUES (?,?,?,?,?)", list(zip(*cols, strict=True))
        )
        self.db.execute("COMMIT")

    def _commit(self, message):
        return self.db.execute("SELECT dolt_commit('-A','-m',?)", (message,)).fetchone()[0]

    def commit(self, change):
        self._write(change.upserts, change.deletes)
        self.hashes.append(self._commit("c"))

    def get(self, key):
        return self.db.execute("SELECT * FROM t WHERE id=?", (key,)).fetchone()

    def scan(self):
        return self.db.execute("SELECT count(*), sum(amount) FROM t").fetchone()[0]

    def scan_at(self, commit):
        return self.db.execute(
            f"SELECT count(*), sum(amount) FROM dolt_at_t('{self.hashes[commit]}')"
        ).fetchone()[0]

    def diff(self, commit):
        a, b = self.hashes[commit - 1], self.hashes[commit]
        return self.db.execute(
            f"SELECT count(*) FROM dolt_diff_t WHERE from_commit='{a}' AND to_commit='{b}'"
        ).fetchone()[0]

    def blame(self):
        return len(self.db.execute("SELECT * FROM dolt_blame_t").fetchall())

    def merge(self, ours, theirs):
        self.db.execute("SELECT dolt_branch('theirs')")
        self.db.execute("SELECT dolt_checkout('theirs')")
        self.commit(theirs)
        self.db.execute("SELECT dolt_checkout('main')")
        self.commit(ours)
        return timed(lambda: self.db.execute("SELECT dolt_merge('theirs')").fetchall())

    compact = unable

    def close(self):
        self.db.close()


class Delta(Engine):
    def load(self, base):
        from deltalake import DeltaTable, write_deltalake

        write_deltalake(str(self.home), base)
        self.table = DeltaTable(str(self.home))

    def commit(self, change):
        if len(change.deletes):
            marked = change.upserts.append_column("_op", pa.array(["u"] * len(change.upserts)))
            gone = pa.table(
                {
                    f.name: (
                        change.deletes if f.name == "id" else pa.nulls(len(change.deletes), f.type)
                    )
                    for f in workloads.SCHEMA
                },
                schema=workloads.SCHEMA,
            ).append_column("_op", pa.array(["d"] * len(change.deletes)))
            source = pa.concat_tables([marked, gone])
            names = [f.name for f in workloads.SCHEMA]
            (
                self.table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")
                .when_matched_delete("s._op = 'd'")
                .when_matched_update({n: f"s.{n}" for n in names}, "s._op = 'u'")
                .when_not_matched_insert({n: f"s.{n}" for n in names}, "s._op = 'u'")
                .execute()
            )
        else:
            (
                self.table.merge(change.upserts, "t.id = s.id", source_alias="s", target_alias="t")
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .execute()
            )

    def get(self, key):
        import pyarrow.dataset as ds

        return self.table.to_pyarrow_dataset().to_table(filter=ds.field("id") == key)

    def scan(self):
        return self.table.to_pyarrow_table(columns=["amount"]).num_rows

    def scan_at(self, commit):
        from deltalake import DeltaTable

        return (
            DeltaTable(str(self.home), version=commit).to_pyarrow_table(columns=["amount"]).num_rows
        )

    diff = blame = merge = compact = unable


class Lance(Engine):
    def load(self, base):
        import lance

        self.set = lance.write_dataset(base, str(self.home / "t.lance"))
        self.set.create_scalar_index("id", "BTREE")

    def commit(self, change):
        (
            self.set.merge_insert("id")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute(change.upserts)
        )
        if len(change.deletes):
            keys = ",".join(map(str, change.deletes.to_pylist()))
            self.set.delete(f"id IN ({keys})")

    def get(self, key):
        return self.set.to_table(filter=f"id = {key}")

    def scan(self):
        return self.set.to_table(columns=["amount"]).num_rows

    def scan_at(self, commit):
        return self.set.checkout_version(commit + 2).to_table(columns=["amount"]).num_rows

    diff = blame = merge = compact = unable


class Limit(Engine):
    """The information floor: base and changes as one zstd stream each."""

    def load(self, base):
        self._dump(base, "base")
        self.n = 0

    def _dump(self, table, name):
        import zstandard

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as out:
            out.write_table(table)
        (self.home / name).write_bytes(zstandard.compress(sink.getvalue().to_pybytes(), 9))

    def commit(self, change):
        self.n += 1
        self._dump(change.upserts, f"u{self.n}")
        if len(change.deletes):
            self._dump(pa.table({"id": change.deletes}), f"d{self.n}")

    get = scan = scan_at = diff = blame = merge = compact = unable


class PlainSQLite(Engine):
    """No versions at all: how fast the same upserts go into an unversioned database."""

    def load(self, base):
        import sqlite3

        self.db = sqlite3.connect(str(self.home / "plain.db"), isolation_level=None)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=FULL")
        self.db.execute(
            "CREATE TABLE t(id INTEGER PRIMARY KEY, customer TEXT, city TEXT, amount REAL, "
            "quantity INTEGER)"
        )
        DoltLite._write(self, base, None)

    def commit(self, change):
        DoltLite._write(self, change.upserts, change.deletes)

    get, scan = DoltLite.get, DoltLite.scan

    scan_at = diff = blame = merge = compact = unable


ENGINES = {
    "livingdb": LivingDB,
    "doltlite": DoltLite,
    "delta": Delta,
    "lance": Lance,
    "sqlite": PlainSQLite,
    "limit": Limit,
}


def disk_usage(home: Path) -> tuple[int, int]:
    files = [p for p in home.rglob("*") if p.is_file()]
    return sum(p.stat().st_size for p in files), len(files)


def timed(fn, *args):
    start = time.perf_counter()
    fn(*args)
    return (time.perf_counter() - start) * 1e3


def measure(engine_name: str, workload: str, count: int, size: int) -> dict:
    """One engine replays one workload; everything measured on the way."""
    home = Path(tempfile.mkdtemp(prefix=f"{engine_name}-"))
    result = {"engine": engine_name, "workload": workload, "commits": count, "rows": size}
    try:
        base = workloads.base_table(size)
        engine = ENGINES[engine_name](home)
        result["load_ms"] = timed(engine.load, base)
        result["load_bytes"] = disk_usage(home)[0]
        times = [timed(engine.commit, c) for c in workloads.commits(workload, base, count)]
        result["commit_ms_median"] = statistics.median(times)
        result["commit_ms_p95"] = sorted(times)[int(len(times) * 0.95)]
        result["commit_ms_first20"] = statistics.median(times[:20])
        result["commit_ms_last20"] = statistics.median(times[-20:])
        result["bytes"], result["files"] = disk_usage(home)
        keys = np.random.default_rng(3).choice(base["id"].to_numpy(), 50)
        more = list(workloads.commits("uniform", base, 2, seed=77))
        probes = {
            "get_ms": lambda: statistics.median(timed(engine.get, int(k)) for k in keys),
            "scan_ms": lambda: min(timed(engine.scan) for _ in range(3)),
            "scan_at_ms": lambda: min(timed(engine.scan_at, count // 2) for _ in range(3)),
            "diff_ms": lambda: min(timed(engine.diff, count // 2) for _ in range(3)),
            "blame_ms": lambda: min(timed(engine.blame) for _ in range(3)),
            "compact_ms": lambda: timed(engine.compact),
            "compact_bytes": lambda: disk_usage(home)[0],
            "merge_ms": lambda: engine.merge(*_disjoint(more)),
        }
        for name, probe in probes.items():
            try:
                result[name] = probe()
            except NotImplementedError:
                result[name] = None
            except Exception as error:  # a peer that cannot do it says so in the table
                result[name] = f"error: {error}"[:120]
        engine.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return result


def _disjoint(changes):
    """Two changes without a row in common."""
    import pyarrow.compute as pc

    ours, theirs = changes
    apart = pc.invert(pc.is_in(theirs.upserts["id"], value_set=ours.upserts["id"]))
    return ours, workloads.Change(theirs.upserts.filter(apart), theirs.deletes)


def replay(engine: str, workload: str, commits: int, rows: int) -> dict:
    """`measure` in a process of its own: DoltLite takes the place of `sqlite3` in its process."""
    command = [sys.executable, "-m", "bench.peers", "--one", "--engines", engine]
    command += ["--workloads", workload, "--commits", str(commits), "--rows", str(rows)]
    home = Path(__file__).parent.parent
    place = {**os.environ, "PYTHONPATH": str(home)}  # DoltLite starts its process once more
    done = subprocess.run(command, capture_output=True, text=True, cwd=home, env=place, check=False)
    lines = done.stdout.strip().splitlines()
    if lines:
        return json.loads(lines[-1])
    return {"engine": engine, "workload": workload, "error": done.stderr[-400:]}


def main() -> None:
    """Print a JSON line for every engine and workload."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engines", default="limit,sqlite,livingdb,doltlite,delta,lance")
    parser.add_argument("--workloads", default=",".join(workloads.WORKLOADS))
    parser.add_argument("--commits", type=int, default=500)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    for workload in args.workloads.split(","):
        for engine in args.engines.split(","):
            run = measure if args.one else replay
            print(json.dumps(run(engine, workload, args.commits, args.rows)), flush=True)


if __name__ == "__main__":
    main()
