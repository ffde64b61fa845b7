"""Attribute groups: what concerns one group touches no chunk of another."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.unit.tables.lab import Lab

from livingdb.chunks.address import Address
from livingdb.chunks.chunk import Chunk
from livingdb.tables.index import Version
from livingdb.tables.layout import Layout
from livingdb.trees.nodes import Entries
from livingdb.trees.scan import Span

ROWS = 5000
GROUPS = [["city"], ["amount", "quantity"]]


def grouped(splitter: str = "content") -> tuple[Lab, Version]:
    columns = {"id": "int", "city": "string", "amount": "double", "quantity": "int", "x": "int"}
    lab = Lab(columns, "id", Layout(splitter, target_rows=256, groups=GROUPS))
    data = {
        "id": list(range(ROWS)),
        "city": [f"city {n % 17}" for n in range(ROWS)],
        "amount": [n / 4 for n in range(ROWS)],
        "quantity": [n % 5 for n in range(ROWS)],
        "x": [n * n % 1000 for n in range(ROWS)],
    }
    return lab, lab.create(data)


def chunks_of(lab: Lab, version: Version) -> list[set[Address]]:
    """Per group, every chunk of its tree."""
    root = lab.index.root(version.address)
    assert root is not None
    forest = lab.versions.forest(version)
    groups = []
    for reader, top in zip(forest.readers, forest.roots(root), strict=True):
        found: set[Address] = set()
        waiting = [top]
        while waiting:
            address = waiting.pop()
            found.add(address)
            node = reader.read(address)
            waiting += node.addresses if isinstance(node, Entries) else []
        groups.append(found)
    return groups


@pytest.mark.parametrize("splitter", ["content", "capacity"])
def test_a_patch_of_one_group_writes_no_chunk_of_another(splitter: str) -> None:
    lab, origin = grouped(splitter)
    version = lab.patch(origin, {"id": [7, 4000], "amount": [-1.0, -2.0]})
    lab.store.written.clear()
    lab.fold(version)
    before, after = chunks_of(lab, origin), chunks_of(lab, version)
    assert [old == new for old, new in zip(before, after, strict=True)] == [True, False, True]
    root = lab.index.root(version.address)
    assert set(lab.store.written) == (after[1] - before[1]) | {root}
    assert lab.versions.rows(version).get(4000) == {
        "id": 4000, "city": "city 5", "amount": -2.0, "quantity": 0, "x": 0,
    }  # fmt: skip


def test_a_patch_of_one_group_opens_no_leaf_of_another() -> None:
    lab, origin = grouped()
    version = lab.patch(origin, {"id": [7], "amount": [-1.0]})
    lab.reopen()
    lab.fold(version)
    read = set(lab.store.read)
    groups = chunks_of(lab, origin)
    assert read & groups[1]
    assert not read & ((groups[0] | groups[2]) - groups[1])


def test_a_delta_carries_only_the_columns_it_sets() -> None:
    lab, origin = grouped()
    lab.store.written.clear()
    lab.patch(origin, {"id": [7], "amount": [-1.0]})
    chunk = Chunk(lab.store.written[0], lab.store.get(lab.store.written[0]))
    assert len(chunk.descriptors) == 3, "the operation, the key and one column"


@pytest.mark.parametrize(
    ("columns", "groups"),
    [
        (["city"], {0}),
        (["amount"], {1}),
        (["quantity", "amount"], {1}),
        (["x"], {2}),
        (["id", "x"], {2}),
        (["x", "city"], {0, 2}),
        (["id"], {0}),
        ([], {0}),
    ],
)
@pytest.mark.parametrize("with_tail", [False, True])
def test_a_scan_reads_only_the_groups_of_its_columns(
    columns: list[str], groups: set[int], with_tail: bool
) -> None:
    lab, origin = grouped()
    chunks = chunks_of(lab, origin)
    version = lab.upsert(origin, {"id": [9999], "city": ["new"]}) if with_tail else origin
    versions = lab.reopen()
    table = versions.rows(version).to_arrow(columns)
    assert table.num_rows == ROWS + with_tail
    read = set(lab.store.read)
    for number, group in enumerate(chunks):
        others = set[Address]().union(*(c for at, c in enumerate(chunks) if at != number))
        assert bool(read & (group - others)) == (number in groups)


def test_counting_reads_no_leaf() -> None:
    lab, origin = grouped()
    leaves = sum(len(group) for group in chunks_of(lab, origin))
    versions = lab.reopen()
    assert versions.rows(origin).count() == ROWS
    assert len(lab.store.read) <= 4 < leaves


def test_rows_of_all_groups_meet_again() -> None:
    lab, origin = grouped()
    version = lab.delete(origin, list(range(0, ROWS, 3)))
    version = lab.upsert(version, {"id": [-5, 3, ROWS + 5], "x": [1, 2, 3]})
    version = lab.patch(version, [{"id": 1, "city": "here"}, {"id": 2, "x": None}])
    expected = lab.rows(version)
    lab.fold(version)
    lab.reopen()
    assert lab.rows(version) == expected
    assert expected[0] == {"id": -5, "city": None, "amount": None, "quantity": None, "x": 1}
    lower = lab.shape.codec.encode_one([3])
    rows = lab.versions.rows(version)
    some = rows.to_arrow(["x", "city"], Span(lower, lab.shape.codec.encode_one([6])))
    assert some == pa.table(
        {"x": [2, 16, 25], "city": [None, "city 4", "city 5"]}, schema=some.schema
    )
