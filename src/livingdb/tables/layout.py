"""Layout: how the rows of a table are cut and when deltas become trees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from livingdb.errors import InvalidData, NotFound
from livingdb.tables.schema import TableSchema
from livingdb.trees.forest import Grouping
from livingdb.trees.shape import Shape
from livingdb.trees.splitter import CapacitySplitter, ContentSplitter, Splitter

__all__ = [
    "FOLD_FLOOR_ROWS",
    "FOLD_SHARE",
    "Layout",
    "TableIndex",
    "TableLayout",
    "TableSettings",
    "layout_of",
]

FOLD_FLOOR_ROWS = 24_576
FOLD_SHARE = 0.25


@dataclass(frozen=True)
class _TableGrouping(Grouping):
    """The trees of a table in a layout; key columns at the positions `nullable` may be null."""

    nullable: tuple[int, ...] = ()
    layout: Layout = field(kw_only=True)

    def _shape(self, positions: Iterable[int]) -> Shape:
        return replace(super()._shape(positions), nullable=self.nullable)


@dataclass(frozen=True)
class Layout:
    """What a user may set about storage; none of it changes what a reader sees.

    splitter     "content" (canonical) or "capacity" (like a B+-tree)
    target_rows  rows a leaf aims at
    groups       columns that lie together; those not named share one more group
    fold         "auto", "always" (a tree for every version), "never", or the share (0–1) of
                 the tree's rows that the tail may reach before it is folded
    projection   whether Spark gets Parquet files of the table, however few rows it has
    """

    splitter: str = "content"
    target_rows: int = 4096
    groups: Sequence[Sequence[str]] | None = None
    fold: str | float = "auto"
    projection: bool = False

    def __post_init__(self) -> None:
        if self.splitter not in ("content", "capacity"):
            raise InvalidData(f"splitter {self.splitter!r}: choose 'content' or 'capacity'")
        if not isinstance(self.target_rows, int) or not 2 <= self.target_rows <= 1_000_000:
            raise InvalidData(f"target_rows {self.target_rows!r}: choose 2 to 1,000,000 rows")
        if not isinstance(self.projection, bool):
            raise InvalidData(f"projection {self.projection!r}: choose True or False")
        if isinstance(self.fold, (int, float)) and not isinstance(self.fold, bool):
            object.__setattr__(self, "fold", float(self.fold))
            if not 0 <= float(self.fold) <= 1:
                raise InvalidData(f"fold {self.fold!r}: a share lies between 0 and 1")
        elif self.fold not in ("auto", "always", "never"):
            raise InvalidData(f"fold {self.fold!r}: 'auto', 'always', 'never' or a share 0–1")
        if self.groups is not None:
            is_list = isinstance(self.groups, (list, tuple))
            if not is_list or not all(isinstance(group, (list, tuple)) for group in self.groups):
                raise InvalidData(f"groups {self.groups!r}: a group is a list of columns")
            object.__setattr__(self, "groups", tuple(tuple(group) for group in self.groups))

    def grouping(self, schema: TableSchema) -> Grouping:
        """The trees of a table with this schema; `InvalidData` if the groups do not fit it."""
        fanout = max(16, min(256, self.target_rows // 16))
        splitter: Splitter
        if self.splitter == "content":
            splitter = ContentSplitter(self.target_rows, fanout)
        else:
            splitter = CapacitySplitter(self.target_rows, fanout)
        return _TableGrouping(
            tuple(column.name for column in schema.stored_columns),
            tuple(column.type for column in schema.stored_columns),
            len(schema.key),
            self._groups(schema),
            splitter,
            nullable=schema.nullable_keys,
            layout=self,
        )

    def _groups(self, schema: TableSchema) -> tuple[tuple[int, ...], ...]:
        values = range(len(schema.key), len(schema.stored_columns))
        if not self.groups:
            return (tuple(values),)
        groups: list[tuple[int, ...]] = []
        seen: set[int] = set()
        for names in self.groups:
            group = [_position(schema, name) for name in names]
            for name, position in zip(names, group, strict=True):
                if position < len(schema.key):
                    raise InvalidData(f"group column {name!r} is in the key, so in every group")
                if position in seen:
                    raise InvalidData(f"column {name!r} is in two groups")
                seen.add(position)
            groups.append(tuple(sorted(group)))
        rest = tuple(position for position in values if position not in seen)
        return (*groups, rest) if rest else tuple(groups)

    def is_fold_due(self, tail_rows: int, tree_rows: int) -> bool:
        """Whether a tail of so many rows over a tree of so many should be folded."""
        if self.fold == "always":
            return tail_rows > 0
        if self.fold == "never":
            return False
        if self.fold == "auto":
            return tail_rows > max(FOLD_FLOOR_ROWS, FOLD_SHARE * tree_rows)
        return tail_rows > float(self.fold) * tree_rows

    def to_json(self) -> dict[str, Any]:
        """The layout as plain values."""
        groups = None if self.groups is None else [list(group) for group in self.groups]
        return {
            "splitter": self.splitter,
            "target_rows": self.target_rows,
            "groups": groups,
            "fold": self.fold,
            **({"projection": True} if self.projection else {}),
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Layout:
        """The inverse of `to_json`."""
        return cls(**data)


@dataclass(frozen=True)
class TableLayout:
    """A layout for all versions of a table: its groups name columns by their identities."""

    by_id: Layout

    @classmethod
    def of(cls, layout: Layout, schema: TableSchema) -> TableLayout:
        """The layout of a table that has this schema now; `InvalidData` if it does not fit it."""
        layout.grouping(schema)
        groups = [[schema.column(name).id for name in group] for group in layout.groups or ()]
        return cls(replace(layout, groups=groups or None))

    def fit(self, schema: TableSchema) -> Layout:
        """The layout under another schema of the table.

        Columns that are gone, or are in the key, are left out; those that came share one more
        group.
        """
        names = {column.id: column.name for column in schema.stored_columns[len(schema.key) :]}
        groups = [[names[id] for id in group if id in names] for group in self.by_id.groups or ()]
        return replace(self.by_id, groups=[group for group in groups if group] or None)

    def to_json(self) -> dict[str, Any]:
        """The layout as plain values."""
        return self.by_id.to_json()

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TableLayout:
        """The inverse of `to_json`."""
        return cls(Layout.from_json(data))


@dataclass(frozen=True)
class TableIndex:
    """An index of a table in all of its versions: its columns are named by their identities."""

    name: str
    columns: tuple[str, ...]

    def fit(self, schema: TableSchema) -> tuple[str, ...] | None:
        """The columns as a schema of the table names them; None if it does not have them all."""
        names = {column.id: column.name for column in schema.visible_columns}
        found = tuple(names[id] for id in self.columns if id in names)
        return found if len(found) == len(self.columns) else None


@dataclass(frozen=True)
class TableSettings:
    """What a table was given since it was made, for all of its versions on all branches."""

    layout: TableLayout | None = None
    indexes: tuple[TableIndex, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The settings as plain values; none, if there are none."""
        indexes = [[index.name, list(index.columns)] for index in self.indexes]
        layout = {} if self.layout is None else self.layout.to_json()
        return {**layout, **({"indexes": indexes} if indexes else {})}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TableSettings:
        """The inverse of `to_json`."""
        layout = {name: value for name, value in data.items() if name != "indexes"}
        indexes = (TableIndex(name, tuple(ids)) for name, ids in data.get("indexes", ()))
        return cls(TableLayout.from_json(layout) if layout else None, tuple(indexes))


def layout_of(grouping: Grouping) -> Layout:
    """The layout that trees of a table lie in."""
    assert isinstance(grouping, _TableGrouping)
    return grouping.layout


def _position(schema: TableSchema, name: str) -> int:
    try:
        return schema.position(name)
    except NotFound as error:
        raise InvalidData(f"groups: {error}") from None
