"""The seam for recipes that are neither rows nor a change."""

import pyarrow.compute as pc
import pytest

from livingdb.chunks.memory import MemoryStore
from livingdb.errors import Unsupported
from livingdb.tables import ingest
from livingdb.tables.evict import evict
from livingdb.tables.index import MemoryIndex
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition, Derived
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions

SCHEMA = TableSchema.of({"id": "bigint", "city": "string"}, "id")
DEFINITION = Definition(SCHEMA, Layout())


class OnlyCity:
    """Rows of one version whose city is the one named."""

    def __init__(self):
        self.calls = 0

    def definition(self, recipe):
        return DEFINITION.to_chunk().address

    def rows(self, recipe, versions):
        return None

    def root(self, recipe, versions, forest, sink):
        self.calls += 1
        source = versions.index.get(bytes.fromhex(recipe.data["input"]))
        table = versions.rows(source).to_arrow()
        table = table.filter(pc.equal(table["city"], recipe.data["city"]))
        columns, _ = ingest.sorted_rows(SCHEMA, forest.shape, table)
        return forest.build([columns], sink)


@pytest.fixture
def world():
    store = MemoryStore()
    evaluator = OnlyCity()
    versions = Versions(store, MemoryIndex(), {"only_city": evaluator})

    def sink(chunk):
        store.put([chunk])

    shape = DEFINITION.layout.grouping(SCHEMA).row_shape
    rows = {"id": [1, 2, 3], "city": ["Oslo", "Lima", "Oslo"]}
    columns, _ = ingest.sorted_rows(SCHEMA, shape, rows)
    base = versions.create(DEFINITION, [columns], sink)
    recipe = Derived("only_city", {"input": base.address.hex(), "city": "Oslo"})
    return versions, evaluator, base, versions.derive(recipe, sink), sink


def test_a_derived_version_is_evaluated_when_read_and_can_be_evicted(world):
    versions, evaluator, _, derived, _ = world
    assert evaluator.calls == 0
    expected = [{"id": 1, "city": "Oslo"}, {"id": 3, "city": "Oslo"}]
    assert versions.rows(derived).to_arrow().to_pylist() == expected
    assert versions.rows(derived).get(3) == expected[1]
    assert evaluator.calls == 1
    assert evict(versions, derived)
    assert versions.rows(derived).to_arrow().to_pylist() == expected
    assert evaluator.calls == 2


def test_changes_lie_over_a_derived_version(world):
    versions, _, _, derived, sink = world
    changes = ingest.upserts(SCHEMA, versions.forest(derived).shape, {"id": [9], "city": ["Quito"]})
    after = versions.change(derived, changes, sink)
    assert versions.rows(after).to_arrow()["id"].to_pylist() == [1, 3, 9]
    assert versions.count(after) == 3


def test_a_kind_nobody_evaluates_is_refused(world):
    versions, *_, sink = world
    with pytest.raises(Unsupported, match="'dream'"):
        versions.derive(Derived("dream", {}), sink)


def test_rows_are_data_and_never_evicted(world):
    versions, _, base, *_ = world
    assert not evict(versions, base)
    assert versions.rows(base).to_arrow().num_rows == 3
