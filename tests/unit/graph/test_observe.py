"""Observing: what is read and written how is counted, kept within bounds, fades, and can be off."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb
from livingdb import Database, InvalidData, Layout, LivingDBError
from livingdb.catalog import observations
from livingdb.catalog.observations import HALF_LIFE_MICROSECONDS
from livingdb.evolution import RenameColumn
from livingdb.graph.storage import observe
from livingdb.graph.storage.observe import STATEMENTS
from livingdb.tables.read_counts import SAMPLED_MASK, SAMPLED_ROWS

SECRET = "nobody is to know this"
NOW = 1_700_000_000_000_000
ROWS = 3_000
ROW = {"id": [1], "a": ["x"], "b": [1], "c": [1]}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as made:
        main = made.branch("main")
        columns = {"id": "int", "a": "string", "b": "int", "c": "int"}
        main.create_table("t", columns, "id", layout=Layout(target_rows=32))
        main.create_table("u", columns, "id")
        numbers = list(range(ROWS))
        main.insert("t", {"id": numbers, "a": [SECRET] * ROWS, "b": numbers, "c": numbers})
        made._graph.observer.save(NOW)
        with made._graph.catalog.write() as connection:
            made._graph.catalog.observations.clear(connection)
        yield made


def seen(db: Database, now: int = NOW) -> dict[str, dict[str, dict[str, float]]]:
    """What is observed of tables, by their names on main, and of statements."""
    observer = db._graph.observer
    observer.save(now)
    main = db.branch("main")
    names = {main.table(name).definition.id: name for name in main.tables()}
    found = {names.get(subject, subject): counts for subject, counts in observer.known(now).items()}
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def ids(db: Database, *names: str) -> list[str]:
    schema = db.branch("main").table("t").definition.schema
    return sorted(schema.column(name).id for name in names)


def test_what_is_read_how(db: Database) -> None:
    main = db.branch("main")
    table = main.table("t")
    gets = 4 * (SAMPLED_MASK + 1)
    for number in range(gets):
        table.get(ROWS - 1 - number % 10)
    table.to_arrow(["b"])
    main.sql(f"SELECT b, c FROM t WHERE id = 7 AND a = '{SECRET}'")
    main.sql("WITH x AS (SELECT 1 AS one) SELECT one FROM x")
    found = seen(db)
    assert found["t"]["read"]["get"] == gets
    assert found["t"]["read"]["whole"] == 1
    (b,), (c,) = ids(db, "b"), ids(db, "c")
    assert found["t"]["column"][b] >= 2
    assert found["t"]["column"][c] >= 1
    ((place, count),) = found["t"]["place"].items()
    assert int(place) >= 12, "in the last quarter of the keys"
    assert count == gets
    assert found["t"]["tail"] == {"0": SAMPLED_ROWS}
    assert found[STATEMENTS]["times"] == {"select": 2}
    assert found[STATEMENTS]["milliseconds"]["select"] > 0
    assert SECRET not in json.dumps(found)


def test_how_far_what_is_read_is_from_trees_heads_and_lenses(db: Database) -> None:
    main = db.branch("main")
    old = main.head
    for number in range(5):
        main.upsert("t", {"id": [number], "b": [1], "a": [None], "c": [None]})
    for _ in range(SAMPLED_ROWS):
        _ = main.table("t").rows
    for _ in range(SAMPLED_ROWS):
        _ = old.table("t").rows
    main.evolve(RenameColumn("t", "a", "z"))
    for _ in range(SAMPLED_ROWS):
        _ = main.table("t").rows
    found = seen(db)["t"]
    assert found["tail"]["3"] >= SAMPLED_ROWS, "four to seven rows"
    assert found["behind"]["3"] == SAMPLED_ROWS, "four to seven changes ago"
    assert found["read"]["lens"] == SAMPLED_ROWS


def test_what_is_written_together(db: Database) -> None:
    main = db.branch("main")
    for number in range(3):
        main.update("t", {"id": [number], "b": [1], "c": [2]})
    main.delete("t", [7, 8])
    with main.transaction() as tx:
        tx.update("t", {"id": [1], "c": [2]})
        tx.insert("u", {"id": [1], "a": [SECRET], "b": [1], "c": [1]})
    found = seen(db)
    together = " ".join(ids(db, "b", "c"))
    assert found["t"]["written columns"] == {together: 3, ids(db, "c")[0]: 1}
    assert found["t"]["write"] == {"commits": 5, "rows": 6, "deletes": 1}
    assert found["t"]["written with"] == {main.table("u").definition.id: 1}
    assert SECRET not in json.dumps(found)


def test_counts_fade_are_added_and_stay_within_bounds(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = db._graph.catalog
    monkeypatch.setattr(observations, "MOST_SUBJECTS", 3)
    many = {str(number): float(number) for number in range(200)}
    with catalog.write() as connection:
        for number in range(4):
            subjects = {f"s{number}": {"read": {"get": 8.0}, "column": many}}
            catalog.observations.add(connection, NOW + number, subjects)
    known = catalog.observations.all(NOW + 3)
    assert sorted(known) == ["s1", "s2", "s3"]
    assert len(known["s1"]["column"]) == 64
    assert min(known["s1"]["column"].values()) == pytest.approx(136)
    later = NOW + 3 + HALF_LIFE_MICROSECONDS
    with catalog.write() as connection:
        catalog.observations.add(connection, later, {"s3": {"read": {"get": 1.0}}})
    assert catalog.observations.all(later)["s3"]["read"] == {"get": 5.0}
    assert catalog.observations.all(later)["s2"]["read"]["get"] == pytest.approx(4, abs=0.01)
    far = later + 30 * HALF_LIFE_MICROSECONDS
    with catalog.write() as connection:
        catalog.observations.add(connection, far, {"s3": {"read": {"scan": 1.0}}})
    assert catalog.observations.all(far)["s3"]["read"] == {"scan": 1.0}, "the rest is forgotten"
    assert db.check().problems == []


def test_it_is_kept_after_commits_and_at_the_end_if_it_is_worth_it(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = db._graph.observer.known
    with livingdb.open(tmp_path / "db", engine="embedded") as other:
        other.branch("main").table("t").get(5)
    assert known(NOW) == {}, "that was little"
    with livingdb.open(tmp_path / "db", engine="embedded") as other:
        table = other.branch("main").table("t")
        for number in range(1_000):
            table.get(number)
    (counts,) = known(NOW).values()
    assert counts["read"]["get"] == 1_000
    monkeypatch.setattr(observe, "_COMMITS", 3)
    main = db.branch("main")
    for number in range(3):
        assert all("write" not in counts for counts in known(NOW).values())
        main.update("t", {"id": [number], "b": [1]})
    (counts,) = known(NOW).values()
    assert counts["write"]["commits"] == 3


def test_off_is_off_everywhere(db: Database, tmp_path: Path) -> None:
    assert db.tuning == "observe"
    with pytest.raises(InvalidData, match="choose 'observe', 'auto' or 'off'"):
        db.tuning = "perhaps"
    with livingdb.open(tmp_path / "db", author="bob", engine="embedded") as other:
        table = other.branch("main").table("t")
        table.get(1)
        assert other._graph.observer.is_on
        assert seen(db).keys() <= {"t", STATEMENTS}
        db.tuning = "off"
        assert other.tuning == "off"
        table.get(1)
        other.branch("main").update("t", {"id": [1], "b": [1]})
        assert other.branch("main").table("t").rows.counts is None
        other._graph.observer.save(NOW)
        assert seen(db) == {}
        db.tuning = "observe"
        assert other.tuning == "observe"
        other.branch("main").table("t").to_arrow()
        assert seen(other)["t"]["read"]["whole"] == 1
    with livingdb.open(tmp_path / "db", read_only=True) as reader:
        assert reader.tuning == "observe"
        reader.branch("main").table("t").to_arrow()
        with pytest.raises(LivingDBError, match="read"):
            reader.tuning = "off"


def test_what_is_read_together_how_much_and_for_how_long(db: Database) -> None:
    main = db.branch("main")
    table = main.table("t")
    for _ in range(3):
        table.to_arrow(["c", "b"])
    table.to_arrow(["b"], where="c > 2990")
    for number in range(SAMPLED_MASK + 1):
        table.get(number)
    for _ in range(2):
        main.upsert("u", ROW)
    db._graph.fold(db._graph.version(main.head._row, "u"))
    found = seen(db)
    assert found["t"]["read columns"][f"whole {' '.join(ids(db, 'b', 'c'))}"] == 3
    assert found["t"]["rows"]["whole"] == 3 * ROWS
    assert found["t"]["filtered"] == {ids(db, "c")[0]: 1}
    assert 0 < found["t"]["rows"]["filter"] < ROWS, "what zones left of the leaves"
    assert set(found["t"]["microseconds"]) == {"whole", "filter", "get"}
    assert found["t"]["session"] == {"gets": 1}
    assert found["u"]["fold"]["times"] == 1
