"""The schema changes on plain tables: what each makes of a state, and what keeps two in step.

`get` gives the state after a change, also where it was made already; `agrees` says whether an old
and a new state could be in step both ways, where each side may hold what the other has not.  A
change names tables and columns as they are when it is made; `BoundChanges` follows their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from blake3 import blake3
from tests.composition.model import Check, Column, State, Table, moved_id

from livingdb import evolution
from livingdb.evolution.changes import no_change

__all__ = [
    "EVERY",
    "MASK_KEY",
    "MASK_VARIABLE",
    "BoundChanges",
    "Change",
    "Unknown",
    "bind",
    "columns_agree",
]

SEPARATOR = "-"
LARGEST = {"int": (1 << 31) - 1, "bigint": (1 << 63) - 1}
MASK_VARIABLE = "LIVINGDB_COMPOSITION_MASK_KEY"
MASK_KEY = "the key of the masks here"
HASH_CONTEXT = "livingdb 2025 MaskColumn hash"
Rows = list[dict[str, Any]]


class Overflow(ValueError):
    """A number that its column cannot hold."""


class Unknown(ValueError):
    """Something that the database can do, and the model cannot tell what comes of it."""


@dataclass(frozen=True)
class Change:
    """A schema change of some tables."""

    TABLES: ClassVar[tuple[str, ...]] = ("table",)
    """The fields that name tables there are."""
    COLUMNS: ClassVar[tuple[str, ...]] = ("name",)
    """The fields that name columns of the first of these tables."""
    OTHER_COLUMNS: ClassVar[tuple[str, ...]] = ()
    """The fields that name columns of the second."""
    PARTIAL: ClassVar[bool] = False
    """Whether rows can be refused, in one direction at least."""
    ONLY: ClassVar[tuple[str, ...]] = ("none", "forward", "reverse", "both")
    """The directions that are legal."""

    def build(self) -> Any:
        """The change as the database knows it."""
        raise NotImplementedError

    def get(self, state: State, uid: str) -> dict[str, Table]:
        """The state after the change; `KeyError` if what it names is not there."""
        raise NotImplementedError

    def agrees(self, old: State, new: State, uid: str) -> bool:
        """Whether both sides could be in step; here: whether the new one is what `get` gives."""
        return same_rows(self.get(old, uid), new)

    @property
    def remembers(self) -> bool:
        """Whether it adds a column whose values are made of others once, and then are its own."""
        return False

    @property
    def fills(self) -> str | None:
        """A table that was there and gets rows, which stay when nothing refers to them."""
        return None

    @property
    def hides_by(self) -> str | None:
        """The column by whose values rows are kept from the new side."""
        return None

    KEEPS_ROWS: ClassVar[bool] = False
    """Whether each row of one side is one of the other, under the same key."""

    def filled(self, row: Mapping[str, Any], to_new: bool) -> dict[str, Any]:
        """What a row that is new gets in the columns that the other side has not."""
        return {}

    def touched(self, state: State) -> set[str]:
        """The ids of columns of the old side that are not what they were afterwards."""
        table = state[getattr(self, self.TABLES[0])]
        return {table.named(name).id for name in _listed(self, self.COLUMNS)}

    def joined(self, state: State) -> set[tuple[str, str, str]]:
        """Columns of two tables of the old side that change together, by the ids of three.

        The one, the one whose values are keys of the other table, and the other.
        """
        return set()

    @property
    def kind(self) -> str:
        return type(self).__name__

    def fits(self, state: State) -> bool:
        """Whether the model can make the change at all; `Overflow` if but for large numbers."""
        try:
            made = self.get(state, "?")
        except Overflow:
            raise
        except (KeyError, ValueError):
            return False
        names = [len(set(table.names)) == len(table.names) for table in made.values()]
        return all(names)


def _listed(change: Change, names: Sequence[str]) -> list[str]:
    found: list[str] = []
    for name in names:
        value = getattr(change, name)
        found += [value] if isinstance(value, str) else list(value)
    return found


def same_rows(one: State, other: State) -> bool:
    """Whether two states show the same."""
    return {n: (t.names, t.rows) for n, t in one.items()} == {
        n: (t.names, t.rows) for n, t in other.items()
    }


def without(state: State, *names: str) -> dict[str, Table]:
    for name in names:
        state[name]
    return {name: table for name, table in state.items() if name not in names}


def projected(table: Table, names: Sequence[str]) -> Rows:
    return [{name: row[name] for name in names} for row in table.dicts()]


def rest_agrees(old: State, new: State, mine: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether the tables that a change does not touch are the same."""
    return same_rows(without(old, *mine), without(new, *theirs))


def refuse_referenced(state: State, *names: str) -> None:
    """`ValueError` where foreign keys name a table, which may not go then."""
    ids = {state[name].id for name in names}
    if any(target in ids for table in state.values() for _, target in table.links):
        raise ValueError("referenced")


def refuse_hidden(state: State, name: str) -> dict[str, Table]:
    """A state in which rows of a table were hidden; `ValueError` where a foreign key names one."""
    target = state[name]
    held = target.by_key()
    for table in state.values():
        for column, other in table.links:
            title = table.column(column).name
            values = {row[title] for row in table.dicts()} - {None}
            if other == target.id and any((value,) not in held for value in values):
                raise ValueError("a foreign key names what is hidden")
    return dict(state)


def refuse_used(table: Table, name: str) -> None:
    """`ValueError` for a column that a key, check, link or computed column uses."""
    column = table.named(name).id
    used = {*table.key, *(check.column for check in table.checks)}
    used |= {link for link, _ in table.links} | {one for pair in table.doubled for one in pair}
    used |= {unique for _, unique in table.uniques}
    if column in used:
        raise ValueError("used")


# --- whole tables -------------------------------------------------------------------------------


@dataclass(frozen=True)
class CreateTable(Change):
    """A new table of an id, a number and a text."""

    table: str
    TABLES: ClassVar[tuple[str, ...]] = ()
    COLUMNS: ClassVar[tuple[str, ...]] = ()

    def build(self) -> Any:
        return evolution.CreateTable(self.table, {"id": "int", "x": "int", "s": "string"}, "id")

    def get(self, state: State, uid: str) -> dict[str, Table]:
        if self.table in state and state[self.table].id == f"{uid}.t":
            return dict(state)
        if self.table in state:
            raise ValueError("taken")
        columns = (
            Column(f"{uid}.0", "id", "int", nullable=False),
            Column(f"{uid}.1", "x", "int"),
            Column(f"{uid}.2", "s", "string"),
        )
        return {**state, self.table: Table(f"{uid}.t", columns, (f"{uid}.0",))}

    def touched(self, state: State) -> set[str]:
        return set()

    def agrees(self, old: State, new: State, uid: str) -> bool:
        if self.table in old:  # it came there by a merge
            return same_rows(old, new)
        return rest_agrees(old, new, (), (self.table,))


