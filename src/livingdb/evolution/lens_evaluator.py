"""Recipes that are a schema change: the rows of other versions, seen through a lens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.lenses.row_lens import RowLens
from livingdb.evolution.lenses.sides import VersionSide
from livingdb.evolution.schema_change import SchemaChange, unlock_changes
from livingdb.graph.graph import Graph
from livingdb.tables import ingest
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition, Derived
from livingdb.tables.row_projection import RowProjection
from livingdb.tables.rows import RowSet
from livingdb.tables.secondary_tree import RowSource
from livingdb.tables.versions import Versions
from livingdb.tables.virtual_forest import MappedForest
from livingdb.trees.builder import Sink
from livingdb.trees.delta import DELETE, UPSERT, Delta
from livingdb.trees.forest import Forest

__all__ = [
    "KIND",
    "LensEvaluator",
    "lens_recipe",
    "planned_lens",
    "store_rows",
    "underlying_version",
]

KIND = "lens"
LAZY = "lazy"
"""What the data of a recipe has where rows are stored when they are first read."""
_CARRIED_ROWS = 10_000  # of changes over rows that are mapped, which a lens over them takes along


def lens_recipe(
    change: SchemaChange,
    inputs: Mapping[str, Version],
    part: str,
    definition: Address,
    lazy: bool = False,
) -> Derived:
    """The recipe of one new table of a change; `lazy`: its first reader stores its rows."""
    return Derived(
        KIND,
        {
            "change": change.to_json(),
            "inputs": {name: version.address.hex() for name, version in inputs.items()},
            "part": part,
            "definition": definition.hex(),
            **({LAZY: True} if lazy else {}),
        },
    )


class LensEvaluator:
    """Answers for the recipes of schema changes; `trust`: who may be asked for keys of masks."""

    def __init__(self, trust: Sequence[str] = ()) -> None:
        self._trust = tuple(trust)
        self._planned = lru_cache(maxsize=256)(planned_lens)

    def definition(self, recipe: Derived) -> Address:
        """The definition of the new table."""
        return Address(bytes.fromhex(recipe.data["definition"]))

    def inputs(self, recipe: Derived, versions: Versions) -> dict[str, Version]:
        """The versions the recipe names."""
        return {
            name: versions.require(Address(bytes.fromhex(text)))
            for name, text in recipe.data["inputs"].items()
        }

    def lens(self, recipe: Derived, versions: Versions) -> Lens:
        """The lens on the tables the recipe names."""
        return self._planned(*self.texts(recipe, versions))

    def texts(self, recipe: Derived, versions: Versions) -> tuple[str, str]:
        """The change and the tables it is made on, as text from which the lens is planned."""
        inputs = self.inputs(recipe, versions)
        definitions = {name: versions.definition(v).to_json() for name, v in inputs.items()}
        return json.dumps(recipe.data["change"]), json.dumps(definitions, sort_keys=True)

    def rows(self, recipe: Derived, versions: Versions) -> RowSet | None:
        """The rows, mapped as they are read, where every row is carried on its own.

        What is to be masked when it is first read is stored then, all of it.
        """
        if recipe.data.get(LAZY):
            return None
        lens, inputs = self.lens(recipe, versions), self.inputs(recipe, versions)
        return _mapped_rows(versions, lens, inputs, recipe.data["part"], recipe.to_chunk().address)

    def forget_rows(self) -> None:
        """Nothing is kept but lenses, which hold no rows."""

    def row_source(self, recipe: Derived, versions: Versions) -> RowSource | None:
        """The version whose rows are carried one by one, if all have their place."""
        part = recipe.data["part"]
        made = None if recipe.data.get(LAZY) else self.lens(recipe, versions).row_map(part)
        if made is None:
            return None
        source = self.inputs(recipe, versions)[made.source]
        new = versions.definition(versions.require(recipe.to_chunk().address)).schema
        old = versions.definition(source).schema
        if [c.type for c in old.key_columns] != [c.type for c in new.key_columns]:
            return None
        names = {(column.id, column.type): column.name for column in old.columns}
        same = {c.name: names[c.id, c.type] for c in new.columns if (c.id, c.type) in names}
        return RowSource(source, same)

    def root(self, recipe: Derived, versions: Versions, forest: Forest, sink: Sink) -> Address:
        """The root of all rows, made now."""
        if recipe.data.get(LAZY):
            unlock_changes([SchemaChange.from_json(recipe.data["change"])], self._trust)
        lens, part = self.lens(recipe, versions), recipe.data["part"]
        inputs = self.inputs(recipe, versions)
        mapped = _mapped_rows(versions, lens, inputs, part, recipe.to_chunk().address)
        batches = _stored_batches(versions, lens, inputs, part, mapped)
        return forest.build(batches, sink)


def store_rows(
    versions: Versions, lens: Lens, inputs: Mapping[str, Version], part: str, sink: Sink
) -> Version:
    """A new table of a change as rows of its own, which say nothing of what they were made of."""
    definition = lens.new[part]
    same = lens.unchanged_source(part)
    if same is not None:
        return versions.relabel(inputs[same], definition, sink)
    address = definition.to_chunk().address
    mapped = _mapped_rows(versions, lens, inputs, part, address)
    batches = _stored_batches(versions, lens, inputs, part, mapped)
    return versions.create(definition, batches, sink)


def _mapped_rows(
    versions: Versions, lens: Lens, inputs: Mapping[str, Version], part: str, address: Address
) -> RowSet | None:
    """Rows that are found as they are read, under an address; None if all are needed at once."""
    made = lens.bind(VersionSide(versions, inputs)).row_map(part)
    if made is None:
        return None
    definition = lens.new[part]
    schema, grouping = definition.schema, definition.layout.grouping(definition.schema)
    source, tail = versions.rows(inputs[made.source]), None
    projection = RowProjection.of_columns(column.name for column in source.schema.columns)
    under = source.forest
    if isinstance(under, MappedForest) and len(source.tail or ()) <= _CARRIED_ROWS:
        step = projection.then(made.step)
        tail = _carried_tail(source, MappedForest(source, schema, grouping, step))
        source, projection = under.source, under.projection
    forest = MappedForest(source, schema, grouping, projection.then(made.step))
    return RowSet(schema, forest, address, tail)


def _carried_tail(source: RowSet, forest: MappedForest) -> Delta | None:
    """The changes over rows that are mapped, as changes over what they are mapped to.

    Keys are mapped to themselves: rows that are gone have theirs, too.
    """
    if source.tail is None:
        return None
    keys, count = source.tail.keys, len(forest.grouping.types)
    found, columns = forest.seek_many(source.root, keys, range(count))
    if not found.all():
        spread = pa.array(np.cumsum(found) - 1, mask=~found)
        own = source.tail.columns[: forest.shape.key_count]
        columns = [*own, *(column.take(spread) for column in columns[len(own) :])]
    ops = np.where(found, UPSERT, DELETE).astype(np.int8)
    return Delta(forest.shape, keys, ops, tuple(columns), (None,) * count)


def _stored_batches(
    versions: Versions,
    lens: Lens,
    inputs: Mapping[str, Version],
    part: str,
    mapped: RowSet | None,
) -> Iterator[Sequence[pa.Array]]:
    """All rows of a new table as stored columns, in the order of their keys."""
    definition = lens.new[part]
    if mapped is not None:
        names = [column.name for column in definition.schema.stored_columns]
        yield from (batch.columns for batch in mapped.batches(names))
        return
    batches = list(lens.create(VersionSide(versions, inputs))[part])
    whole = pa.Table.from_batches(batches, schema=definition.schema.whole)
    lens.check_new(part, whole)
    shape = versions.placements.forest_of(definition).shape
    changes = ingest.carried_upserts(definition.schema, shape, whole)
    yield [column for column in changes.columns if column is not None]


def underlying_version(
    graph: Graph, version: Version
) -> tuple[Version, tuple[tuple[str, str], ...]]:
    """The version whose rows a version's are, seen through lenses: those, the first first.

    The version itself and no lens, unless it is a schema change that nobody migrated, of a kind
    that carries every row on its own.
    """
    versions = graph.versions
    lenses: list[tuple[str, str]] = []
    while versions.nearest_stored(version) is None and version.origin == version.address:
        recipe = versions.recipe(version)
        evaluator = versions.derived.evaluators.get(KIND)
        if not isinstance(recipe, Derived) or not isinstance(evaluator, LensEvaluator):
            break
        if recipe.data.get(LAZY):
            break
        lens = evaluator.lens(recipe, versions)
        part = recipe.data["part"]
        if not isinstance(lens, RowLens) or lens.consults or lens.row_map(part) is None:
            break
        lenses.append(evaluator.texts(recipe, versions))
        version = evaluator.inputs(recipe, versions)[lens.old_name]
    return version, tuple(lenses[::-1])


def planned_lens(change: str, definitions: str) -> Lens:
    """A lens from the text of a change and of the tables it is made on."""
    tables: dict[str, Any] = json.loads(definitions)
    known = {name: Definition.from_json(data) for name, data in tables.items()}
    return SchemaChange.from_json(json.loads(change)).plan(known)
