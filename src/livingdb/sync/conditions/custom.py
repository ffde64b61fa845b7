"""Conditions of one's own: SQL that gives the rows that are wrong, and named functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from livingdb.derivation.matching import matching
from livingdb.derivation.trusted import check_name, function_named
from livingdb.errors import InvalidData
from livingdb.sync.conditions.condition import Condition, Verdict, registered
from livingdb.sync.conditions.crossing import shown_rows
from livingdb.sync.conditions.querying import answer, checked_query
from livingdb.sync.conditions.rowwise import count_of

if TYPE_CHECKING:
    from livingdb.sync.conditions.crossing import Crossing

__all__ = ["Function", "Sql", "function", "sql"]


@registered
@dataclass(frozen=True)
class Sql(Condition):
    """A query gives no rows.

    It sees the tables of the target as they will be, `<table>_before` as they are,
    `<table>_change` with the rows that come, and those of the source by their names, or as
    `<table>_source`.  Where its answer has the key of the target's table, rows can be set aside.
    """

    query: str

    NAME: ClassVar[str] = "sql"
    BY_ROW: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_query(self.query)

    def judge(self, crossing: Crossing) -> Verdict:
        """See `Condition.judge`."""
        found = answer(crossing, self.query)
        if not found.num_rows:
            return Verdict(measured=0)
        rows = _rows_named(crossing, found)
        if self.action == "quarantine" and not rows:
            raise InvalidData(
                "rows are set aside by their key: let the query give the key of the target's table"
            )
        problem = f"{count_of(found.num_rows)} that the query finds: {shown_rows(found)}"
        return Verdict(problem, found.num_rows, rows)


def _rows_named(crossing: Crossing, found: pa.Table) -> dict[str, pa.Table]:
    """The rows of the target whose keys an answer has; of its only table, or of none."""
    names = crossing.names()
    return _rows_of(crossing, names[0], found) if len(names) == 1 else {}


def _rows_of(crossing: Crossing, table: str, found: pa.Table) -> dict[str, pa.Table]:
    """The rows of a table of the target whose keys are named."""
    crossing.names(table)
    rows = crossing.rows(table)
    if rows is None or not set(rows.schema.key) <= set(found.column_names):
        return {}
    keys = found.select(list(rows.schema.key))
    try:
        kinds = pa.schema([pa.field(c.name, c.type) for c in rows.schema.key_columns])
        broken = matching(rows, keys.cast(kinds), [column.name for column in rows.schema.stored])
    except pa.ArrowInvalid:
        return {}
    return {table: broken} if broken.num_rows else {}


@registered
@dataclass(frozen=True)
class Function(Condition):
    """A named function finds nothing wrong.

    It is given the crossing and its parameters, and gives None or True if all is well, False or
    a sentence if it is not, or the rows that are wrong, as an Arrow table or by table of the
    target.  Only processes that trust it run it.
    """

    function: str
    params: str = "{}"

    NAME: ClassVar[str] = "function"
    BY_ROW: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.function)
        try:
            given = json.loads(self.params) if isinstance(self.params, str) else self.params
            if not isinstance(given, Mapping):
                raise ValueError
            text = json.dumps(dict(given), sort_keys=True, allow_nan=False)
        except (TypeError, ValueError):
            raise InvalidData(
                f"function: the parameters {self.params!r} are no plain values by name"
            ) from None
        object.__setattr__(self, "params", text)

    def judge(self, crossing: Crossing) -> Verdict:
        """See `Condition.judge`."""
        called = function_named(self.function, crossing.trust)
        return self._verdict(crossing, called(crossing, **json.loads(self.params)))

    def _verdict(self, crossing: Crossing, found: object) -> Verdict:
        if found is None or found is True:
            return Verdict()
        if found is False:
            return Verdict(f"{self.function} says no")
        if isinstance(found, str):
            return Verdict(found or f"{self.function} says no")
        if isinstance(found, pa.Table):
            return self._rows({"": found} if found.num_rows else {}, _named(crossing, found))
        if isinstance(found, Mapping) and all(isinstance(v, pa.Table) for v in found.values()):
            wrong = {str(name): table for name, table in found.items() if table.num_rows}
            rows: dict[str, pa.Table] = {}
            for name, table in wrong.items():
                rows |= _rows_of(crossing, name, table)
            return self._rows(wrong, rows)
        raise InvalidData(
            f"{self.function} returned {type(found).__name__}; it returns None, True, False, "
            "a sentence, or the rows that are wrong"
        )

    def _rows(self, found: Mapping[str, pa.Table], rows: Mapping[str, pa.Table]) -> Verdict:
        count = sum(table.num_rows for table in found.values())
        if not count:
            return Verdict(measured=0)
        shown = "; ".join(shown_rows(table) for table in found.values())
        return Verdict(f"{count_of(count)} that {self.function} finds: {shown}", count, rows)


def _named(crossing: Crossing, found: pa.Table) -> dict[str, pa.Table]:
    return _rows_named(crossing, found) if found.num_rows else {}


def sql(query: str, **how: Any) -> Sql:
    """A query that gives the rows that are wrong gives none."""
    return Sql(query, **how)


_HOW = ("action", "severity")


def function(name: str, /, **params: Any) -> Function:
    """A function 'package.module:function' finds nothing wrong; it is given the parameters."""
    how = {key: params.pop(key) for key in _HOW if key in params}
    given: Any = params.pop("params", None)
    if given is not None and params:
        raise InvalidData("function: give the parameters by name, or all of them as params=")
    chosen: Any = params if given is None else given
    return Function(name, chosen, **how)