@dataclass(frozen=True)
class DropTable(Change):
    """A table less."""

    table: str
    COLUMNS: ClassVar[tuple[str, ...]] = ()

    def build(self) -> Any:
        return evolution.DropTable(self.table)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        refuse_referenced(state, self.table)
        return without(state, self.table)

    def touched(self, state: State) -> set[str]:
        return {column.id for column in state[self.table].columns}


@dataclass(frozen=True)
class RenameTable(Change):
    """Another name for a table."""

    table: str
    to: str
    COLUMNS: ClassVar[tuple[str, ...]] = ()

    def build(self) -> Any:
        return evolution.RenameTable(self.table, self.to)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        state[self.table]
        if self.to == self.table:
            return dict(state)
        if self.to in state:
            raise ValueError("taken")
        return {self.to if name == self.table else name: t for name, t in state.items()}

    def touched(self, state: State) -> set[str]:
        return set()


# --- columns ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AddColumn(Change):
    """A number: null, with the default 5, or twice another column."""

    table: str
    name: str
    how: str = "null"
    of: str = ""
    COLUMNS: ClassVar[tuple[str, ...]] = ()
    KEEPS_ROWS: ClassVar[bool] = True

    def filled(self, row: Mapping[str, Any], to_new: bool) -> dict[str, Any]:
        return {self.name: self.value(row)} if to_new else {}

    def build(self) -> Any:
        given = {
            "null": {},
            "default": {"default": 5},
            "up": {"up": f"`{self.of}` * 2"},
            "computed": {"computed": f"`{self.of}` * 2"},
        }
        return evolution.AddColumn(self.table, self.name, "bigint", **given[self.how])

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        if any(column.id == f"{uid}.0" for column in table.columns):
            return dict(state)
        if table.has(self.name):
            raise ValueError("taken")
        is_fixed = self.how == "computed"
        default = 5 if self.how == "default" else None
        column = Column(f"{uid}.0", self.name, "bigint", fixed=is_fixed, default=default)
        if self.of and table.named(self.of).type not in ("int", "bigint"):
            raise ValueError("a number")
        doubled = table.doubled
        if is_fixed:
            doubled = (*doubled, (column.id, table.named(self.of).id))
        made = replace(table, columns=(*table.columns, column), doubled=doubled)
        rows = [{**row, self.name: self.value(row)} for row in table.dicts()]
        largest = LARGEST[table.named(self.of).type] if self.of else 5
        numbers = [row[self.name] for row in rows if isinstance(row[self.name], int)]
        if any(abs(number) > largest for number in numbers):
            raise Overflow(self.name)
        return {**state, self.table: made.with_rows(rows)}

    def value(self, row: Mapping[str, Any]) -> Any:
        """What an old row gets."""
        if self.how in ("null", "default"):
            return 5 if self.how == "default" else None
        return None if row[self.of] is None else row[self.of] * 2

    @property
    def remembers(self) -> bool:
        return self.how == "up"

    def touched(self, state: State) -> set[str]:
        return set()

    def agrees(self, old: State, new: State, uid: str) -> bool:
        if self.how == "computed":
            return super().agrees(old, new, uid)
        kept = old[self.table]
        made = kept.with_rows(projected(new[self.table], kept.names))
        return same_rows(old, {**new, self.table: made})


@dataclass(frozen=True)
class DropColumn(Change):
    """A column less."""

    table: str
    name: str
    KEEPS_ROWS: ClassVar[bool] = True

    def filled(self, row: Mapping[str, Any], to_new: bool) -> dict[str, Any]:
        return {} if to_new else {self.name: None}

    def build(self) -> Any:
        return evolution.DropColumn(self.table, self.name)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        column = table.named(self.name)
        if not column.fixed:
            refuse_used(table, self.name)
        if len(table.columns) == 1:
            raise ValueError("the only column")
        names = [name for name in table.names if name != self.name]
        columns = tuple(c for c in table.columns if c.name != self.name)
        doubled = tuple(pair for pair in table.doubled if pair[0] != column.id)
        made = replace(table, columns=columns, doubled=doubled)
        return {**state, self.table: made.with_rows(projected(table, names))}

    def fits(self, state: State) -> bool:
        """Of a column that may be null: new rows of another side would have no value for it."""
        table = state.get(self.table)
        is_there = table is not None and table.has(self.name)
        return is_there and table.named(self.name).nullable and super().fits(state)


@dataclass(frozen=True)
class RenameColumn(Change):
    """Another name for a column."""

    table: str
    name: str
    to: str

    def build(self) -> Any:
        return evolution.RenameColumn(self.table, self.name, self.to)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        old = table.named(self.name)
        if self.to == self.name:
            return dict(state)
        if table.has(self.to):
            raise ValueError("taken")
        columns = tuple(replace(c, name=self.to) if c == old else c for c in table.columns)
        return {**state, self.table: replace(table, columns=columns)}

    def touched(self, state: State) -> set[str]:
        return set()


@dataclass(frozen=True)
class ReorderColumns(Change):
    """Another order of the columns; those that come later are last."""

    table: str
    columns: tuple[str, ...]
    COLUMNS: ClassVar[tuple[str, ...]] = ("columns",)
    KEEPS_ROWS: ClassVar[bool] = True

    def build(self) -> Any:
        return evolution.ReorderColumns(self.table, self.columns)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        known = [name for name in self.columns if table.has(name)]
        rest = [name for name in table.names if name not in known]
        columns = tuple(table.named(name) for name in (*known, *rest))
        rows = [{c.name: row[c.name] for c in columns} for row in table.dicts()]
        return {**state, self.table: replace(table, columns=columns).with_rows(rows)}

    def fits(self, state: State) -> bool:
        return super().fits(state) and self.get(state, "?")[self.table] != state[self.table]

    def touched(self, state: State) -> set[str]:
        return set()


@dataclass(frozen=True)
class SetDefault(Change):
    """Another default for a number."""

    table: str
    name: str
    value: int
    KEEPS_ROWS: ClassVar[bool] = True

    def build(self) -> Any:
        return evolution.SetDefault(self.table, self.name, self.value)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        return with_default(state, self.table, self.name, self.value)

    def fits(self, state: State) -> bool:
        return super().fits(state) and state[self.table].named(self.name).default != self.value

    def touched(self, state: State) -> set[str]:
        return set()


@dataclass(frozen=True)
class DropDefault(Change):
    """No default for a number any more."""

    table: str
    name: str
    KEEPS_ROWS: ClassVar[bool] = True

    def build(self) -> Any:
        return evolution.DropDefault(self.table, self.name)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        return with_default(state, self.table, self.name, None)

    def fits(self, state: State) -> bool:
        return super().fits(state) and state[self.table].named(self.name).default is not None

    def touched(self, state: State) -> set[str]:
        return set()


