"""Recipes that are a query: the answer over versions, found when it is first read."""

from __future__ import annotations

from collections.abc import Mapping

from livingdb.chunks.address import Address
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition, Derived
from livingdb.tables.rows import RowSet
from livingdb.tables.versions import Versions
from livingdb.trees.builder import Sink

__all__ = ["QUERY", "QueryEvaluator", "query_recipe"]

QUERY = "query"


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


class QueryEvaluator:
    """Answers for the recipes of queries."""

    def definition(self, recipe: Derived) -> Address:
        """The definition of the answer's table."""
        return Address(bytes.fromhex(recipe.data["definition"]))

    def rows(self, recipe: Derived, versions: Versions) -> RowSet | None:
        """A query is answered as a whole."""
        return None

    def root(self, recipe: Derived, versions: Versions, sink: Sink) -> Address:
        """The root of all rows, made now."""
        from livingdb.derivation.answers import Embedded
        from livingdb.derivation.model import Ask
        from livingdb.derivation.stored import rows_to_store
        from livingdb.engines.request import Source
        from livingdb.sql.parse import parse_statement

        query = parse_statement(recipe.data["query"])
        relations = {
            name: Source(versions.rows(versions.require(Address(bytes.fromhex(text)))))
            for name, text in recipe.data["inputs"].items()
        }
        rows = Embedded().answer(Ask(query, tuple(relations)), relations)  # type: ignore[arg-type]
        definition = Definition.load(versions.store, self.definition(recipe))
        columns, count = rows_to_store(definition, rows)
        return versions.forest_of(definition).build([columns] if count else [], sink)
