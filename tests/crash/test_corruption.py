"""Wrong bytes in packs and wrong rows in the catalog: never a wrong value, and `check` finds them.

A read gives what was written or raises one of LivingDB's errors; `check` never raises.
"""

from __future__ import annotations

import io
import random
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.clock import stopped
from tests.crash.scenarios import ORDERS, noise, orders
from tests.ids import counted
from tests.property.trying import HAS_TIME, SEED, tries

import livingdb
from livingdb import Corruption, Database, Layout, LivingDBError
from livingdb.chunks.address import Address
from livingdb.chunks.pack import Pack, PackWriter
from livingdb.chunks.pack_format import HEADER, TRAILER_BYTES, Trailer
from livingdb.chunks.store import StoredChunk
from livingdb.graph.storage.drain_journal import drain_journal

Tables = dict[str, pa.Table]


@dataclass
class Shop:
    """A database with packs and a journal, and the tables of all of its snapshots."""

    path: Path
    snapshots: dict[str, Tables]
    heads: dict[str, str]

    @property
    def packs(self) -> list[Path]:
        return sorted((self.path / "packs").glob("*.pack"))

    def copy(self, target: Path) -> Shop:
        shutil.copytree(self.path, target)
        return Shop(target, self.snapshots, self.heads)

    def read(self, db: Database) -> tuple[int, list[str]]:
        """Read everything; how many tables could not be, and which were wrong."""
        refused, wrong = 0, []
        for address, expected in self.snapshots.items():
            for name, table in expected.items():
                try:
                    found = db.at(f"id:{address}").table(name).to_arrow()
                except LivingDBError:
                    refused += 1
                    continue
                if found != table:
                    wrong.append(f"{name} of {address[:8]}")
                if len(db.at(f"id:{address}").table(name)) != len(table):
                    wrong.append(f"length of {name} of {address[:8]}")
        return refused, wrong

    def look(self, what: str) -> tuple[bool, int]:
        """Open, read and check it: whether the check is clean, and how many reads failed."""
        try:
            with livingdb.open(self.path) as db:
                refused, wrong = self.read(db)
                report = db.check()
                assert wrong == [], what
        except LivingDBError:
            return False, len(self.snapshots)
        except Exception as error:
            error.add_note(what)
            raise
        assert refused == 0 or not report.ok, f"{what}: check does not see what reads meet"
        return report.ok, refused


def build(path: Path) -> Shop:
    """Its bytes are always the same: a few bits of a pack change nothing of what is read."""
    with stopped(), counted(), livingdb.create(path) as db:
        main = db.branch("main")
        layout = Layout(fold=0.3, target_rows=16)
        main.create_table("orders", ORDERS, key="id", layout=layout)
        main.create_table("blobs", {"id": "bigint", "data": "binary"}, key="id")
        main.insert("orders", orders(0, 60))
        main.insert("blobs", noise(0, 8, 40))
        main.upsert("orders", orders(50, 30, 5.0))
        drain_journal(db._graph.store)
        main.clone("dev").delete("orders", [1, 2])
        main.upsert("orders", orders(10, 5, 9.0))
        main.upsert("blobs", noise(6, 4, 40, seed=1))
        db.merge("dev", into="main")
        db.tag("v1", "main~1")
        snapshots = {
            snapshot.id: {name: snapshot.table(name).to_arrow() for name in snapshot.tables()}
            for snapshot in db.snapshots()
        }
        heads = {branch.name: branch.head.id for branch in db.branches()}
        assert db.check().problems == []
    return Shop(path, snapshots, heads)


@pytest.fixture
def shop(folder: Path) -> Shop:
    return build(folder / "shop")


# --- packs ---------------------------------------------------------------------------------------


def put(path: Path, data: bytes) -> None:
    """A new file in the place of the old one, which somebody may have mapped."""
    beside = path.with_suffix(".new")
    beside.write_bytes(data)
    beside.replace(path)


def flip(path: Path, bits: Iterable[int]) -> Iterator[int]:
    """Turn one bit of a file at a time, and back."""
    whole = path.read_bytes()
    for bit in bits:
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        put(path, changed)
        yield bit
    put(path, whole)


def sections(pack: Path) -> dict[str, range]:
    """The bytes of a pack by what they are."""
    data = pack.read_bytes()
    layout = Trailer.from_bytes(data[-TRAILER_BYTES:], len(data), pack.name).layout
    return {
        "header": range(len(HEADER)),
        "body": range(len(HEADER), layout.bodies_end),
        "index": range(layout.digests_at, layout.trailer_at),
        "trailer": range(layout.trailer_at, len(data)),
    }


def flip_bits(shop: Shop, section: str, count: int, seed: int = 0) -> None:
    (pack,) = shop.packs
    places = sections(pack)[section]
    every = [8 * place + bit for place in places for bit in range(8)]
    dice = random.Random(f"{section} {seed}" if seed else section)
    chosen = sorted(dice.sample(every, min(count, len(every))))
    missed = [bit for bit in flip(pack, chosen) if shop.look(f"bit {bit} of {section}")[0]]
    # A few bits of a body say how it is stored and change nothing of what is read.
    spare = len(chosen) // 20 if section == "body" else 0
    assert len(missed) <= spare, missed
    assert shop.look("restored") == (True, 0)