def with_default(state: State, name: str, column_name: str, value: int | None) -> dict[str, Table]:
    """A state in which a number has a default, or none."""
    table = state[name]
    column = table.named(column_name)
    if column.fixed or column.type == "string":
        raise ValueError("no such default")
    made = replace(column, default=value)
    columns = tuple(made if c == column else c for c in table.columns)
    return {**state, name: replace(table, columns=columns)}


def to_text(value: Any) -> Any:
    return None if value is None else str(value)


def to_number(value: Any) -> Any:
    """A whole number; `ValueError` if it is none."""
    return None if value is None else int(value)


def cast_to(kind: str, value: Any) -> Any:
    """A value as text or a number of a type; `ValueError` if it does not fit."""
    if kind == "string":
        return to_text(value)
    number = to_number(value)
    if number is not None and not -LARGEST[kind] - 1 <= number <= LARGEST[kind]:
        raise ValueError("too large")
    return number


def fits_type(kind: str, value: Any) -> bool:
    try:
        cast_to(kind, value)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class RetypeColumn(Change):
    """Another type: int, bigint or string."""

    table: str
    name: str
    type: str
    KEEPS_ROWS: ClassVar[bool] = True
    PARTIAL: ClassVar[bool] = True
    POLICY: ClassVar[str] = "reject"

    def build(self) -> Any:
        return evolution.RetypeColumn(self.table, self.name, self.type, self.POLICY)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        old = table.named(self.name)
        if old.id in table.key:  # which it became after the change was bound to it
            raise Unknown("a key of another type")
        refuse_used(table, self.name)
        if old.type == self.type:
            raise ValueError("the same")
        cast: Callable[[Any], Any] = to_text if self.type == "string" else to_number
        typed = replace(old, type=self.type, default=cast(old.default))
        columns = tuple(typed if c == old else c for c in table.columns)
        rows = [{**row, self.name: cast(row[self.name])} for row in table.dicts()]
        return {**state, self.table: replace(table, columns=columns).with_rows(rows)}

    def agrees(self, old: State, new: State, uid: str) -> bool:
        """A text like "07" is 7 on the other side, and stays what it is."""
        if not rest_agrees(old, new, (self.table,), (self.table,)):
            return False
        mine, theirs = old[self.table].by_key(), new[self.table].by_key()
        return mine.keys() == theirs.keys() and all(
            {**mine[key], self.name: to_text(mine[key][self.name])}
            == {**theirs[key], self.name: to_text(theirs[key][self.name])}
            for key in mine
        )


@dataclass(frozen=True)
class ShowNull(RetypeColumn):
    """Another type, where a value that does not fit is null."""

    POLICY: ClassVar[str] = "null"

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        column = table.named(self.name)
        if not column.nullable:
            raise ValueError("not null")
        rows = [
            {**row, self.name: row[self.name] if fits_type(self.type, row[self.name]) else None}
            for row in table.dicts()
        ]
        return super().get({**state, self.table: table.with_rows(rows)}, uid)

    def agrees(self, old: State, new: State, uid: str) -> bool:
        """Each value is the other, or the other side cannot hold it and shows none."""
        if not rest_agrees(old, new, (self.table,), (self.table,)):
            return False
        mine, theirs = old[self.table].by_key(), new[self.table].by_key()
        kinds = [side[self.table].named(self.name).type for side in (old, new)]
        for key in mine.keys() | theirs.keys():
            if key not in mine or key not in theirs:
                return False
            one, two = mine[key].pop(self.name), theirs[key].pop(self.name)
            hidden = (two is None and not fits_type(kinds[1], one)) or (
                one is None and not fits_type(kinds[0], two)
            )
            if mine[key] != theirs[key] or not (hidden or to_text(one) == to_text(two)):
                return False
        return True


@dataclass(frozen=True)
class HideRows(RetypeColumn):
    """Another type, where a row with a value that does not fit is not there."""

    KEEPS_ROWS: ClassVar[bool] = False
    POLICY: ClassVar[str] = "quarantine"

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        rows = [row for row in table.dicts() if fits_type(self.type, row[self.name])]
        made = super().get({**state, self.table: table.with_rows(rows)}, uid)
        return refuse_hidden(made, self.table)

    def touched(self, state: State) -> set[str]:
        return {column.id for column in state[self.table].columns}

    def agrees(self, old: State, new: State, uid: str) -> bool:
        if not rest_agrees(old, new, (self.table,), (self.table,)):
            return False
        mine, theirs = old[self.table], new[self.table]
        kinds = [table.named(self.name).type for table in (mine, theirs)]
        shown = [
            {
                key: {**row, self.name: to_text(row[self.name])}
                for key, row in table.by_key().items()
                if fits_type(kind, row[self.name])
            }
            for table, kind in ((mine, kinds[1]), (theirs, kinds[0]))
        ]
        return shown[0] == shown[1]


@dataclass(frozen=True)
class RetypeKey(Change):
    """Another type for the only column of a key; what does not come back is refused."""

    table: str
    name: str
    type: str
    PARTIAL: ClassVar[bool] = True

    def build(self) -> Any:
        return evolution.RetypeColumn(self.table, self.name, self.type)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        column = table.named(self.name)
        refuse_referenced(state, self.table)
        if table.key != (column.id,) or column.type == self.type:
            raise ValueError("no key")
        refuse_used(replace(table, key=()), self.name)
        rows = [{**row, self.name: cast_to(self.type, row[self.name])} for row in table.dicts()]
        was = [row[self.name] for row in table.dicts()]
        if [cast_to(column.type, row[self.name]) for row in rows] != was:
            raise ValueError("does not come back")
        columns = tuple(replace(c, type=self.type) if c == column else c for c in table.columns)
        return {**state, self.table: replace(table, columns=columns).with_rows(rows)}


def apart(text: Any) -> list[Any]:
    """A text cut in two at the first separator."""
    if text is None:
        return [None, None]
    return [*text.split(SEPARATOR, 1), None][:2]


def together(parts: Sequence[Any]) -> Any:
    given = [part for part in parts if part is not None]
    return SEPARATOR.join(given) if given else None


def _replaced(table: Table, names: Sequence[str], columns: Sequence[Column]) -> Table:
    """Columns in the place of the first of others."""
    for name in names:
        refuse_used(table, name)
        if table.named(name).fixed:
            raise ValueError("fixed")
    made: list[Column] = []
    for column in table.columns:
        if column.name == names[0]:
            made += columns
        elif column.name not in names:
            made.append(column)
    return replace(table, columns=tuple(made))


@dataclass(frozen=True)
class SplitColumn(Change):
    """A text becomes two."""

    table: str
    name: str
    into: tuple[str, str]
    KEEPS_ROWS: ClassVar[bool] = True

    def build(self) -> Any:
        return evolution.SplitColumn(self.table, self.name, self.into, separator=SEPARATOR)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        whole = table.named(self.name)
        if whole.type != "string":
            raise ValueError("a text")
        columns = [  # of a text that is there the first part is, too
            Column(f"{uid}.{n}", name, "string", nullable=n > 0 or whole.nullable)
            for n, name in enumerate(self.into)
        ]
        rows = [{**row, **dict(zip(self.into, apart(row[self.name]), strict=True))}
                for row in table.dicts()]  # fmt: skip
        made = _replaced(table, [self.name], columns)
        return {**state, self.table: made.with_rows(rows)}

    def agrees(self, old: State, new: State, uid: str) -> bool:
        return text_agrees(self.table, self.name, self.into, (old, new), is_split=True)


