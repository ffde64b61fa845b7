"""Recursive queries level by level, as Spark runs them, and no further than it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.embedded.duckdb_dialect import NotEmbedded
from livingdb.engines.portable.recursive_queries import (
    ROW_LIMIT,
    Recursion,
    find_recursion,
    own_tables,
    recursion_of,
)
from livingdb.engines.portable.signature_matching import NotPortable
from livingdb.engines.portable.type_annotations import annotated_type
from livingdb.engines.request import parameters_of
from livingdb.errors import InvalidData

if TYPE_CHECKING:
    from livingdb.engines.embedded.session import Session

__all__ = ["answer_recursion"]


def answer_recursion(query: exp.Query, session: Session, parameters: Mapping[str, object]) -> None:
    """Let the names of recursive queries in the WITH clause of a query stand for their rows.

    `InvalidData` where Spark would not go on: after 100 levels, or as many as MAX RECURSION LEVEL
    says, and at a million rows.
    """
    clause = query.args.get("with_")
    recursive = list(find_recursion(query))
    if any(part.parent is not clause for part in recursive):
        raise NotEmbedded("the embedded engine has WITH RECURSIVE at the beginning only")
    is_cut = query.find(exp.Limit, exp.Fetch) is not None
    for part in recursive:
        try:
            found = recursion_of(part)
        except NotPortable as reason:
            raise NotEmbedded(str(reason)) from None
        rows = _Levels(part, found, session, parameters, is_cut).rows()
        name = exp.to_identifier(session.register(rows))
        part.set("this", exp.select("*").from_(exp.Table(this=name)))
    if clause is not None:
        clause.set("recursive", None)


class _Levels:
    """The levels of one recursive query."""

    def __init__(
        self,
        part: exp.CTE,
        recursion: Recursion,
        session: Session,
        parameters: Mapping[str, object],
        is_cut: bool,
    ):
        self._part, self._recursion = part, recursion
        self._session, self._parameters = session, parameters
        self._is_cut = is_cut

    def rows(self) -> pa.Table:
        """The rows of all levels."""
        anchor = self._with_earlier(self._recursion.anchor)
        values = parameters_of(anchor, self._parameters)
        level = self._typed(
            self._session.query(self._session.duckdb_sql(anchor, of_tables=False), values)
        )
        name = self._session.register(level)
        for table in list(own_tables(self._part, self._recursion.step)):
            alias = table.args.get("alias") or exp.TableAlias(this=table.this.copy())
            table.set("alias", alias)
            table.set("this", exp.to_identifier(name))
        step = self._with_earlier(self._recursion.step)
        values, text = (
            parameters_of(step, self._parameters),
            self._session.duckdb_sql(step, of_tables=False),
        )
        found, count, size_bytes = [level], level.num_rows, level.nbytes
        while level.num_rows:
            self._check_limits(len(found), count)
            self._session.register(level, name)
            level = self._named_like(found[0], self._session.query(text, values))
            found.append(level)
            count += level.num_rows
            size_bytes += level.nbytes
            self._session.check_held(size_bytes)
        self._check_limits(0, count)
        return pa.concat_tables(found)

    def _with_earlier(self, query: exp.Query) -> exp.Query:
        """A query that sees what stands before it in the WITH clause."""
        made = query.copy()
        clause = self._part.parent
        assert isinstance(clause, exp.With)
        earlier = clause.expressions[: clause.expressions.index(self._part)]
        own = made.args.get("with_")
        parts = [*(part.copy() for part in earlier), *(own.expressions if own else ())]
        if parts:
            made.set("with_", exp.With(expressions=parts))
        return made

    def _check_limits(self, levels: int, rows: int) -> None:
        if levels > self._recursion.most_levels:
            limit = f"level limit {self._recursion.most_levels}"
            what = "WITH RECURSIVE t(col) MAX RECURSION LEVEL 200 allows more"
        elif rows >= ROW_LIMIT:
            limit, what = f"row limit {ROW_LIMIT}", "a condition in its second part ends it"
        else:
            return
        if self._is_cut:
            raise NotEmbedded(f"the embedded engine does not end a recursion by LIMIT: {limit}")
        raise InvalidData(
            f"recursion {limit} reached, but the query {self._part.alias!r} has not ended; {what}"
        )

    def _typed(self, rows: pa.Table) -> pa.Table:
        """The first rows, under the names of the query and in the types Spark gives them."""
        names = self._part.args["alias"].columns
        if names and len(names) != rows.num_columns:
            raise InvalidData(f"{self._part.alias!r} names more or fewer columns than there are")
        called = [name.name for name in names] or rows.column_names
        known = annotated_type(self._part)
        if known is None:
            return rows.rename_columns(called)
        fields = [pa.field(name, field.type) for name, field in zip(called, known, strict=True)]
        return rows.rename_columns(called).cast(pa.schema(fields))

    def _named_like(self, first: pa.Table, rows: pa.Table) -> pa.Table:
        if rows.num_columns != first.num_columns:
            raise InvalidData(f"the parts of {self._part.alias!r} differ in their columns")
        try:
            return rows.rename_columns(first.column_names).cast(first.schema)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise InvalidData(f"the parts of {self._part.alias!r} differ in their types") from None