@pytest.mark.parametrize("section", ["header", "body", "index", "trailer"])
def test_some_bits_of_a_pack(shop: Shop, section: str) -> None:
    flip_bits(shop, section, 10)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("section", "bits"), [("header", 500), ("body", 2_000), ("index", 500), ("trailer", 500)]
)
def test_many_bits_of_a_pack(shop: Shop, section: str, bits: int) -> None:
    """Every question is asked of each; of the parts around the bodies, another test tries all."""
    flip_bits(shop, section, tries(bits), SEED)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_bit_around_the_bodies_of_a_pack(shop: Shop) -> None:
    """What `check` asks a pack finds each, and each chunk of it is right or refused."""
    (path,) = shop.packs
    whole = path.read_bytes()
    bodies = {address: bytes(body) for address, body in bodies_of(Pack(whole, path.name))}
    places = sections(path)
    missed = []
    for section in ("header", "index", "trailer"):
        for bit in (8 * place + bit for place in places[section] for bit in range(8)):
            changed = bytearray(whole)
            changed[bit // 8] ^= 1 << bit % 8
            try:
                pack = Pack(bytes(changed), path.name)
                found = pack.verify()
                for address, body in bodies_of(pack):
                    assert bodies.get(address) in (None, bytes(body)) or found, bit
            except Corruption:
                continue
            if not found:
                missed.append(f"bit {bit} of {section}")
    assert missed == []


def bodies_of(pack: Pack) -> Iterator[tuple[Address, bytes]]:
    for address in pack.addresses():
        body = pack.get(address)
        yield address, bytes(body[0 : len(body)])


@pytest.mark.slow
def test_every_truncation_of_the_end_of_a_pack(shop: Shop) -> None:
    (path,) = shop.packs
    whole = path.read_bytes()
    for length in range(max(0, len(whole) - 4096), len(whole)):
        with pytest.raises(Corruption):
            Pack(whole[:length], path.name)


def swap_chunks(shop: Shop, count: int) -> None:
    """Packs that are sound in themselves, but two of whose chunks have changed places."""
    (path,) = shop.packs
    whole = path.read_bytes()
    bodies = dict(bodies_of(Pack(whole, path.name)))
    source = random.Random(SEED + 3)
    for _ in range(count):
        one, two = source.sample(sorted(bodies), 2)
        swapped = {**bodies, one: bodies[two], two: bodies[one]}
        sink = io.BytesIO()
        writer = PackWriter(sink)
        for address, body in swapped.items():
            writer.add(StoredChunk(address, body))
        writer.finish()
        put(path, sink.getvalue())
        assert Pack(sink.getvalue(), path.name).verify() == []
        assert not shop.look(f"{one.hex()[:12]} and {two.hex()[:12]} swapped")[0]
    put(path, whole)


def test_chunks_swapped_in_a_pack(shop: Shop) -> None:
    swap_chunks(shop, 3)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_many_chunks_swapped_in_a_pack(shop: Shop) -> None:
    swap_chunks(shop, tries(200))


def test_a_pack_cut_short(shop: Shop) -> None:
    (pack,) = shop.packs
    whole = pack.read_bytes()
    for length in (0, 1, 15, 16, len(whole) // 2, len(whole) - 150, len(whole) - 1):
        put(pack, whole[:length])
        assert not shop.look(f"{length} bytes")[0]
    put(pack, whole + b"\0")
    assert not shop.look("one byte more")[0]
    pack.unlink()
    assert not shop.look("no pack")[0]


def test_a_pack_in_the_place_of_another(shop: Shop) -> None:
    with livingdb.open(shop.path) as db:
        drain_journal(db._graph.store)
    one, two = shop.packs
    held = one.read_bytes()
    put(one, two.read_bytes())
    assert not shop.look("the same pack twice")[0]
    put(two, held)
    ok, refused = shop.look("swapped")
    assert ok or refused == 0


# --- rows of the catalog -------------------------------------------------------------------------


@dataclass(frozen=True)
class Damage:
    """One value of one row, changed; or, without a column, the row removed."""

    table: str
    column: str | None
    row: int

    def __str__(self) -> str:
        return f"{self.table}.{self.column or '(removed)'}, row {self.row}"


def damages(path: Path, tables: Iterable[str]) -> list[Damage]:
    found = []
    with sqlite3.connect(path / "catalog.db") as connection:
        for table in tables:
            cursor = connection.execute(f"SELECT * FROM {table}")
            columns = [None, *(column[0] for column in cursor.description)]
            rows = len(cursor.fetchall())
            found += [Damage(table, column, row) for column in columns for row in range(rows)]
    connection.close()
    return found


def changed(value: Any) -> Any:
    if isinstance(value, bytes):
        return bytes([*value[:-1], value[-1] ^ 1])
    if isinstance(value, int):
        return value + 1
    return "x" if value is None else f"{value}x"


def do(path: Path, damage: Damage) -> bool:
    """Do it; whether there was something to be done."""
    connection = sqlite3.connect(path / "catalog.db", isolation_level=None)
    cursor = connection.execute(f"SELECT * FROM {damage.table}")
    names = [column[0] for column in cursor.description]
    row = cursor.fetchall()[damage.row]
    where = " AND ".join(f"{name} IS ?" for name in names)
    try:
        if damage.column is None:
            connection.execute(f"DELETE FROM {damage.table} WHERE {where}", row)
            return True
        before = row[names.index(damage.column)]
        if before is None:
            return False
        statement = f"UPDATE {damage.table} SET {damage.column} = ? WHERE {where}"
        connection.execute(statement, (changed(before), *row))
        return True
    except sqlite3.IntegrityError:
        return False
    finally:
        connection.close()


def damage_all(shop: Shop, folder: Path, chosen: Iterable[Damage]) -> list[str]:
    """Those `check` did not see."""
    missed = []
    for number, damage in enumerate(chosen):
        twin = shop.copy(folder / str(number))
        if do(twin.path, damage) and twin.look(str(damage))[0]:
            missed.append(str(damage))
        shutil.rmtree(twin.path)
    return missed


TABLES = (
    "chunk",
    "pack",
    "snapshot",
    "touch",
    "branch",
    "branch_log",
    "tag",
    "version",
    "materialization",
)
UNSEEN = {  # what nothing else in the database says, so that nobody can know better
    "materialization": {"(removed)"},  # a cached answer, made again when it is needed
    "tag": {"(removed)"},
}


def is_known(missed: str) -> bool:
    table, _, rest = missed.partition(".")
    return rest.split(",")[0] in UNSEEN.get(table, set())


@pytest.mark.parametrize("table", TABLES)
def test_a_damaged_row(shop: Shop, folder: Path, table: str) -> None:
    every = damages(shop.path, [table])
    chosen = random.Random(table).sample(every, min(len(every), 12))
    missed = damage_all(shop, folder, chosen)
    assert [what for what in missed if not is_known(what)] == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("table", TABLES)
def test_every_damaged_row(shop: Shop, folder: Path, table: str) -> None:
    missed = damage_all(shop, folder, damages(shop.path, [table]))
    assert [what for what in missed if not is_known(what)] == []


def test_chunks_swapped_in_the_journal(shop: Shop) -> None:
    connection = sqlite3.connect(shop.path / "catalog.db", isolation_level=None)
    (one, held), (two, other), *_ = connection.execute("SELECT address, data FROM chunk")
    for address, data in ((one, other), (two, held)):
        connection.execute("UPDATE chunk SET data = ? WHERE address = ?", (data, address))
    connection.close()
    ok, _ = shop.look("swapped chunks")
    assert not ok


def test_the_tree_of_another_version(shop: Shop) -> None:
    """A materialization that names a sound tree, of the wrong rows."""
    connection = sqlite3.connect(shop.path / "catalog.db", isolation_level=None)
    rows = connection.execute("SELECT version, root FROM materialization").fetchall()
    roots = {root for _, root in rows}
    for version, root in rows:
        other = min(roots - {root})
        connection.execute(
            "UPDATE materialization SET root = ? WHERE version = ?", (other, version)
        )
    connection.close()
    ok, refused = shop.look("wrong trees")
    assert not ok
    assert refused > 0


# --- the catalog's file --------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"not a database" * 500, bytes(8192), b"SQLite format 3\0"])
def test_a_catalog_that_is_none(shop: Shop, content: bytes) -> None:
    put(shop.path / "catalog.db", content)
    with pytest.raises(LivingDBError):
        livingdb.open(shop.path)


def test_a_catalog_cut_short(shop: Shop) -> None:
    file = shop.path / "catalog.db"
    whole = file.read_bytes()
    for pages in range(1, len(whole) // 4096, 5):
        put(file, whole[: pages * 4096])
        shop.look(f"{pages} pages of the catalog")


def test_bytes_of_the_catalog(shop: Shop) -> None:
    """SQLite's own pages: whatever it makes of them, no wrong row comes out of it."""
    file = shop.path / "catalog.db"
    bits = random.Random(7).sample(range(8 * file.stat().st_size), 100 if HAS_TIME else 20)
    for bit in flip(file, bits):
        shop.look(f"bit {bit} of the catalog")


def test_a_schema_of_the_catalog_that_is_no_text(shop: Shop) -> None:
    """SQLite's own words about it have the damaged name in them, which is none."""
    file = shop.path / "catalog.db"
    whole = file.read_bytes()
    place = whole.index(b"indexrun_by_sync") + len(b"index")
    put(file, whole[:place] + b"\xff" + whole[place + 1 :])
    with pytest.raises(Corruption):
        livingdb.open(shop.path)


def test_reads_name_the_damage(shop: Shop) -> None:
    """The error says which pack, and what to do."""
    (pack,) = shop.packs
    pack.unlink()
    with livingdb.open(shop.path) as db, pytest.raises(Corruption, match=pack.name):
        db.at("main").table("orders").to_arrow()