@dataclass(frozen=True)
class ConcatColumns(Change):
    """Two texts become one."""

    table: str
    names: tuple[str, str]
    into: str
    COLUMNS: ClassVar[tuple[str, ...]] = ("names",)
    KEEPS_ROWS: ClassVar[bool] = True

    def build(self) -> Any:
        return evolution.ConcatColumns(self.table, self.names, self.into, separator=SEPARATOR)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        if any(table.named(name).type != "string" for name in self.names):
            raise ValueError("a text")
        # A text with a part that is there is there, too.
        nullable = all(table.named(name).nullable for name in self.names)
        column = Column(f"{uid}.0", self.into, "string", nullable=nullable)
        rows = [{**row, self.into: together([row[n] for n in self.names])}
                for row in table.dicts()]  # fmt: skip
        made = _replaced(table, self.names, [column])
        return {**state, self.table: made.with_rows(rows)}

    def agrees(self, old: State, new: State, uid: str) -> bool:
        return text_agrees(self.table, self.into, self.names, (new, old), is_split=False)


def text_agrees(
    name: str, whole: str, parts: Sequence[str], sides: tuple[State, State], is_split: bool
) -> bool:
    """Whether, row by row, the text is made of the parts or the parts of the text."""
    one, other = sides
    if not rest_agrees(one, other, (name,), (name,)):
        return False
    texts, pieces = one[name].by_key(), other[name].by_key()
    if texts.keys() != pieces.keys():
        return False
    for key, row in texts.items():
        given = [pieces[key][part] for part in parts]
        if together(given) != row[whole] and apart(row[whole]) != given:
            return False
        rest = {n: v for n, v in row.items() if n != whole}
        if rest != {n: v for n, v in pieces[key].items() if n not in parts}:
            return False
    return True


# --- tables that come apart and together --------------------------------------------------------


@dataclass(frozen=True)
class Decompose(Change):
    """The columns go to two tables with the same key."""

    table: str
    into: tuple[tuple[str, tuple[str, ...]], ...]
    COLUMNS: ClassVar[tuple[str, ...]] = ()

    def build(self) -> Any:
        return evolution.Decompose(self.table, {name: list(part) for name, part in self.into})

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        refuse_referenced(state, self.table)
        if table.checks or table.links or table.doubled:
            raise ValueError("simple tables only")
        if table.uniques:  # which go with the part that has their columns, if there is one
            raise Unknown("unique values")
        made = without(state, self.table)
        listed = [name for _, part in self.into for name in part]
        if sorted([*listed, *table.key_names]) != sorted(table.names):
            raise ValueError("every column once")
        for number, (name, part) in enumerate(self.into):
            if name in made:
                raise ValueError("taken")
            names = [*table.key_names, *(n for n in table.names if n in part)]
            columns = tuple(replace(c, id=c.id) for c in table.columns if c.name in names)
            whole = Table(f"{uid}.t{number}", columns, table.key)
            made[name] = whole.with_rows(projected(table, whole.names))
        return made

    def touched(self, state: State) -> set[str]:
        return {column.id for column in state[self.table].columns}

    def agrees(self, old: State, new: State, uid: str) -> bool:
        names = [name for name, _ in self.into]
        parts = [new[name] for name in names]
        whole = old[self.table]
        return rest_agrees(old, new, (self.table,), names) and joined(whole, parts) == whole.rows


def joined(whole: Table, parts: Sequence[Table]) -> tuple[Any, ...]:
    """The rows of parts with one key, side by side."""
    held = [part.by_key() for part in parts]
    rows = []
    for key in {key for part in held for key in part}:
        row = dict.fromkeys(whole.names)
        row.update(zip(whole.key_names, key, strict=True))
        for part, there in zip(parts, held, strict=True):
            values = there.get(key, {}).items()
            row.update({n: v for n, v in values if n in row and n not in part.key_names})
        rows.append(row)
    return whole.with_rows(rows).rows


@dataclass(frozen=True)
class JoinTables(Change):
    """One table of two with keys of the same type."""

    left: str
    right: str
    into: str
    TABLES: ClassVar[tuple[str, ...]] = ("left", "right")
    COLUMNS: ClassVar[tuple[str, ...]] = ()
    PARTIAL: ClassVar[bool] = True

    def build(self) -> Any:
        return evolution.JoinTables(self.left, self.right, self.into)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        left, right = state[self.left], state[self.right]
        refuse_referenced(state, self.left, self.right)
        made = without(state, self.left, self.right)
        for table in (left, right):
            if table.checks or table.doubled or table.uniques or self.left == self.right:
                raise ValueError("simple tables only")
            if {link for link, _ in table.links} & set(table.key):
                raise ValueError("a key that refers to another table")
        if self.into in made:
            raise ValueError("taken")
        if [left.column(one).type for one in left.key] != [
            right.column(one).type for one in right.key
        ]:
            raise ValueError("keys of other types")
        if set(left.names) & (set(right.names) - set(right.key_names)):
            raise ValueError("names twice")
        columns = (*left.columns, *(c for c in right.columns if c.id not in right.key))
        whole = Table(f"{uid}.t", columns, left.key, links=(*left.links, *right.links))
        made[self.into] = replace(whole, rows=joined(whole, [left, right]))
        return made

    def fits(self, state: State) -> bool:
        """Of keys that have the same names when it is made: later they are what they were."""
        sides = [state[name].key_names for name in (self.left, self.right) if name in state]
        return super().fits(state) and sides[0] == sides[1]

    def touched(self, state: State) -> set[str]:
        return {c.id for name in (self.left, self.right) for c in state[name].columns}

    def agrees(self, old: State, new: State, uid: str) -> bool:
        whole, parts = new[self.into], [old[self.left], old[self.right]]
        names = (self.left, self.right)
        return rest_agrees(old, new, names, (self.into,)) and joined(whole, parts) == whole.rows


