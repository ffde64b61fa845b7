"""Chains of schema versions, each in step with the next: what they cost as they get longer.

In CPU time of this process, so that others on the machine disturb less.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import livingdb
from bench.measure import Result
from livingdb import evolution as ev

SUITE = "chains"
ROWS = 20_000
LONG, LONGEST = 60, 150
COMMIT_ROWS = 6
_ROUNDS = 15

Change = Callable[[int, list[str]], ev.SchemaChange]
"""The change that makes a version of a chain, by its number and the columns before it."""


def orders(count: int) -> pa.Table:
    """Orders."""
    chance = np.random.default_rng(count)
    cities = pa.array([f"city {n}" for n in range(100)])
    return pa.table(
        {
            "id": np.arange(count),
            "city": cities.take(pa.array(chance.integers(0, 100, count))),
            "amount": chance.random(count),
            "quantity": chance.integers(0, 20, count),
        }
    )


def change(number: int, columns: list[str]) -> ev.SchemaChange:
    """The changes of a chain, by turns; every tenth moves a column to a table of its own."""
    turn, kind = divmod(number, 10)
    return (
        ev.AddColumn("orders", f"rate{turn}", "double", default=0.25),
        ev.RenameColumn("orders", f"rate{turn}", f"share{turn}"),
        ev.AddColumn("orders", f"pieces{turn}", "int", default=turn),
        ev.RetypeColumn("orders", f"pieces{turn}", "bigint", policy="reject"),
        ev.AddColumn("orders", f"twice{turn}", "double", computed=f"share{turn} * 2"),
        ev.ReorderColumns("orders", [columns[0], *columns[:0:-1]]),
        ev.AddConstraint("orders", name=f"check{turn}", check=f"pieces{turn} >= 0"),
        ev.DropColumn("orders", f"twice{turn}"),
        ev.AddColumn("orders", f"note{turn}", "string", default="none"),
        ev.Normalize("orders", [f"note{turn}"], f"notes{turn}"),
    )[kind]


def held_change(number: int, columns: list[str]) -> ev.SchemaChange:
    """Changes, by turns, after which there are as many columns and tables as before."""
    return (
        ev.AddColumn("orders", "rate", "double", default=0.25),
        ev.RenameColumn("orders", "rate", "share"),
        ev.AddConstraint("orders", name="positive", check="share >= 0"),
        ev.ReorderColumns("orders", [columns[0], *columns[:0:-1]]),
        ev.DropConstraint("orders", name="positive"),
        ev.DropColumn("orders", "share"),
    )[number % 6]


class _Evolver:
    """Makes one version after the other."""

    def __init__(self, db: livingdb.Database, change: Change):
        self._branch, self._next, self._change = db.branch("main"), 0, change

    def __call__(self) -> float:
        """Make the next; the seconds that it took."""
        number = self._next
        made = self._change(number, self._branch.table("orders").schema.names)
        self._next += 1
        return _cpu(lambda: self._branch.evolve([made], keep=f"v{number}", sync="both"))


def chain(
    home: Path, versions: int, rows: int = ROWS, change: Change = change
) -> tuple[livingdb.Database, _Evolver]:
    """A database with so many versions beside the newest, and what makes more of them."""
    db = livingdb.create(home / f"{change.__name__}-{versions}-{rows}.ldb")
    main = db.branch("main")
    for table in ("orders", "other"):
        main.create_table(table, orders(1).schema, key="id")
        main.insert(table, orders(rows))
        main.table(table).root()
    evolver = _Evolver(db, change)
    for _ in range(versions):
        evolver()
    return db, evolver


def _cpu(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def _median(function: Callable[[], object]) -> float:
    function()
    return statistics.median(_cpu(function) for _ in range(_ROUNDS))


def run() -> Iterator[Result]:
    """All figures of chains."""
    home = Path(tempfile.mkdtemp(prefix="bench-chains-"))
    try:
        with chain(home, 1)[0] as short, chain(home, LONG)[0] as long:
            yield from _read(short, long)
            yield from _committed(short, long)
        yield from _listed(home)
        yield from _held(home)
        yield from _written(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _beside_one(name: str, ours: float, peer: float, bound: float) -> Result:
    title = f"{name}, {LONG} versions"
    return Result(SUITE, title, 1000 * ours, "ms", "one version", 1000 * peer, bound)


def _get(branch: livingdb.Branch) -> None:
    branch.table("orders").get(77)


def _scan(branch: livingdb.Branch) -> None:
    branch.table("orders").to_arrow(["id", "city", "amount", "quantity"])


def _read(short: livingdb.Database, long: livingdb.Database) -> Iterator[Result]:
    for name, read in (
        ("point read of the newest", _get),
        ("scan of four columns of the newest", _scan),
    ):
        ours, peer = (_median(partial(read, db.branch("main"))) for db in (long, short))
        yield _beside_one(name, ours, peer, 2.0)


class _Writer:
    """Commits to a table, each of other rows."""

    def __init__(self, db: livingdb.Database, table: str):
        self._branch, self._table = db.branch("main"), table
        self._chance = np.random.default_rng(7)

    def __call__(self) -> None:
        ids = np.sort(self._chance.choice(ROWS // 10, COMMIT_ROWS, replace=False))
        data = pa.table({"id": ids, "amount": self._chance.random(COMMIT_ROWS)})
        self._branch.update(self._table, data)


class _Inserter:
    """Commits of new rows to the table that all versions have in schemas of their own."""

    def __init__(self, db: livingdb.Database):
        self._branch, self._next = db.branch("main"), ROWS

    def __call__(self) -> None:
        rows = orders(COMMIT_ROWS)
        ids = pa.array(np.arange(self._next, self._next + COMMIT_ROWS))
        self._branch.insert("orders", rows.set_column(0, "id", ids))
        self._next += COMMIT_ROWS


def _committed(short: livingdb.Database, long: livingdb.Database) -> Iterator[Result]:
    ours, peer = (_median(_Writer(db, "other")) for db in (long, short))
    yield _beside_one("commit to a table that no change touches", ours, peer, 1.2)
    ours, peer = (_median(_Writer(db, "orders")) for db in (long, short))
    more = 1000 * (ours - peer) / (LONG - 1)
    yield Result(SUITE, "commit to the table: more for each version", more, "ms", bound=0.4)
    ours, peer = (_median(_Inserter(db)) for db in (long, short))
    more = 1000 * (ours - peer) / (LONG - 1)
    yield Result(SUITE, "insert into the table: more for each version", more, "ms", bound=0.4)


def _listed(home: Path) -> Iterator[Result]:
    changes = [ev.AddColumn("orders", "first", "double", default=0.25)]
    for number in range(33):
        changes += [
            ev.AddColumn("orders", f"a{number}", "double", default=0.25),
            ev.RenameColumn("orders", f"a{number}", f"b{number}"),
            ev.DropColumn("orders", f"b{number}"),
        ]
    with chain(home, 0)[0] as db:
        main = db.branch("main")
        main.evolve(changes[:1], to="one")
        main.evolve(changes, to="list")
        for name, read in (("point read", _get), ("scan", _scan)):
            ours, peer = (_median(partial(read, db.branch(each))) for each in ("list", "one"))
            title = f"{name} after a list of {len(changes)} changes"
            yield Result(SUITE, title, 1000 * ours, "ms", "one change", 1000 * peer, 1.5)


def _evolved(what: str, evolve: _Evolver, evolve_short: _Evolver) -> Result:
    """Twenty more versions, of a long chain and of a short one by turns."""
    pairs = [(evolve_short(), evolve()) for _ in range(20)]
    first, last = map(statistics.median, zip(*pairs, strict=True))
    name = f"evolve with {LONGEST} versions{what}"
    return Result(SUITE, name, 1000 * last, "ms", "with 30", 1000 * first, 1.2)


def _held(home: Path) -> Iterator[Result]:
    """The same where the table does not grow: what is left is due to the versions alone."""
    db, evolve = chain(home, LONGEST - 20, 2_000, held_change)
    short, evolve_short = chain(home, 20, 2_000, held_change)
    with db, short:
        yield _evolved(", as many columns", evolve, evolve_short)


def _written(home: Path) -> Iterator[Result]:
    db, evolve = chain(home, LONGEST - 20, 2_000)
    short, evolve_short = chain(home, 20, 2_000)
    with db, short:
        yield _evolved("", evolve, evolve_short)
        writer = _Writer(db, "orders")
        writer()
        db.compact()
        before, packed = db.storage().journal_bytes, db.storage().pack_bytes
        writer()
        written = db.storage().journal_bytes - before
        name = f"bytes of a commit of {COMMIT_ROWS} rows, {LONGEST} versions"
        yield Result(SUITE, name, written, "B", bound=90_000)
        for _ in range(9):
            writer()
        db.compact()
        kept = (db.storage().pack_bytes - packed) / 10
        yield Result(SUITE, f"{name}, compacted", kept, "B", bound=30_000)
