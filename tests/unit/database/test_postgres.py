"""A database whose catalog is in PostgreSQL: the same promises, for many hosts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import create_engine, make_url, text
from tests.conftest import ObjectStoreServer
from tests.crash.scenarios import noise
from tests.crash.writer import ACCOUNTS
from tests.crash.writers import together
from tests.unit.maintenance.canary import places_of

import livingdb
from livingdb import (
    AlreadyExists,
    Database,
    Forbidden,
    Forgotten,
    InvalidName,
    LivingDBError,
    MergeConflict,
    NotFound,
    StorageFailure,
    TransactionConflict,
)
from livingdb.evolution import AddColumn
from livingdb.graph.commit_point import BatchAlreadyStored
from livingdb.maintenance.upkeep.runner import UpkeepReport

CANARY = "hunter2-canary"
ORDERS = {"id": "bigint", "city": "string", "amount": "double"}


def orders(first: int, count: int, city: str = "Oslo") -> list[dict[str, object]]:
    return [{"id": n, "city": city, "amount": float(n)} for n in range(first, first + count)]


@dataclass(frozen=True)
class Place:
    """A PostgreSQL database of its own, and a folder for the data."""

    server: str
    name: str
    folder: Path

    def url(self, data: str | None = None, password: str | None = None) -> str:
        """What `livingdb.open` takes."""
        parsed = make_url(self.server).set(drivername="postgresql", database=self.name)
        if password is not None:
            parsed = parsed.set(password=password)
        parsed = parsed.update_query_dict({"data": data or str(self.folder)})
        return parsed.render_as_string(hide_password=False)


@pytest.fixture
def place(postgres_url: str, tmp_path: Path) -> Iterator[Place]:
    name = f"livingdb_{uuid.uuid4().hex[:12]}"
    engine = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield Place(postgres_url, name, tmp_path / "data")
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def db(place: Place) -> Iterator[Database]:
    with livingdb.create(place.url()) as made:
        made.branch("main").create_table("orders", ORDERS, key="id")
        made.branch("main").insert("orders", orders(0, 20))
        yield made


def ids(rows: livingdb.Table) -> list[int]:
    found: list[int] = rows.to_arrow()["id"].to_pylist()
    return found


def test_create_and_open(place: Place) -> None:
    with pytest.raises(NotFound):
        livingdb.open(place.url())
    with livingdb.create(place.url()) as db:
        assert [branch.name for branch in db.branches()] == ["main"]
        head = db.branch("main").head.id
    with pytest.raises(AlreadyExists):
        livingdb.create(place.url())
    with livingdb.open(place.url()) as db:
        assert db.branch("main").head.id == head
        assert db.check().problems == []


def test_a_batch_of_a_stream_is_in_once(db: Database) -> None:
    main = db.branch("main")
    for number, city in ((0, "Oslo"), (1, "Oslo"), (1, "again")):
        with suppress(BatchAlreadyStored), main.transaction() as tx:
            tx.mark("stream", number)
            tx.upsert("orders", orders(100 + 10 * number, 10, city))
    assert ids(main.table("orders")) == [*range(20), *range(100, 120)]
    assert set(main.table("orders").to_arrow()["city"].to_pylist()) == {"Oslo"}
    assert db._graph.catalog.streams.last("stream") == 1


def test_a_schema_change_in_step(db: Database) -> None:
    main = db.branch("main")
    main.evolve(AddColumn("orders", "vat", "double", default=0.5), keep="old", sync="both")
    db.branch("old").delete("orders", [1])
    main.update("orders", {"id": [2], "vat": [0.1]})
    assert 1 not in ids(main.table("orders"))
    assert len(db.syncs()) == 1
    assert db.check().problems == []


def test_a_place_for_the_data_is_needed(place: Place) -> None:
    without = place.url().partition("?")[0]
    with pytest.raises(InvalidName, match="data="):
        livingdb.open(without)


def test_no_server() -> None:
    with pytest.raises(StorageFailure):
        livingdb.open("postgresql://nobody@127.0.0.1:1/none?data=/tmp/none")


def test_commits(db: Database, place: Place) -> None:
    main = db.branch("main")
    main.upsert("orders", orders(15, 10, "Rome"))
    main.delete("orders", [0, 1])
    with main.transaction(message="both") as tx:
        tx.update("orders", [{"id": 2, "city": "Lima"}])
        tx.insert("orders", orders(100, 1))
    with pytest.raises(livingdb.DuplicateKey):
        main.insert("orders", orders(100, 1))
    with livingdb.open(place.url()) as other:
        table = other.branch("main").table("orders")
        assert ids(table) == [*range(2, 25), 100]
        assert table.get(2)["city"] == "Lima"
        assert table.get(20)["city"] == "Rome"
        assert [snapshot.message for snapshot in other.branch("main").log(1)] == ["both"]
        assert ids(other.at("main~3").table("orders")) == list(range(20))
        assert other.check().problems == []


def test_large_commits_go_to_packs(db: Database, place: Place) -> None:
    main = db.branch("main")
    main.create_table("blobs", {"id": "bigint", "data": "binary"}, key="id")
    rows = noise(0, 90, 64 << 10)
    main.insert("blobs", rows)
    assert list(place.folder.rglob("*.pack"))
    with livingdb.open(place.url()) as other:
        assert other.branch("main").table("blobs").to_arrow()["data"] == rows["data"]
        assert other.check().problems == []


def test_branches_and_merge(db: Database) -> None:
    main = db.branch("main")
    dev = main.clone("dev")
    with pytest.raises(AlreadyExists):
        main.clone("dev")
    dev.upsert("orders", orders(50, 5))
    main.delete("orders", [3])
    db.merge("dev", into="main")
    assert ids(main.table("orders")) == [n for n in (*range(20), *range(50, 55)) if n != 3]
    dev.update("orders", [{"id": 7, "city": "Rome"}])
    main.update("orders", [{"id": 7, "city": "Lima"}])
    with pytest.raises(MergeConflict):
        db.merge("dev", into="main")
    db.merge("dev", into="main", on_conflict="theirs")
    assert main.table("orders").get(7)["city"] == "Rome"
    db.tag("v1", "main")
    main.reset("main~1")
    assert main.table("orders").get(7)["city"] == "Lima"
    assert db.at("v1").table("orders").get(7)["city"] == "Rome"
    db.drop_branch("dev")
    assert db.branches() == ["main"]
    assert db.check().problems == []


def test_conflicts(db: Database, place: Place) -> None:
    with livingdb.open(place.url()) as other:
        one, two = (d.branch("main").transaction() for d in (db, other))
        for tx in (one, two):
            tx.update("orders", [{"id": 1, "amount": 9.0}])
        one.commit()
        with pytest.raises(TransactionConflict):
            two.commit()


def test_compact(db: Database, place: Place) -> None:
    main = db.branch("main")
    for start in range(100, 200, 10):
        main.insert("orders", orders(start, 10))
    expected = {s.id: ids(s.table("orders")) for s in main.log() if s.tables()}
    with livingdb.open(place.url()) as reader:
        assert ids(reader.branch("main").table("orders")) == expected[main.head.id]
        db.compact()
        assert {
            s.id: ids(s.table("orders")) for s in reader.branch("main").log() if s.tables()
        } == (expected)
        reader.branch("main").insert("orders", orders(500, 1))
    assert db.check().problems == []
    assert 500 in ids(main.table("orders"))
    assert db.storage().packs >= 1


def test_writers_at_once(db: Database, place: Place) -> None:
    """Two programs move money between the same accounts."""
    main = db.branch("main")
    main.create_table("accounts", {"id": "bigint", "balance": "bigint"}, key="id")
    main.insert("accounts", [{"id": n, "balance": 100} for n in range(ACCOUNTS)])
    before = len(main.log())
    told = together(place.url(), [("transfer", 40)] * 2)
    log = main.log()
    assert len(log) == before + 80
    for snapshot in log[:81]:
        balances = snapshot.table("accounts").to_arrow()["balance"].to_pylist()
        assert sum(balances) == 100 * ACCOUNTS
    expected = [100] * ACCOUNTS
    for giver, taker, amount in (transfer for part in told for transfer in part["made"]):
        expected[giver] -= amount
        expected[taker] += amount
    assert main.table("accounts").to_arrow()["balance"].to_pylist() == expected
    assert db.check().problems == []


def test_data_in_an_object_store(
    place: Place, s3_server: ObjectStoreServer, s3_bucket: str
) -> None:
    url = place.url(data=s3_server.url(s3_bucket, "shop"))
    rows = noise(0, 90, 64 << 10)
    with livingdb.create(url) as db:
        db.branch("main").create_table("blobs", {"id": "bigint", "data": "binary"}, key="id")
        db.branch("main").insert("blobs", rows)
    with livingdb.open(url) as db:
        assert db.branch("main").table("blobs").to_arrow()["data"] == rows["data"]
        assert db.check().problems == []


def test_garbage_in_an_object_store(
    place: Place, s3_server: ObjectStoreServer, s3_bucket: str
) -> None:
    """What no policy keeps goes, while another one who has the database open writes on."""
    url = place.url(data=s3_server.url(s3_bucket, "cut"))
    policy = livingdb.Retention(snapshots=1, dropped_days=0, grace_seconds=0)
    with livingdb.create(url) as db, livingdb.open(url) as other:
        main = db.branch("main")
        main.create_table("blobs", {"id": "bigint", "data": "binary"}, key="id")
        for number in range(4):
            main.upsert("blobs", noise(0, 20, 4 << 10, seed=number))
        kept = main.table("blobs").to_arrow()
        main.clone("gone").insert("blobs", noise(100, 5, 4 << 10))
        db.drop_branch("gone")
        with other.branch("main").transaction() as tx:
            tx.upsert("blobs", noise(30, 1, 10))
            done = db.collect_garbage(policy)
        assert len(done.snapshots) == 6
        assert done.after_bytes < done.before_bytes
        assert other.branch("main").table("blobs").to_arrow().slice(0, 20) == kept
        with pytest.raises(Forgotten):
            other.at("main~2").table("blobs")
        assert db.check().problems == other.check().problems == []


# --- secrets -------------------------------------------------------------------------------------


def test_secrets_are_not_shown(place: Place) -> None:
    """A server that trusts local users ignores the password; nobody else should see it either."""
    with livingdb.create(place.url(password=CANARY)) as db:
        db.branch("main").create_table("orders", ORDERS, key="id")
        shown = [repr(db), db.name, repr(db.branch("main")), repr(db.at("main")), db._repr_html_()]
        shown += [repr(db._graph.place), str(db.check()), str(db.storage())]
        shown += [repr(snapshot.edge) for snapshot in db.snapshots()]
    assert not [text for text in shown if CANARY in text]


def spilled(url: str) -> str:
    """Every word of the error that opening it raises."""
    with pytest.raises(LivingDBError) as caught:
        livingdb.open(url)
    words: list[str] = []
    error: BaseException | None = caught.value
    while error is not None:
        words += [str(error), repr(error), *getattr(error, "__notes__", [])]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(words)


def test_secrets_are_not_in_errors(place: Place) -> None:
    secret_data = f"s3://key:{CANARY}@bucket/prefix?region=us-east-1"
    for url in (
        place.url(password=CANARY),
        place.url(data=secret_data),
        f"postgresql://user:{CANARY}@127.0.0.1:1/none?data=/tmp/none",
        f"postgresql://user:{CANARY}@127.0.0.1:1/none",
        f"postgresql://user:{CANARY}@127.0.0.1:port/none?data=/tmp/none",
        f"postgresql://user:{CANARY}@no-such-host.invalid/none?data=/tmp/none",
    ):
        assert CANARY not in spilled(url)


def test_read_only(place: Place) -> None:
    """Nothing is written, to the catalog or to the files; what others commit is seen."""
    with livingdb.create(place.url()) as db:
        main = db.branch("main")
        main.create_table("orders", ORDERS, key="id")
        main.insert("orders", orders(0, 5))
        with livingdb.open(place.url(), read_only=True) as other:
            assert other.read_only == "it was opened with read_only=True"
            for act in (
                lambda: other.branch("main").insert("orders", orders(5, 1)),
                lambda: other.branch("main").clone("dev"),
                lambda: other.tag("v1", "main"),
                other.compact,
            ):
                with pytest.raises(Forbidden, match="reading only"):
                    act()
            main.insert("orders", orders(5, 1))
            assert len(other.branch("main").table("orders").to_arrow()) == 6
            assert other.check().problems == []


def test_write_skew_through_other_branches(place: Place) -> None:
    """Of two that read each other's branch and commit at the same moment, one is refused."""
    from concurrent.futures import ThreadPoolExecutor

    with livingdb.create(place.url()) as db:
        main = db.branch("main")
        main.create_table("orders", ORDERS, key="id")
        main.insert("orders", orders(0, 5))
        pair = main.clone("one"), main.clone("two")
        for number in range(5):
            before = [branch.head for branch in pair]
            open_ones = [branch.transaction(isolation="serializable") for branch in pair]
            for tx, other in zip(open_ones, pair[::-1], strict=True):
                tx.sql(f"SELECT sum(amount) FROM {other}.orders")
                tx.update("orders", [{"id": number, "amount": 100.0}])
            with ThreadPoolExecutor(2) as pool:
                ended = [pool.submit(tx.commit).exception(60) for tx in open_ones]
            refused = [error for error in ended if error is not None]
            assert len(refused) in (1, 2)
            assert all(isinstance(error, LivingDBError) for error in refused)
            moved = [b for b, head in zip(pair, before, strict=True) if b.head != head]
            assert len(moved) == 2 - len(refused)