@dataclass(frozen=True)
class Normalize(Change):
    """A column goes to a lookup table."""

    table: str
    name: str
    into: str

    def build(self) -> Any:
        return evolution.Normalize(self.table, [self.name], self.into)

    PARTIAL: ClassVar[bool] = True

    def get(self, state: State, uid: str) -> dict[str, Table]:
        """The ids of lookup rows are the database's: here each value is its own id."""
        table = state[self.table]
        refuse_used(table, self.name)
        if self.into in state or table.has(self.reference) or table.named(self.name).fixed:
            raise ValueError("taken")
        moved = table.named(self.name)
        reference = Column(f"{uid}.0", self.reference, "bigint", moved.nullable)
        key = Column(f"{uid}.1", "id", "bigint", nullable=False)
        lookup = Table(f"{uid}.t", (key, moved), (key.id,))
        narrow = replace(
            table,
            columns=(*(c for c in table.columns if c != moved), reference),
            links=tuple(sorted([*table.links, (reference.id, lookup.id)])),
        )
        values = {row[self.name] for row in table.dicts()} - {None}
        rows = [{**row, self.reference: row[self.name]} for row in table.dicts()]
        return {
            **state,
            self.table: narrow.with_rows(rows),
            self.into: lookup.with_rows({"id": v, self.name: v} for v in values),
        }

    @property
    def reference(self) -> str:
        return f"{self.into}_id"

    def agrees(self, old: State, new: State, uid: str) -> bool:
        if not rest_agrees(old, new, (self.table,), (self.table, self.into)):
            return False
        values = {row["id"]: row[self.name] for row in new[self.into].dicts()}
        rows = [
            {**row, self.name: values.get(row[self.reference])} for row in new[self.table].dicts()
        ]
        return old[self.table].with_rows(rows).rows == old[self.table].rows


@dataclass(frozen=True)
class NormalizeInto(Change):
    """A column goes to a lookup table that is there."""

    table: str
    name: str
    into: str
    TABLES: ClassVar[tuple[str, ...]] = ("table", "into")
    PARTIAL: ClassVar[bool] = True

    @property
    def kind(self) -> str:
        return "Normalize"

    @property
    def fills(self) -> str | None:
        return self.into

    def build(self) -> Any:
        return evolution.Normalize(self.table, [self.name], self.into)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        """A value that the lookup table has not is its own id here."""
        table, lookup = state[self.table], state[self.into]
        refuse_used(table, self.name)
        moved, theirs = table.named(self.name), lookup.named(self.name)
        is_plain = not (lookup.checks or lookup.links or lookup.doubled or lookup.id == table.id)
        fits = (moved.type, moved.fixed, theirs.fixed) == (theirs.type, False, False)
        is_null = moved.nullable and not theirs.nullable
        key = [(lookup.column(one).name, lookup.column(one).type) for one in lookup.key]
        if key != [("id", "bigint")] or len(lookup.columns) != 2 or not is_plain:
            raise ValueError("no lookup table")
        if not fits or is_null or table.has(f"{self.into}_id"):
            raise ValueError("no lookup of that column")
        reference = Column(f"{uid}.0", f"{self.into}_id", "bigint", moved.nullable)
        narrow = replace(
            table,
            columns=(*(c for c in table.columns if c != moved), reference),
            links=tuple(sorted([*table.links, (reference.id, lookup.id)])),
        )
        ids = {row[self.name]: row["id"] for row in lookup.dicts()}
        values = {row[self.name] for row in table.dicts()} - {None}
        more = [{"id": value, self.name: value} for value in values - ids.keys()]
        ids = {**{value: value for value in values}, **ids, None: None}
        rows = [{**row, reference.name: ids[row[self.name]]} for row in table.dicts()]
        return {
            **state,
            self.table: narrow.with_rows(rows),
            self.into: lookup.with_rows([*lookup.dicts(), *more]),
        }

    def agrees(self, old: State, new: State, uid: str) -> bool:
        both = (self.table, self.into)
        if not rest_agrees(old, new, both, both):
            return False
        if not {*old[self.into].rows} <= {*new[self.into].rows}:
            return False
        values = {row["id"]: row[self.name] for row in new[self.into].dicts()}
        reference = f"{self.into}_id"
        rows = [{**row, self.name: values.get(row[reference])} for row in new[self.table].dicts()]
        return old[self.table].with_rows(rows).rows == old[self.table].rows


@dataclass(frozen=True)
class SplitTable(Change):
    """The rows go to two tables: where a number is at least so much, and all others."""

    table: str
    name: str
    least: int
    into: tuple[str, str]

    def build(self) -> Any:
        high, low = self.into
        text = f"`{self.name}` >= {self.least}"
        other = f"`{self.name}` IS NULL OR `{self.name}` < {self.least}"
        return evolution.SplitTable(self.table, {high: text, low: other})

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        refuse_referenced(state, self.table)
        if table.named(self.name).type == "string":
            raise ValueError("a number")
        if table.uniques:
            raise ValueError("rows of two tables may have one value")
        made = without(state, self.table)
        for number, name in enumerate(self.into):
            if name in made:
                raise ValueError("taken")
            rows = [row for row in table.dicts() if self.is_high(row) == (number == 0)]
            made[name] = replace(table, id=f"{uid}.t{number}").with_rows(rows)
        return made

    def is_high(self, row: Mapping[str, Any]) -> bool:
        return row[self.name] is not None and row[self.name] >= self.least

    def touched(self, state: State) -> set[str]:
        return {column.id for column in state[self.table].columns}

    def agrees(self, old: State, new: State, uid: str) -> bool:
        if not rest_agrees(old, new, (self.table,), self.into):
            return False
        high, low = (new[name].by_key() for name in self.into)
        whole = old[self.table].by_key()
        if {**low, **high} != {key: whole.get(key) for key in {**low, **high}}:
            return False
        return all(key in high or key in low for key in whole)


@dataclass(frozen=True)
class UnionTables(Change):
    """One table of two, and a column that says where a row is from."""

    tables: tuple[str, str]
    into: str
    origin: str
    TABLES: ClassVar[tuple[str, ...]] = ("tables",)
    COLUMNS: ClassVar[tuple[str, ...]] = ()
    PARTIAL: ClassVar[bool] = True

    def build(self) -> Any:
        return evolution.UnionTables(self.tables, self.into, self.origin, self.tables[0])

    def get(self, state: State, uid: str) -> dict[str, Table]:
        first, second = (state[name] for name in self.tables)
        refuse_referenced(state, *self.tables)
        types = [[(c.name, c.type) for c in sorted(t.columns, key=lambda c: c.name)]
                 for t in (first, second)]  # fmt: skip
        made = without(state, *self.tables)
        if types[0] != types[1] or first.key_names != second.key_names or self.into in made:
            raise ValueError("other columns")
        if first.id == second.id or any(t.uniques for t in (first, second)):
            raise ValueError("simple tables only")
        if any(t.checks or t.links or t.doubled for t in (first, second)):
            raise ValueError("simple tables only")
        columns = tuple(
            replace(
                c,
                id=f"{uid}.{n}",
                nullable=c.nullable or second.named(c.name).nullable,
                fixed=c.fixed or second.named(c.name).fixed,
                default=c.default if second.named(c.name).default == c.default else None,
            )
            for n, c in enumerate(first.columns)
        )
        ids = {c.name: c.id for c in columns}
        origin = Column(f"{uid}.o", self.origin, "string", nullable=False, default=self.tables[0])
        key = (*(ids[name] for name in first.key_names), origin.id)
        whole = Table(f"{uid}.t", (*columns, origin), key)
        rows = [{**row, self.origin: name} for name in self.tables for row in state[name].dicts()]
        made[self.into] = whole.with_rows(rows)
        return made

    def touched(self, state: State) -> set[str]:
        return {c.id for name in self.tables for c in state[name].columns}


