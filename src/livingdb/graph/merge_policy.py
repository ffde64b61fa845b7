"""Policies: who wins where both sides of a merge changed the same row.

A policy is "fail", "ours", "theirs" or a function.  It is given for everything, for a table or
for a column ("orders.amount"); "*" stands for what is not named.  The function of a column takes
(base, ours, theirs) values and gives the value; that of a table takes the three rows as dicts
(None: no such row) and gives the row, or None to delete it.  These are the words of every
operation that merges: merge, cherry-pick, revert, reattach.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.errors import IllegalSync, InvalidData
from livingdb.tables.fit import fit
from livingdb.tables.schema import TableSchema
from livingdb.trees.compare import choose, differs
from livingdb.trees.delta import DELETE, UPSERT, Delta
from livingdb.trees.merge import Conflicts
from livingdb.trees.shape import Shape

__all__ = [
    "GRANULARITIES",
    "Policies",
    "TablePolicy",
    "check_one_way",
    "check_policy",
    "is_given_up",
]

GRANULARITIES = ("row", "cell")
_NAMES = ("fail", "ours", "theirs")

Mask = npt.NDArray[np.bool_]
Policy = str | Callable[..., Any]
_OURS, _THEIRS, _OPEN = 0, 1, 2


@dataclass(frozen=True)
class Policies:
    """What a user said about conflicts."""

    default: Policy = "fail"
    tables: Mapping[str, Policy] | None = None
    columns: Mapping[tuple[str, str], Policy] | None = None
    granularity: str = "row"

    def chosen(self, table: str) -> Policy:
        """What was said about conflicts in a table as a whole."""
        return (self.tables or {}).get(table, self.default)

    @classmethod
    def of(
        cls,
        on_conflict: Policy | Mapping[str, Policy],
        granularity: str,
        schemas: Mapping[str, TableSchema],
    ) -> Policies:
        """The policies, checked against the tables there are."""
        check_policy(on_conflict, granularity)
        if not isinstance(on_conflict, Mapping):
            return cls(on_conflict, granularity=granularity)
        default: Policy = "fail"
        tables: dict[str, Policy] = {}
        columns: dict[tuple[str, str], Policy] = {}
        for name, policy in on_conflict.items():
            if name == "*":
                default = policy
            elif name in schemas:
                tables[name] = policy
            else:
                table, _, column = name.rpartition(".")
                if table not in schemas:
                    raise InvalidData(f"on_conflict names {name!r}, which is no table or column")
                schemas[table].column(column)
                columns[table, column] = policy
        return cls(default, tables, columns, granularity)

    def of_table(self, name: str, schema: TableSchema, shape: Shape) -> TablePolicy:
        """The policies for one table."""
        table = self.chosen(name)
        columns = {c: p for (t, c), p in (self.columns or {}).items() if t == name}
        return TablePolicy(name, schema, shape, table, columns, self.granularity == "cell")


def check_policy(on_conflict: object, granularity: str) -> None:
    """`InvalidData` if a user gave something that is no policy."""
    if granularity not in GRANULARITIES:
        raise InvalidData(f"granularity {granularity!r}: choose 'row' or 'cell'")
    given = on_conflict if isinstance(on_conflict, Mapping) else {"on_conflict": on_conflict}
    for name, policy in given.items():
        if not callable(policy) and policy not in _NAMES:
            is_one = not isinstance(on_conflict, Mapping)
            where = "on_conflict" if is_one else f"on_conflict[{name!r}]"
            raise InvalidData(
                f"{where}={policy!r} is no policy: choose one of {', '.join(_NAMES)}, a function, "
                "or a dict of these by table or table.column"
            )


def check_one_way(on_conflict: object) -> None:
    """`IllegalSync` for a policy that leaves rows on the target of a one-way sync.

    Ours is what the source says there, and theirs what was written to the target.
    """
    check_policy(on_conflict, "row")
    given = on_conflict if isinstance(on_conflict, Mapping) else {"on_conflict": on_conflict}
    for name, policy in given.items():
        if policy not in ("fail", "ours"):
            shown = policy if isinstance(policy, str) else "a function"
            raise IllegalSync(
                f"{name}: {shown!r}: what a one-way sync writes is what its source says; 'ours' "
                "gives up what was written to the target meanwhile"
            )


def is_given_up(on_conflict: Any, table: str) -> bool:
    """Whether what was written to a table of the target of a one-way sync is given up."""
    if isinstance(on_conflict, Mapping):
        return bool(on_conflict.get(table, on_conflict.get("*", "fail")) == "ours")
    return bool(on_conflict == "ours")


@dataclass(frozen=True)
class TablePolicy:
    """Resolves the conflicts of one table."""

    name: str
    schema: TableSchema
    shape: Shape
    default: Policy
    columns: Mapping[str, Policy]
    by_cell: bool

    def resolve(self, conflicts: Conflicts) -> tuple[Delta, Mask]:
        """The changes to make to ours, and which of the conflicts stay open."""
        deleted = conflicts.ours_deleted | conflicts.theirs_deleted
        columns, is_open = self._resolve_cells(conflicts)
        gone = np.zeros(len(conflicts), bool)
        for row in np.flatnonzero(deleted).tolist() if callable(self.default) else ():
            is_open[row] = False
            gone[row] = self._resolve_row(conflicts, row, columns)
        if not callable(self.default):
            is_open[deleted] = self.default == "fail"
            columns, gone = self._resolve_deleted_rows(conflicts, deleted, columns)
        elif not self.columns:
            for row in np.flatnonzero(~deleted).tolist():
                is_open[row] = False
                gone[row] = self._resolve_row(conflicts, row, columns)
        ops = np.where(gone, DELETE, UPSERT).astype(np.int8)
        typed = [
            fit(values, column) if isinstance(values, list) else values
            for values, column in zip(columns, self.schema.stored_columns, strict=True)
        ]
        typed[: self.shape.key_count] = conflicts.key_columns(self.shape.key_count)
        changes = Delta(self.shape, conflicts.keys, ops, tuple(typed), (None,) * len(typed))
        return changes.select(np.flatnonzero(~is_open)), is_open

    def _resolve_cells(self, conflicts: Conflicts) -> tuple[list[Any], Mask]:
        """Every column resolved by itself, and which rows have a cell nobody resolved."""
        is_open = np.zeros(len(conflicts), bool)
        has_base = conflicts.base[0].is_valid().to_numpy(zero_copy_only=False)
        columns: list[Any] = []
        for position, column in enumerate(self.schema.stored_columns):
            base, ours = conflicts.base[position], conflicts.ours[position]
            theirs = conflicts.theirs[position]
            if position < self.shape.key_count:
                columns.append(ours)
                continue
            choice = np.where(differs(ours, theirs), _OPEN, _OURS)
            if self.by_cell:
                choice[(choice == _OPEN) & has_base & ~differs(base, ours)] = _THEIRS
                choice[(choice == _OPEN) & has_base & ~differs(base, theirs)] = _OURS
            policy = self.columns.get(column.name, self.default)
            undecided = np.flatnonzero(choice == _OPEN)
            if policy == "fail" or (callable(policy) and column.name not in self.columns):
                is_open[undecided] = True
            elif isinstance(policy, str):
                choice[undecided] = _OURS if policy == "ours" else _THEIRS
            elif len(undecided):
                columns.append(_call_policy(policy, (base, ours, theirs), choice))
                continue
            columns.append(choose(ours, theirs, choice == _THEIRS))
        return columns, is_open

    def _resolve_deleted_rows(
        self, conflicts: Conflicts, deleted: Mask, columns: list[Any]
    ) -> tuple[list[Any], Mask]:
        """Rows that one side deleted, as the table's policy says."""
        gone = conflicts.theirs_deleted if self.default == "theirs" else conflicts.ours_deleted
        side = conflicts.theirs if self.default == "theirs" else conflicts.ours
        if deleted.any():
            for position, values in enumerate(columns):
                if isinstance(values, list):
                    held = side[position].to_pylist()
                    columns[position] = [
                        h if d else v for v, h, d in zip(values, held, deleted, strict=True)
                    ]
                else:
                    columns[position] = choose(values, side[position], deleted)
        return columns, gone & deleted

    def _resolve_row(self, conflicts: Conflicts, row: int, columns: list[Any]) -> bool:
        """Put what the table's function says about a row in the columns; whether it deletes."""
        assert callable(self.default)
        names = [column.name for column in self.schema.stored_columns]
        sides = []
        present = (True, not conflicts.ours_deleted[row], not conflicts.theirs_deleted[row])
        for side, there in zip(
            (conflicts.base, conflicts.ours, conflicts.theirs), present, strict=True
        ):
            values = {n: c[row].as_py() for n, c in zip(names, side, strict=True)}
            known = there and any(values[name] is not None for name in self.schema.key)
            sides.append(values if known else None)
        answer = self.default(*sides)
        if isinstance(answer, str) and answer in ("ours", "theirs"):
            answer = sides[1 if answer == "ours" else 2]
        if answer is None:
            return True
        if not isinstance(answer, Mapping):
            raise InvalidData(f"the policy of table {self.name!r} gave {answer!r}, not a row")
        for position, name in enumerate(names):
            if not isinstance(columns[position], list):
                columns[position] = columns[position].to_pylist()
            columns[position][row] = answer.get(name)
        return False


def _call_policy(
    policy: Callable[..., Any], sides: Sequence[pa.Array], choice: npt.NDArray[Any]
) -> list[Any]:
    base, ours, theirs = (side.to_pylist() for side in sides)
    values = [t if c == _THEIRS else o for o, t, c in zip(ours, theirs, choice, strict=True)]
    for row in np.flatnonzero(choice == _OPEN).tolist():
        values[row] = policy(base[row], ours[row], theirs[row])
    return values