def test_versions_follow_later(place: Place) -> None:
    with livingdb.create(place.url()) as db, livingdb.open(place.url()) as other:
        main = db.branch("main")
        for table in ("orders", "other"):
            main.create_table(table, {"id": "bigint", "v": "double"}, key="id")
            main.insert(table, {"id": [1, 2], "v": [0.0, 0.0]})
        for number in range(5):
            change = AddColumn("orders", f"c{number}", "int", default=number)
            main.evolve([change], keep=f"v{number}", sync="both")
        for value in (1.0, 2.0):
            main.update("other", {"id": [1], "v": [value]})
        assert len(db._graph.catalog.steps.since(0)) == 2
        assert other.branch("v2").table("other").get(1) == {"id": 1, "v": 2.0}
        assert db._graph.catalog.steps.since(0) == []
        other.branch("v0").update("other", {"id": [1], "v": [3.0]})
        main.update("orders", {"id": [2], "v": [4.0]})
        main.update("other", {"id": [2], "v": [5.0]})
        rows = {name: db.branch(name).table("other").to_arrow() for name in ("main", "v0", "v4")}
        assert rows["v0"].equals(rows["main"])
        assert rows["v4"].equals(rows["main"])
        assert not db.check(deep=True).problems


def test_runners_of_many_hosts_share_the_upkeep(db: Database, place: Place) -> None:
    main = db.branch("main")
    main.derive("few", sql="SELECT id FROM orders WHERE amount > 5", engine="embedded")
    main.evolve(AddColumn("orders", "note", "string"))
    for number in range(10):
        main.upsert("orders", [{"id": number, "city": "Rome", "amount": 9.0}])
    rows = main.table("orders").to_arrow()
    reports: list[UpkeepReport] = []

    def keep_up() -> None:
        with livingdb.open(place.url(), engine="embedded") as other:
            reports.append(other.upkeep(seconds=60))

    threads = [Thread(target=keep_up) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reports) == 2
    assert not any(report.failed for report in reports)
    assert {job.state for job in db._graph.catalog.jobs.all().values()} == {"idle"}
    db.upkeep(seconds=60)
    assert db.sync("few").lag == 0
    assert main.table("orders").to_arrow() == rows
    assert db.check().ok
    status = db.status()
    assert status.ok
    assert status.due == []


# --- erasure -------------------------------------------------------------------------------------


def test_erased_rows_leave_a_shared_catalog_and_an_object_store(
    place: Place, s3_server: ObjectStoreServer, s3_bucket: str
) -> None:
    url = place.url(data=s3_server.url(s3_bucket, "people"))
    with livingdb.create(url, engine="embedded") as db, livingdb.open(url) as other:
        main = db.branch("main")
        main.create_table("orders", ORDERS, key="id")
        main.insert("orders", orders(0, 20))
        first = main.upsert("orders", orders(7, 1, CANARY)).id
        db.compact()
        main.upsert("orders", orders(7, 1, f"{CANARY} again"))
        assert other.at(first).table("orders").get(7)["city"] == CANARY
        told = db.erase("orders", [7], reason="asked")
        assert all(what.startswith("pack ") for what in told.waiting)
        assert other.branch("main").table("orders").get(7) is None
        assert other.at(first).table("orders").get(7) is None
        assert len(other.at(first).table("orders")) == 19
        graph = db._graph
        for name, _ in graph.catalog.packs.retired_packs():
            graph.place.files.delete(f"packs/{name}")  # as a day later
        assert places_of(graph, CANARY) == []
        assert db.check().problems == []