@dataclass(frozen=True)
class ChangeKey(Change):
    """Another key."""

    table: str
    name: str
    PARTIAL: ClassVar[bool] = True

    def build(self) -> Any:
        return evolution.ChangeKey(self.table, [self.name])

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        refuse_referenced(state, self.table)
        column = table.named(self.name)
        values = [row[self.name] for row in table.dicts()]
        if (column.id,) == table.key or column.fixed or None in values:
            raise ValueError("no key")
        if len(set(values)) < len(values):
            raise ValueError("not unique")
        columns = tuple(replace(c, nullable=False) if c == column else c for c in table.columns)
        return {**state, self.table: replace(table, columns=columns, key=(column.id,))}


# --- constraints and masks ----------------------------------------------------------------------


@dataclass(frozen=True)
class AddConstraint(Change):
    """A number has to be at least so much; or a column not null, if no number is given."""

    table: str
    name: str
    least: int | None
    called: str
    quarantine: bool = False
    PARTIAL: ClassVar[bool] = True

    def build(self) -> Any:
        what = "quarantine" if self.quarantine else "reject"
        if self.least is None:
            return evolution.AddConstraint(self.table, not_null=self.name, on_violation=what)
        text = f"`{self.name}` >= {self.least}"
        return evolution.AddConstraint(self.table, self.called, check=text, on_violation=what)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        column = table.named(self.name)
        if column.fixed or not column.nullable:
            raise ValueError("fixed")
        if self.least is not None and column.type == "string":
            raise ValueError("a number")
        if any(check.name == self.called for check in table.checks):
            raise ValueError("taken")
        kept = [row for row in table.dicts() if self.holds(row)]
        if len(kept) < len(table.rows) and not self.quarantine:
            raise ValueError("broken")
        if self.least is None:
            columns = tuple(replace(c, nullable=False) if c == column else c for c in table.columns)
            made = replace(table, columns=columns)
        else:
            check = Check(self.called, column.id, self.least)
            made = replace(table, checks=(*table.checks, check))
        return refuse_hidden({**state, self.table: made.with_rows(kept)}, self.table)

    @property
    def hides_by(self) -> str | None:
        return self.name if self.quarantine else None

    def holds(self, row: Mapping[str, Any]) -> bool:
        if self.least is None:
            return row[self.name] is not None
        return row[self.name] is None or row[self.name] >= self.least

    def touched(self, state: State) -> set[str]:
        return {c.id for c in state[self.table].columns} if self.quarantine else set()

    def agrees(self, old: State, new: State, uid: str) -> bool:
        if not rest_agrees(old, new, (self.table,), (self.table,)):
            return False
        mine, theirs = old[self.table].by_key(), new[self.table].by_key()
        hidden = {key for key, row in mine.items() if not self.holds(row)}
        return {k: v for k, v in mine.items() if k not in hidden} == theirs and (
            self.quarantine or not hidden
        )


@dataclass(frozen=True)
class DropConstraint(Change):
    """A condition less."""

    table: str
    called: str
    COLUMNS: ClassVar[tuple[str, ...]] = ()
    PARTIAL: ClassVar[bool] = True

    def build(self) -> Any:
        return evolution.DropConstraint(self.table, self.called)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        checks = tuple(check for check in table.checks if check.name != self.called)
        if checks == table.checks:
            raise KeyError(self.called)
        return {**state, self.table: replace(table, checks=checks)}

    def touched(self, state: State) -> set[str]:
        return set()


@dataclass(frozen=True)
class MaskColumn(Change):
    """A column that shows something else: null, a constant, or its length and a star."""

    table: str
    name: str
    method: str
    ONLY: ClassVar[tuple[str, ...]] = ("none", "forward")

    def build(self) -> Any:
        if self.method == "null":
            return evolution.MaskColumn(self.table, self.name, "null")
        if self.method == "constant":
            return evolution.MaskColumn(self.table, self.name, "constant", "***")
        if self.method == "hash":
            return evolution.MaskColumn(self.table, self.name, key=f"env:{MASK_VARIABLE}")
        text = f"concat(substring(`{self.name}`, 1, 1), '*')"
        return evolution.MaskColumn(self.table, self.name, "expression", text)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        column = table.named(self.name)
        refuse_used(table, self.name)
        if column.type != "string":
            raise Unknown("a mask of a number")
        default = "***" if self.method == "constant" else None
        nullable = column.nullable or self.method in ("null", "expression")
        masked = replace(column, fixed=True, default=default, nullable=nullable, mask=uid)
        columns = tuple(masked if c == column else c for c in table.columns)
        rows = [{**row, self.name: self.value(row[self.name])} for row in table.dicts()]
        return {**state, self.table: replace(table, columns=columns).with_rows(rows)}

    def value(self, value: Any) -> Any:
        if self.method == "null":
            return None
        if self.method == "constant":
            return "***"
        if self.method == "hash" and value is not None:
            secret = blake3(MASK_KEY.encode(), derive_key_context=HASH_CONTEXT).digest()
            return blake3(value.encode(), key=secret).digest(16).hex()
        return None if value is None else value[:1] + "*"


@dataclass(frozen=True)
class MaskKey(Change):
    """A number of the key that shows another one: rows stay apart, and links to them go."""

    table: str
    name: str
    ONLY: ClassVar[tuple[str, ...]] = ("none", "forward")

    def build(self) -> Any:
        text = f"-1 - `{self.name}`"
        return evolution.MaskColumn(self.table, self.name, "expression", text)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        column = table.named(self.name)
        used = {check.column for check in table.checks} | {c for p in table.doubled for c in p}
        used |= {unique for _, unique in table.uniques}
        if column.type not in ("int", "bigint") or column.fixed:
            raise ValueError("a number")
        if column.id in used:
            raise ValueError("used")
        rows = [
            {**row, self.name: None if row[self.name] is None else -1 - row[self.name]}
            for row in table.dicts()
        ]
        is_key = column.id in table.key
        masked = replace(column, mask=uid)
        if not is_key:  # its source has another key by now
            masked = replace(masked, fixed=True, default=None, nullable=True, draws=False)
        columns = tuple(masked if c == column else c for c in table.columns)
        made = {**state, self.table: replace(table, columns=columns).with_rows(rows)}
        return {
            name: replace(
                one,
                links=tuple(
                    link
                    for link in one.links
                    if (link[1] != table.id or not is_key)
                    and (one.id, link[0]) != (table.id, column.id)
                ),
            )
            for name, one in made.items()
        }


