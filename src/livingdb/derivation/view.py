"""The definition of a derived object, as its sync keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from livingdb.catalog.ids import BranchId
from livingdb.errors import Corruption

if TYPE_CHECKING:
    from sqlglot import exp

    from livingdb.derivation.plan_cache import ViewFacts
    from livingdb.sql.bindings import BoundQuery, BoundTable
    from livingdb.tables.schema import TableSchema

__all__ = [
    "KIND",
    "MATERIALIZE",
    "ON_BREAK",
    "REFRESH",
    "SourceTable",
    "View",
    "bound_table",
    "hot_condition",
]

KIND = "derive"
REFRESH = ("auto", "incremental", "full")
MATERIALIZE = ("full", "none", "lazy")
ON_BREAK = ("detach", "move")
"""What becomes of a view that cannot follow a schema change: it stops, or reads what is kept."""


def hot_condition(materialize: object) -> str:
    """The condition in `where <condition>`; empty for anything else."""
    words = str(materialize).split(maxsplit=1)
    return words[1] if len(words) > 1 and words[0].lower() == "where" else ""


@dataclass(frozen=True)
class SourceTable:
    """A table that a view reads: by its branch, or in one snapshot for good."""

    branch: BranchId
    table: str
    snapshot: str = ""
    id: str = ""
    """The identity of the table, whatever it is called; none of tables that have none."""


@dataclass(frozen=True)
class View:
    """A derived object.

    `what` is "sql", "spark", "model" or "clone".  `text` is what the user wrote, and `bindings`
    what the names in it stand for (see `sql.bindings`); `query` is that text over the plain names
    of `tables`, with the names that their columns have now.  `function` and `params` are those of
    a named function.
    `home` is the branch on which it was derived, where SQL knows it by its name, or as `called`.
    `uses` are the columns of tables it reads, where that is not all of them.  What is `restless`
    may differ although nothing it reads does: it asks for the time, or for chance.
    `materialize` is one of `MATERIALIZE`, or "where" and a condition for rows to be stored.
    Its table and columns have identities by its `id`, unless it is older than those are.
    `on_break` is one of `ON_BREAK`; `moved` says, for a branch that it read before, which one that
    keeps its schema it reads instead, and since which snapshot.
    """

    name: str
    what: str
    tables: Mapping[str, SourceTable]
    text: str = ""
    query: str = ""
    key: tuple[str, ...] | None = None
    refresh: str = "auto"
    materialize: str = "full"
    engine: str | None = None
    function: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    changes: Sequence[Mapping[str, Any]] = ()
    home: BranchId = ""
    called: str = ""
    uses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    restless: bool = False
    id: str = ""
    bindings: Mapping[str, Any] | None = None
    on_break: str = "detach"
    moved: Mapping[BranchId, Sequence[str]] = field(default_factory=dict)

    @property
    def hot(self) -> str:
        """The condition for rows to be stored, if only some are; else empty."""
        return hot_condition(self.materialize)

    @cached_property
    def branches(self) -> tuple[BranchId, ...]:
        """The branches it follows, each once; its home if it reads nothing but the past."""
        followed = (table.branch for table in self.tables.values() if not table.snapshot)
        return tuple(dict.fromkeys(followed)) or (self.home,)

    @cached_property
    def bound(self) -> BoundQuery | None:
        """The text with what its names stand for; None if that was never found out."""
        from livingdb.derivation.known_bindings import KnownBindings
        from livingdb.sql.bindings import BoundQuery

        if isinstance(self.bindings, KnownBindings):
            return self.bindings.bound
        return None if self.bindings is None else BoundQuery.from_json(self.bindings)

    @cached_property
    def _queries(self) -> dict[tuple[object, ...], str | None]:
        """The query by what columns are called; None if it cannot be read over them."""
        from livingdb.derivation.known_bindings import KnownBindings

        return self.bindings.queries if isinstance(self.bindings, KnownBindings) else {}

    @cached_property
    def facts(self) -> dict[object, ViewFacts]:
        """What was found out about it, by its query and the definitions of the tables it reads."""
        from livingdb.derivation.known_bindings import KnownBindings

        return self.bindings.facts if isinstance(self.bindings, KnownBindings) else {}

    def query_over(self, schemas: Mapping[str, TableSchema]) -> str:
        """The query over tables with these schemas, by their plain names.

        Where columns that it names are gone, it is `query`, which knows which of them matter.
        """
        from livingdb.sql.render_query import render

        bound = self.bound
        if bound is None or not all(table.id in schemas for table in bound.tables):
            return self.query
        key = tuple(schemas[table.id].identities for table in bound.tables)
        if key not in self._queries:
            tables = [bound_table(table.id, schemas[table.id]) for table in bound.tables]
            made = render(bound, tables, stars=True)
            self._queries[key] = made if isinstance(made, str) else None
        found = self._queries[key]
        return self.query if found is None else found

    def over(self, schemas: Mapping[str, TableSchema]) -> View:
        """The view with its query over tables with these schemas."""
        query = self.query_over(schemas)
        return self if query == self.query else replace(self, query=query)

    def tree(self, schemas: Mapping[str, TableSchema] | None = None) -> exp.Query:
        """The query; over tables with these schemas, if they are given."""
        from livingdb.sql.parse import parse_statement

        found = parse_statement(self.query if schemas is None else self.query_over(schemas))
        return cast("exp.Query", found)

    def to_json(self) -> dict[str, Any]:
        """The view as plain values."""
        found: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        found["tables"] = {name: dict(vars(table)) for name, table in self.tables.items()}
        if self.on_break == "detach":
            del found["on_break"]
        if not self.moved:
            del found["moved"]
        return found

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> View:
        """The inverse of `to_json`; `Corruption` for what is none."""
        try:
            known = cls(**data)
            return replace(
                known,
                tables={name: SourceTable(**item) for name, item in data["tables"].items()},
                key=None if known.key is None else tuple(known.key),
                changes=tuple(known.changes),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise Corruption("what a sync is made by is not written as it should be") from None


def bound_table(plain: str, schema: TableSchema) -> BoundTable:
    """A table of a view, by its plain name, which stays, and the columns it has."""
    from livingdb.sql.bindings import BoundColumn, BoundTable
    from livingdb.tables.type_names import type_name

    columns = (
        BoundColumn(str(column.id), column.name, type_name(column.type))
        for column in schema.visible_columns
    )
    return BoundTable(plain, plain, tuple(columns))
