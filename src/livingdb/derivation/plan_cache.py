"""Plans of views, and what else is found out about them, each once for the tables it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import pyarrow as pa

from livingdb.derivation.compiler.plan_query import plan
from livingdb.derivation.plan import Input, Plan
from livingdb.derivation.view import View
from livingdb.engines.portable.portability import PortableQuery, check_portability
from livingdb.tables.schema import TableSchema

__all__ = [
    "ViewFacts",
    "columns_used",
    "input_of",
    "portable_columns",
    "stages_portability",
    "view_plan",
]

_Inputs = tuple[tuple[str, pa.Schema, tuple[str, ...] | None], ...]


@dataclass(frozen=True, eq=False)
class ViewFacts:
    """What is found out about a view over tables with these schemas."""

    view: View
    schemas: Mapping[str, TableSchema]

    @cached_property
    def plan(self) -> Plan:
        """See `view_plan`."""
        return view_plan(self.view, self.schemas)

    @cached_property
    def columns_used(self) -> dict[str, list[str]]:
        """See `columns_used`."""
        return columns_used(self.view, self.schemas)

    @cached_property
    def portable(self) -> PortableQuery | str:
        """See `portable_columns`."""
        return portable_columns(self.view, self.schemas)


def input_of(schema: TableSchema) -> Input:
    """A table as a plan sees it."""
    is_bag = any(column.hidden for column in schema.key_columns)
    return Input(schema.arrow, None if is_bag else schema.key)


def view_plan(view: View, schemas: Mapping[str, TableSchema]) -> Plan:
    """The plan of a view over tables with these schemas."""
    return _cached_plan(view.query_over(schemas), view.key, _inputs(schemas))


def columns_used(view: View, schemas: Mapping[str, TableSchema]) -> dict[str, list[str]]:
    """The columns of each table that a view reads."""
    used: dict[str, set[str]] = {name: set() for name in view.tables}
    for stage in view_plan(view, schemas).stages:
        for name, columns in stage.columns_used.items():
            used.setdefault(name, set()).update(columns)
    return {name: sorted(columns) for name, columns in used.items()}


def portable_columns(view: View, schemas: Mapping[str, TableSchema]) -> PortableQuery | str:
    """The columns of a view if every engine gives the same; else why they may not."""
    return _cached_columns(view.query_over(schemas), _inputs(schemas))


def stages_portability(view: View, schemas: Mapping[str, TableSchema]) -> str | None:
    """Why the stages of a view may differ between engines; None if every engine gives the same."""
    known = {name: schema.arrow for name, schema in schemas.items()}
    for stage in view_plan(view, schemas).stages:
        read = {name: known[name] for name in stage.reads}
        found = check_portability(stage.ask.query.copy(), read)
        if isinstance(found, str):
            return found
        known[stage.name] = pa.schema([pa.field(name, kind) for name, kind in found.columns])
    return None


def _inputs(schemas: Mapping[str, TableSchema]) -> _Inputs:
    found = [(name, input_of(schemas[name])) for name in sorted(schemas)]
    return tuple((name, item.schema, item.key) for name, item in found)


@lru_cache(maxsize=4096)
def _cached_columns(query: str, inputs: _Inputs) -> PortableQuery | str:
    schemas = {name: schema for name, schema, _ in inputs}
    return check_portability(View("", "sql", {}, query=query).tree(), schemas)


@lru_cache(maxsize=4096)
def _cached_plan(
    query: str,
    key: tuple[str, ...] | None,
    inputs: _Inputs,
) -> Plan:
    view = View("", "sql", {}, query=query)
    tables = {name: Input(schema, columns) for name, schema, columns in inputs}
    return plan(view.tree(), tables, key)