@dataclass(frozen=True)
class AddUnique(Change):
    """A column whose values no two rows have in common."""

    table: str
    name: str
    called: str
    PARTIAL: ClassVar[bool] = True
    HIDES: ClassVar[bool] = False
    """Whether of rows with one value all but that with the smallest key are hidden."""

    def build(self) -> Any:
        what = "quarantine" if self.HIDES else "reject"
        return evolution.AddUnique(self.table, self.name, self.called, what)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        column = table.named(self.name)
        if column.id in table.key or column.id in {unique for _, unique in table.uniques}:
            raise ValueError("unique already")
        if self.called in {name for name, _ in table.uniques}:
            raise ValueError("taken")
        if not table.key:  # which of two rows is hidden follows from keys that nobody sees
            raise Unknown("rows that nobody can name")
        kept = self.shown(table)
        if len(kept) < len(table.rows) and not self.HIDES:
            raise ValueError("broken")
        uniques = (*table.uniques, (self.called, column.id))
        made = replace(table, uniques=uniques)
        return refuse_hidden({**state, self.table: made.with_rows(kept.values())}, self.table)

    def shown(self, table: Table) -> dict[Any, dict[str, Any]]:
        """The rows but those whose value one with a smaller key has."""
        seen, found = set(), {}
        held = table.by_key()
        for key in sorted(held, key=lambda key: [(part is not None, part) for part in key]):
            row = held[key]
            if row[self.name] is None or row[self.name] not in seen:
                found[key] = row
                seen.add(row[self.name])
        return found

    def touched(self, state: State) -> set[str]:
        return {c.id for c in state[self.table].columns} if self.HIDES else set()

    def agrees(self, old: State, new: State, uid: str) -> bool:
        if not rest_agrees(old, new, (self.table,), (self.table,)):
            return False
        shown = self.shown(old[self.table])
        is_whole = self.HIDES or len(shown) == len(old[self.table].rows)
        return is_whole and shown == new[self.table].by_key()


@dataclass(frozen=True)
class HideTwins(AddUnique):
    """The same with quarantine.

    Not both ways: a row that gives up its value there lets another one be seen.
    """

    ONLY: ClassVar[tuple[str, ...]] = ("none", "forward")
    HIDES: ClassVar[bool] = True

    @property
    def hides_by(self) -> str | None:
        return self.name


@dataclass(frozen=True)
class DropUnique(Change):
    """Values that rows may have in common again."""

    table: str
    called: str
    COLUMNS: ClassVar[tuple[str, ...]] = ()
    PARTIAL: ClassVar[bool] = True

    def build(self) -> Any:
        return evolution.DropUnique(self.table, name=self.called)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        uniques = tuple(unique for unique in table.uniques if unique[0] != self.called)
        if uniques == table.uniques:
            raise KeyError(self.called)
        return {**state, self.table: replace(table, uniques=uniques)}

    def touched(self, state: State) -> set[str]:
        return set()


@dataclass(frozen=True)
class NoChange(Change):
    """Everything as it is: that of a replica."""

    TABLES: ClassVar[tuple[str, ...]] = ()
    COLUMNS: ClassVar[tuple[str, ...]] = ()

    def build(self) -> Any:
        return no_change.NoChange()

    def get(self, state: State, uid: str) -> dict[str, Table]:
        return dict(state)

    def touched(self, state: State) -> set[str]:
        return set()


EVERY: tuple[type[Change], ...] = (
    CreateTable, DropTable, RenameTable, AddColumn, DropColumn, RenameColumn, RetypeColumn,
    SplitColumn, ConcatColumns, Decompose, JoinTables, Normalize, NormalizeInto,
    SplitTable, UnionTables, ChangeKey, AddConstraint, DropConstraint, MaskColumn, ReorderColumns,
    SetDefault, DropDefault, AddUnique, HideTwins, DropUnique,
)  # fmt: skip


# --- changes that follow names ------------------------------------------------------------------


@dataclass(frozen=True)
class Names:
    """The ids of tables by the names they had, and of columns by those of tables and their own."""

    tables: Mapping[str, str]
    columns: Mapping[tuple[str, str], str]


@dataclass(frozen=True)
class BoundChanges:
    """Changes made one after the other, with the ids of what they name on the old side."""

    changes: tuple[Change, ...]
    uid: str
    names: tuple[Names, ...]
    """What each of them names."""
    uids: tuple[str, ...] = ()
    """Of what each of them makes, where they were made apart from each other."""

    def made_by(self, number: int) -> str:
        """What the ids begin with of what one of them makes."""
        return self.uids[number] if self.uids else f"{self.uid}.{number}"

    def then(self, later: BoundChanges) -> BoundChanges:
        """These changes and later ones, whatever branch was between."""
        uids = [one.made_by(at) for one in (self, later) for at in range(len(one.changes))]
        changes, names = (*self.changes, *later.changes), (*self.names, *later.names)
        return BoundChanges(changes, self.uid, names, tuple(uids))

    def get(self, state: State) -> dict[str, Table]:
        """The new side of an old one; `KeyError` or `ValueError` if there is none."""
        made = dict(state)
        for number, change in enumerate(self.rebound(state)):
            if not self._is_made(number, made):
                made = change.get(made, self.made_by(number))
        return made

    def stages(self, state: State) -> Iterator[tuple[Change, State]]:
        """The changes that are left to make, in the names of today, and what each is made of."""
        made = dict(state)
        for number, change in enumerate(self.rebound(state)):
            if not self._is_made(number, made):
                yield change, made
                made = change.get(made, self.made_by(number))

    def is_made(self, state: State) -> bool:
        """Whether a state has one of the changes already."""
        made = dict(state)
        for number, change in enumerate(self.rebound(state)):
            if self._is_made(number, made):
                return True
            before = made
            made = change.get(made, f"{self.uid}.{number}")
            if made == before:
                return True
        return False

    def _is_made(self, number: int, state: State) -> bool:
        """Whether a state has what one of the changes makes: it came there by a merge."""
        own = f"{self.uid}.{number}."
        ids = (one.id for table in state.values() for one in (table, *table.columns))
        return any(one.startswith(own) for one in ids)

    def rebound(self, state: State) -> tuple[Change, ...]:
        """The changes in the names of today, each as those before it leave them."""
        made: State = state
        found: list[Change] = []
        for number, (change, known) in enumerate(zip(self.changes, self.names, strict=True)):
            found.append(_followed(change, known, made))
            if self._is_made(number, made):
                continue
            try:
                made = found[-1].get(made, self.made_by(number))
            except (KeyError, ValueError):
                made = {}
        return tuple(found)

    def moved(self, source: str, to: str, is_derived: bool) -> BoundChanges:
        """The changes of a copy of the branch; the table of a derived one has ids of its own."""
        if not is_derived:
            return self

        def now(wanted: str) -> str:
            return moved_id(wanted, source, to)

        names = [
            Names(
                {name: now(wanted) for name, wanted in known.tables.items()},
                {pair: now(wanted) for pair, wanted in known.columns.items()},
            )
            for known in self.names
        ]
        return replace(self, names=tuple(names))

    def agrees(self, old: State, new: State) -> bool:
        """Whether both sides could be in step both ways."""
        changes = self.rebound(old)
        if len(changes) == 1 and self._is_made(0, old):
            return same_rows(old, new)
        if len(changes) == 1:
            return changes[0].agrees(old, new, self.made_by(0))
        states = [old, *(made for _, _, _, made in self._steps(old, new))]
        return shared_agree(states[-1], new, old, self.filled(old, new))

    def _steps(self, old: State, new: State) -> Iterator[tuple[int, Change, State, State]]:
        """The changes that are left to make, by number and in the names of today, on old rows.

        With what each is made of, and makes.  A half of a table may hold rows against its
        condition: so it gets those that the new side has there, and later changes are held to them;
        unless one of those fills it with rows of others.
        """
        held = {table.id: table for table in new.values()}
        made: State = dict(old)
        for number, (change, known) in enumerate(zip(self.changes, self.names, strict=True)):
            if self._is_made(number, made):
                continue
            now, before = _followed(change, known, made), made
            made = now.get(before, self.made_by(number))
            if isinstance(now, SplitTable):
                rows = before[now.table].by_key()
                filled = {later.fills for later in self.changes[number + 1 :]}
                names = [name for name in now.into if name not in filled]
                halves = {name: made[name] for name in names if made[name].id in held}
                made = {**made, **{n: _placed(t, held[t.id], rows) for n, t in halves.items()}}
            yield number, now, before, made

    def filled(self, old: State, new: State) -> set[str]:
        """The ids of tables whose rows do not follow from the old side's as it is.

        They get rows of others, which their own side may have alone; or rows are kept from them by
        a value that they were given once and that is not computed anew.
        """
        found: set[str] = set()
        given: set[str] = set()
        for number, change, made, _ in self._steps(old, new):
            if change.fills is not None:
                found.add(made[change.fills].id)
            if change.hides_by is not None:
                table = made[change.table]  # type: ignore[attr-defined]
                found |= {table.id} if table.named(change.hides_by).id in given else set()
            given |= {f"{self.made_by(number)}.0"} if change.remembers else set()
        return found

    def touched(self, state: State) -> set[str]:
        """The ids of columns of the old side that are not the same on the new one."""
        found: set[str] = set()
        made = dict(state)
        for number, change in enumerate(self.rebound(state)):
            found |= change.touched(made)
            made = change.get(made, self.made_by(number))
        return found

    def joined(self, state: State) -> set[tuple[str, str, str]]:
        """The columns of two tables that change together, by ids."""
        found: set[tuple[str, str, str]] = set()
        made = dict(state)
        for number, change in enumerate(self.rebound(state)):
            found |= change.joined(made)
            made = change.get(made, self.made_by(number))
        return found

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(change.kind for change in self.changes)

    @property
    def is_partial(self) -> bool:
        return any(change.PARTIAL for change in self.changes)


