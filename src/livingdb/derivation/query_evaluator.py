"""Recipes that are a query: the answer over versions, found when it is first read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from livingdb.chunks.address import Address
from livingdb.derivation.view import View
from livingdb.errors import InvalidData
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition, Derived
from livingdb.tables.rows import RowSet
from livingdb.tables.versions import Versions
from livingdb.trees.builder import Sink
from livingdb.trees.delta import Delta
from livingdb.trees.forest import Forest

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["QUERY", "QueryEvaluator", "partial_recipe", "query_recipe"]

QUERY = "query"
_RESTS = 2


def query_recipe(
    query: str, inputs: Mapping[str, Version], definition: Address, keep: bool
) -> Derived:
    """The recipe of a query's answer; the query is one that every engine answers alike.

    `keep`: the answer stays once somebody asked for it.
    """
    return Derived(
        QUERY,
        {
            "query": query,
            "inputs": {name: version.address.hex() for name, version in inputs.items()},
            "definition": definition.hex(),
            "keep": keep,
        },
    )


def partial_recipe(view: View, inputs: Mapping[str, Version], stored: Version) -> Derived:
    """The recipe of a view's answer, of which the hot part is stored."""
    from livingdb.derivation.partial_view import rest_query

    rest = query_recipe(rest_query(view), inputs, stored.definition, keep=False)
    hot = {"where": view.hot, "version": stored.address.hex()}
    return replace(rest, data={**rest.data, "hot": hot})


class QueryEvaluator:
    """Answers for the recipes of queries."""

    def __init__(self) -> None:
        self._rests: OrderedDict[Address, Delta] = OrderedDict()

    def definition(self, recipe: Derived) -> Address:
        """The definition of the answer's table."""
        return Address(bytes.fromhex(recipe.data["definition"]))

    def rows(self, recipe: Derived, versions: Versions) -> RowSet | None:
        """A query is answered as a whole, unless a part of its answer is stored."""
        hot = recipe.data.get("hot")
        if hot is None:
            return None
        from livingdb.derivation.partial_view import cold_pieces
        from livingdb.tables.virtual_forest import PartialForest

        stored = versions.rows(versions.require(Address(bytes.fromhex(hot["version"]))))
        forest = PartialForest(
            stored,
            partial(self._unstored_rows, recipe, versions, stored),
            cold_pieces(stored.schema, hot["where"]),
        )
        return RowSet(stored.schema, forest, recipe.to_chunk().address)

    def _unstored_rows(self, recipe: Derived, versions: Versions, stored: RowSet) -> Delta:
        """The rows that are not stored, those of the last recipes at hand."""
        from livingdb.derivation.stage_tables import ambiguity_message, upsert_delta

        address = recipe.to_chunk().address
        rest = self._rests.get(address)
        if rest is None:
            definition = Definition.load(versions.store, self.definition(recipe))
            rest = upsert_delta(definition, self._answer(recipe, versions))
            if stored.contains(rest.keys).any():
                raise InvalidData(ambiguity_message(definition.schema))
            self._rests[address] = rest
            while len(self._rests) > _RESTS:
                self._rests.popitem(last=False)
        return rest

    def forget_rows(self) -> None:
        """Ask every query anew."""
        self._rests.clear()

    def row_source(self, recipe: Derived, versions: Versions) -> None:
        """None: a query makes rows of its own."""

    def root(self, recipe: Derived, versions: Versions, forest: Forest, sink: Sink) -> Address:
        """The root of all rows, made now."""
        from livingdb.derivation.stage_tables import rows_to_store

        definition = Definition.load(versions.store, self.definition(recipe))
        parted = self.rows(recipe, versions)
        if parted is None:
            columns, count = rows_to_store(definition, self._answer(recipe, versions))
            batches = [columns] if count else []
        else:
            names = [column.name for column in parted.schema.stored_columns]
            batches = [batch.columns for batch in parted.batches(names)]
        return forest.build(batches, sink)

    def _answer(self, recipe: Derived, versions: Versions) -> pa.Table:
        """What the query gives."""
        from livingdb.derivation.plan import Ask
        from livingdb.derivation.query_answers import EmbeddedAnswers
        from livingdb.engines.request import Source
        from livingdb.sql.parse import parse_statement

        query = parse_statement(recipe.data["query"])
        relations = {
            name: Source(versions.rows(versions.require(Address(bytes.fromhex(text)))))
            for name, text in recipe.data["inputs"].items()
        }
        return EmbeddedAnswers().answer(Ask(query, tuple(relations)), relations)  # type: ignore[arg-type]
