"""The index over snapshots: numbers grow along every edge, and skips lead back in few steps."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine
from tests.unit.catalog.conftest import add_snapshot

from livingdb.catalog import schema
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.snapshots import SnapshotRow, Snapshots
from livingdb.catalog.sql.read_queries import Queries
from livingdb.chunks.address import Address, digest
from livingdb.errors import Corruption


def add_line(catalog: Catalog, length: int) -> list[SnapshotRow]:
    """Snapshots each of which is the first parent of the next, in one transaction."""
    rows: list[SnapshotRow] = []
    with catalog.write() as connection:
        for number in range(length):
            address = digest(f"line {number}".encode())
            made = catalog.snapshots.add(
                connection, address, rows[-1:], number, "transaction", "ann", ""
            )
            catalog.snapshots.remember(made)
            rows.append(made)
    return rows


def forgetful(catalog: Catalog) -> Snapshots:
    """The index as somebody sees it who has read nothing yet."""
    return Snapshots(Queries(catalog.engine))


def test_what_was_added_is_read_back(catalog: Catalog) -> None:
    first = add_snapshot(catalog, "first", kind="root")
    left, right = add_snapshot(catalog, "left", first), add_snapshot(catalog, "right", first)
    merged = add_snapshot(catalog, "ö 'merged'", left, right, first, kind="merge")
    assert first.parents == ()
    assert merged.parents == (left.sequence, right.sequence, first.sequence)
    assert first.sequence < left.sequence < right.sequence < merged.sequence
    fresh = forgetful(catalog)
    for row in (first, left, right, merged):
        assert fresh.find(row.address) == row
    assert fresh.at(merged.sequence) is fresh.find(merged.address), "read once"
    assert fresh.find(digest(b"nobody")) is None


def test_a_skip_leads_to_the_depth_without_its_lowest_bit(catalog: Catalog) -> None:
    rows = add_line(catalog, 40)
    assert rows[0].skip is None
    for depth, row in enumerate(rows):
        assert row.depth == depth
        if depth:
            assert row.skip == rows[depth & (depth - 1)].sequence


def test_every_ancestor_is_found_in_few_steps(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = add_line(catalog, 64)
    steps = 0
    read = Snapshots.at

    def counted(self: Snapshots, sequence: int) -> SnapshotRow:
        nonlocal steps
        steps += 1
        return read(self, sequence)

    monkeypatch.setattr(Snapshots, "at", counted)
    for row in rows:
        for depth in range(row.depth + 1):
            steps = 0
            assert catalog.snapshots.ancestor(row, depth) == rows[depth]
            assert steps <= row.depth.bit_length() ** 2, f"from {row.depth} to {depth}"


def test_an_ancestor_follows_the_first_parent(catalog: Catalog) -> None:
    root = add_snapshot(catalog, "root")
    left, right = add_snapshot(catalog, "left", root), add_snapshot(catalog, "right", root)
    merged = add_snapshot(catalog, "merged", right, left)
    assert merged.depth == 2
    assert catalog.snapshots.ancestor(merged, 1) == right
    assert catalog.snapshots.ancestor(merged, 0) == root
    assert catalog.snapshots.ancestor(merged, 5) == merged, "it is not that deep itself"


@pytest.mark.parametrize("change", [{"first": None, "skip": None}, {"first": 3, "skip": 3}])
def test_a_way_back_that_does_not_go_back_is_damage(
    catalog: Catalog, engine: Engine, change: dict[str, int | None]
) -> None:
    rows = add_line(catalog, 3)
    with engine.begin() as connection:
        is_third = schema.snapshot.c.sequence == 3
        SealedRows(schema.snapshot).update(connection, [is_third], change)
    fresh = forgetful(catalog)
    with pytest.raises(Corruption, match="no parent"):
        fresh.ancestor(fresh.at(rows[2].sequence), 0)


def test_a_number_that_nobody_has_is_damage(catalog: Catalog) -> None:
    (row,) = add_line(catalog, 1)
    with pytest.raises(Corruption, match="number 17 is missing"):
        catalog.snapshots.get_many([row.sequence, 17])
    with pytest.raises(Corruption, match="number 17 is missing"):
        catalog.snapshots.at(17)


def test_parents_without_numbers_are_damage(catalog: Catalog, engine: Engine) -> None:
    (row,) = add_line(catalog, 1)
    with engine.begin() as connection:
        SealedRows(schema.snapshot).update(connection, [], {"others": "1,x"})
    with pytest.raises(Corruption, match=row.address.hex()[:12]):
        forgetful(catalog).at(row.sequence)


def test_a_prefix_names_none_one_or_too_many(catalog: Catalog) -> None:
    rows = add_line(catalog, 40)
    fresh = forgetful(catalog)
    for length in (1, 2, 3, 64):
        for row in rows:
            prefix = row.address.hex()[:length]
            alike = [one for one in rows if one.address.hex().startswith(prefix)]
            found = fresh.with_prefix(prefix)
            assert len(found) == min(len(alike), 2)
            assert all(one in alike for one in found)
    unused = next(p for p in map("{:04x}".format, range(100)) if not _any(rows, p))
    assert fresh.with_prefix(unused) == []


def _any(rows: list[SnapshotRow], prefix: str) -> bool:
    return any(row.address.hex().startswith(prefix) for row in rows)


def test_pages_and_windows_and_kinds(catalog: Catalog) -> None:
    rows = add_line(catalog, 11)
    merged = add_snapshot(catalog, "merged", rows[10], rows[3], kind="merge")
    rows.append(merged)
    fresh = forgetful(catalog)
    for page in (1, 5, 12, 4096):
        assert list(fresh.newest_first(page)) == rows[::-1]
    low, high = rows[2].sequence, rows[4].sequence
    assert fresh.window(low, high) == {row.sequence: row for row in rows[2:5]}
    assert fresh.of_kind("merge", 1, merged.sequence) == [merged]
    assert fresh.of_kind("merge", 1, merged.sequence - 1) == []
    assert forgetful(catalog).at_with_prefetch(rows[7].sequence) == rows[7]


def test_what_is_not_committed_is_not_there(catalog: Catalog) -> None:
    address = digest(b"lost")
    with pytest.raises(ZeroDivisionError), catalog.write() as connection:
        catalog.snapshots.add(connection, address, (), 1, "transaction", "ann", "")
        raise ZeroDivisionError
    assert catalog.snapshots.find(address) is None
    assert list(catalog.snapshots.newest_first()) == []


def test_tables_that_snapshots_changed(catalog: Catalog) -> None:
    rows = add_line(catalog, 4)
    numbers = [row.sequence for row in rows]
    versions = [digest(f"version {number}".encode()) for number in range(3)]
    changes: list[dict[str, Address | None]] = [
        {"a": versions[0], "b": versions[1]},
        {},
        {"a": None},
        {"a": versions[2]},
    ]
    with catalog.write() as connection:
        for number, tables in zip(numbers, changes, strict=True):
            catalog.touches.add_all(connection, [(number, tables)])
    between = catalog.touches.changes_between
    assert between("a", numbers[0], numbers[3]) == [
        (numbers[3], versions[2]),
        (numbers[2], None),
        (numbers[0], versions[0]),
    ]
    assert between("a", numbers[1], numbers[2]) == [(numbers[2], None)]
    assert between("b", numbers[1], numbers[3]) == []
    assert between("c", numbers[0], numbers[3]) == []