def _placed(half: Table, other: Table, rows: Mapping[Any, Mapping[str, Any]]) -> Table:
    """A half of a table with those of its rows whose keys another side has there."""
    if half.key != other.key:
        return half
    return half.with_rows(row for key, row in rows.items() if key in other.by_key())


def shared_agree(one: State, other: State, source: State, filled: Collection[str] = ()) -> bool:
    """Whether the keys of tables agree; where several changes compose no more is known.

    Only of tables and columns that the source has: halves of a table may hold rows against their
    conditions, and ids of lookup rows are the database's own.
    """
    known = {table.id for table in source.values()}
    known |= {column.id for table in source.values() for column in table.columns}
    if set(one) != set(other):
        return False
    for name, table in one.items():
        twin = other[name]
        if table.names != twin.names or table.key_names != twin.key_names:
            return False
        if not table.key or table.id not in known or table.id in filled:
            continue
        mine, theirs = table.by_key().keys(), twin.by_key().keys()
        if len(mine) != len(theirs) or (known.issuperset(table.key) and mine != theirs):
            return False
    return True


def columns_agree(one: State, other: State, own: Collection[str] = ()) -> bool:
    """Whether rows that two states have of one table agree in the columns that both have of it.

    That is what is known of two sides that changed their schemas each on its own.  `own` are ids
    of columns that are each side's own.
    """
    twins = {table.id: table for table in other.values()}
    for table in one.values():
        twin = twins.get(table.id)
        if twin is None or twin.key != table.key:
            continue
        ids = {(c.id, c.type): c.name for c in twin.columns if not c.fixed}
        checked = {check.column for each in (table, twin) for check in each.checks}
        pairs = [
            (column.name, ids[column.id, column.type])
            for column in table.columns
            if (column.id, column.type) in ids
            and not column.fixed
            and column.id not in checked
            and column.id not in own
        ]
        mine, yours = table.by_key(), twin.by_key()
        for key in mine.keys() & yours.keys():
            if any(mine[key][name] != yours[key][title] for name, title in pairs):
                return False
    return True


def bind(changes: Sequence[Change], state: State, uid: str) -> BoundChanges:
    """Changes of a state, so that they follow what they name."""
    made: State = state
    names = []
    for number, change in enumerate(changes):
        tables = {name: table.id for name, table in made.items()}
        columns = {(n, c.name): c.id for n, table in made.items() for c in table.columns}
        names.append(Names(tables, columns))
        made = change.get(made, f"{uid}.{number}")
    return BoundChanges(tuple(changes), uid, tuple(names))


def _followed(change: Change, known: Names, state: State) -> Change:
    """A change in the names that what it names has in a state."""
    by_id = {table.id: (name, table) for name, table in state.items()}
    names: dict[str, str] = {}
    titles: dict[str, dict[str, str]] = {}
    for name, table_id in known.tables.items():
        if table_id not in by_id:
            continue
        names[name], table = by_id[table_id]
        now = {column.id: column.name for column in table.columns}
        titles[name] = {
            title: now[column]
            for (owner, title), column in known.columns.items()
            if owner == name and column in now
        }
    return _renamed(change, names, titles)


def _renamed(
    change: Change, names: Mapping[str, str], titles: Mapping[str, Mapping[str, str]]
) -> Change:
    """A change with other names for its tables and columns."""
    made: dict[str, Any] = {}
    first = getattr(change, change.TABLES[0]) if change.TABLES else ""
    columns = titles.get(first, {}) if isinstance(first, str) else {}
    others = titles.get(getattr(change, change.TABLES[1]), {}) if change.OTHER_COLUMNS else {}
    for item in fields(change):
        value = getattr(change, item.name)
        if item.name in change.TABLES:
            made[item.name] = _mapped(value, names)
        elif item.name in change.COLUMNS or item.name == "of":
            made[item.name] = _mapped(value, columns)
        elif item.name in change.OTHER_COLUMNS:
            made[item.name] = _mapped(value, others)
    return replace(change, **made)


def _mapped(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    return tuple(names.get(one, one) for one in value)
