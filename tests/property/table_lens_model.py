"""Models of the changes of whole tables: plain Python, on whole tables, from the printed rules.

A model holds both sides as dicts and what the rules remember between two steps as explicit
sets.  Each write recomputes the other side from everything there is; it looks at no delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from livingdb.tables.row_hash import encoded_rows
from livingdb.tables.schema import TableSchema

__all__ = [
    "HalvesModel",
    "KeyedLookupModel",
    "LookupModel",
    "Mirror",
    "Model",
    "Refused",
    "RekeyModel",
    "Row",
    "Rows",
    "SharedLookupModel",
    "SplitModel",
    "State",
    "StrictModel",
    "UnionModel",
    "plain",
]

Row = dict[str, Any]
Key = tuple[Any, ...]
Rows = dict[Key, Row]
State = dict[str, Rows]
Writes = Mapping[str, Sequence[tuple[Key, Row | None]]]


class Refused(Exception):
    """The rules do not let a write through."""


def plain(value: Any) -> Any:
    """A value that equals itself."""
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def written(state: State, writes: Writes) -> State:
    """Tables after rows were put and deleted."""
    made = {name: dict(rows) for name, rows in state.items()}
    for name, rows in writes.items():
        for key, row in rows:
            if row is None:
                made[name].pop(key, None)
            else:
                made[name][key] = row
    return made


class Model:
    """Two sides in step."""

    def __init__(self, old: State):
        self.old = old
        self.new: State = {}
        self.begin()

    def begin(self) -> None:
        """Make the new side, and what there is to remember."""
        raise NotImplementedError

    def put_right(self, old: State) -> State:
        """The new side for an old one."""
        raise NotImplementedError

    def put_left(self, new: State) -> State:
        """The old side for a new one."""
        raise NotImplementedError

    def remember(self) -> None:
        """Recompute what there is to remember, after either direction."""

    def write_old(self, writes: Writes) -> None:
        """A write on the old side."""
        old = written(self.old, writes)
        self.new, self.old = self.put_right(old), old
        self.remember()

    def write_new(self, writes: Writes) -> None:
        """A write on the new side."""
        new = written(self.new, writes)
        self.old, self.new = self.put_left(new), new
        self.remember()


class Mirror(Model):
    """A model with its sides exchanged; it begins with writes on what is now the old side."""

    def __init__(self, model: Model, old: State):
        self.model = model
        self.write_old({name: list(rows.items()) for name, rows in old.items()})

    @property
    def old(self) -> State:  # type: ignore[override]
        """The other's new side."""
        return self.model.new

    @property
    def new(self) -> State:  # type: ignore[override]
        """The other's old side."""
        return self.model.old

    def write_old(self, writes: Writes) -> None:
        self.model.write_new(writes)

    def write_new(self, writes: Writes) -> None:
        self.model.write_old(writes)


class SplitModel(Model):
    """Split by predicates, with the six key sets kept from step to step."""

    def __init__(self, old: State, table: str, conditions: Mapping[str, Callable[[Row], bool]]):
        self.table = table
        self.names = tuple(conditions)
        self.holds_r, self.holds_s = conditions.values()
        super().__init__(old)

    def begin(self) -> None:
        self.r_minus: set[Key] = set()
        self.r_star: set[Key] = set()
        self.s_minus: set[Key] = set()
        self.s_star: set[Key] = set()
        self.s_plus: dict[Key, Row] = {}
        self.new = self.put_right(self.old)
        self.remember()

    def put_right(self, old: State) -> State:
        r: Rows = {}
        s: Rows = {}
        self.rest: Rows = {}
        for p, a in old[self.table].items():
            r0 = self.holds_r(a) or p in self.r_star
            s0 = self.holds_s(a) or p in self.s_star
            in_r = r0 and not (p in self.r_minus and s0)
            in_s = (s0 and not (p in self.s_minus and in_r)) or (p in self.s_plus and in_r)
            if in_r:
                r[p] = a
            if in_s:
                s[p] = self.s_plus[p] if p in self.s_plus and in_r else a
            if not in_r and not in_s:
                self.rest[p] = a
        return dict(zip(self.names, (r, s), strict=True))

    def put_left(self, new: State) -> State:
        r, s = (new[name] for name in self.names)
        self.rest = {p: a for p, a in self.rest.items() if p not in r and p not in s}
        return {self.table: {**self.rest, **s, **r}}

    def remember(self) -> None:
        r, s = (self.new[name] for name in self.names)
        self.r_minus = {p for p, a in s.items() if p not in r and self.holds_r(a)}
        self.r_star = {p for p, a in r.items() if not self.holds_r(a)}
        self.s_plus = {p: a for p, a in s.items() if p in r and r[p] != a}
        self.s_minus = {p for p, a in r.items() if p not in s and self.holds_s(a)}
        self.s_star = {p for p, a in s.items() if not self.holds_s(a)}


class StrictModel(Model):
    """Split by predicates of which each row fulfils one."""

    def __init__(self, old: State, table: str, conditions: Mapping[str, Callable[[Row], bool]]):
        self.table, self.conditions = table, conditions
        super().__init__(old)

    def begin(self) -> None:
        self.new = self.put_right(self.old)

    def put_right(self, old: State) -> State:
        made: State = {name: {} for name in self.conditions}
        for key, row in old[self.table].items():
            made[self.place(row)][key] = row
        return made

    def place(self, row: Row) -> str:
        """The table a row belongs to."""
        found = [name for name, holds in self.conditions.items() if holds(row)]
        if len(found) != 1:
            raise Refused
        return found[0]

    def put_left(self, new: State) -> State:
        whole: Rows = {}
        for name, rows in new.items():
            for key, row in rows.items():
                if self.place(row) != name or key in whole:
                    raise Refused
                whole[key] = row
        return {self.table: whole}


class HalvesModel(Model):
    """Decompose on key: remembers the keys that a part does not have."""

    def __init__(
        self, old: State, table: str, parts: Mapping[str, Sequence[str]], needed: Sequence[str]
    ):
        self.table, self.parts, self.needed = table, parts, needed
        super().__init__(old)

    def begin(self) -> None:
        self.absent: dict[str, set[Key]] = {name: set() for name in self.parts}
        self.new = self.put_right(self.old)

    def put_right(self, old: State) -> State:
        made: State = {}
        for name, columns in self.parts.items():
            made[name] = {
                key: {column: row[column] for column in columns}
                for key, row in old[self.table].items()
                if key not in self.absent[name] or any(row[c] is not None for c in columns)
            }
        return made

    def put_left(self, new: State) -> State:
        whole: Rows = {}
        for key in {key for rows in new.values() for key in rows}:
            whole[key] = {}
            for name, columns in self.parts.items():
                if key not in new[name] and set(columns) & set(self.needed):
                    raise Refused
                half = new[name].get(key, dict.fromkeys(columns))
                whole[key] |= half
        return {self.table: whole}

    def remember(self) -> None:
        keys = self.old[self.table].keys()
        self.absent = {name: keys - self.new[name].keys() for name in self.parts}


class LookupModel(Model):
    """Normalise: remembers which lookup row each key refers to, and all lookup rows."""

    def __init__(
        self,
        old: State,
        names: tuple[str, str, str],
        reference: str,
        lookup: TableSchema,
        hashes: Callable[[pa.Array, int], Any],
        fanout: bool = False,
        set_null: bool = False,
    ):
        self.wide, self.narrow, self.lookup = names
        self.reference, self.schema, self.hashes = reference, lookup, hashes
        self.moved = [column.name for column in lookup.columns if column.name not in lookup.key]
        self.fanout, self.set_null = fanout, set_null
        super().__init__(old)

    def begin(self) -> None:
        self.known: Rows = {}
        self.ids: dict[Key, int | None] = {}
        self.rows: Rows = {}
        self.new = self.put_right(self.old)
        self.remember()

    def values(self, row: Row) -> Row:
        """What moved of a row."""
        return {name: row[name] for name in self.moved}

    def has_changed(self, key: Key, row: Row) -> bool:
        return key not in self.known or self.values(self.known[key]) != self.values(row)

    def write_old(self, writes: Writes) -> None:
        old = written(self.old, writes)
        if self.fanout:
            self.spread(old[self.wide])
        self.new, self.old = self.put_right(old), old
        self.remember()

    def spread(self, rows: Rows) -> None:
        """Rows that share a lookup row are given the same values."""
        updates = self.updates(rows)
        for key, row in rows.items():
            if (self.ids.get(key),) in updates:
                rows[key] = {**row, **updates[self.ids[key],]}

    def updates(self, rows: Rows) -> Rows:
        """What becomes of lookup rows that changed rows share."""
        updates: Rows = {}
        for key, row in rows.items():
            shared, values = self.ids.get(key), self.values(row)
            if shared is None or not self.has_changed(key, row):
                continue
            if updates.setdefault((shared,), values) != values:
                raise Refused
        return updates

    def put_right(self, old: State) -> State:
        ids: dict[Key, int | None] = {}
        fresh: dict[Key, Row] = {}
        lookup = dict(self.rows)
        for key, row in old[self.wide].items():
            values = self.values(row)
            if not self.has_changed(key, row):
                ids[key] = self.ids[key]
            elif self.fanout and self.ids.get(key) is not None:
                ids[key] = self.ids[key]
                lookup[ids[key],] = values
            elif all(value is None for value in values.values()):
                ids[key] = None
            else:
                fresh[key] = values
        ids |= self.placed(fresh, lookup)
        narrow = {key: self.new_narrow_rows(row, ids[key]) for key, row in old[self.wide].items()}
        return {self.narrow: narrow, self.lookup: lookup}

    def new_narrow_rows(self, row: Row, reference: int | None) -> Row:
        kept = {name: value for name, value in row.items() if name not in self.moved}
        return {**kept, self.reference: reference}

    def placed(self, fresh: Mapping[Key, Row], lookup: Rows) -> dict[Key, int]:
        """Rows find their lookup rows by hash; one that holds something else is passed over."""
        codes = {key: self.code(values) for key, values in fresh.items()}
        found: dict[bytes, int] = {}
        waiting = sorted(set(codes.values()))
        by_code = {codes[key]: values for key, values in fresh.items()}
        for attempt in range(64):
            left = []
            for code in waiting:
                place = int(self.hashes(pa.array([code], pa.binary()), attempt)[0])
                if lookup.setdefault((place,), by_code[code]) == by_code[code]:
                    found[code] = place
                else:
                    left.append(code)
            waiting = left
        if waiting:
            raise Refused
        return {key: found[code] for key, code in codes.items()}

    def code(self, values: Row) -> bytes:
        """The bytes of a row."""
        arrays = []
        for name in self.moved:
            value = math.nan if values[name] == "NaN" else values[name]
            arrays.append(pa.array([value], self.schema.column(name).type))
        code: bytes = encoded_rows(arrays)[0].as_py()
        return code

    def write_new(self, writes: Writes) -> None:
        new = written(self.new, writes)
        if self.set_null:
            gone = self.new[self.lookup].keys() - new[self.lookup].keys()
            for key, row in new[self.narrow].items():
                if (row[self.reference],) in gone:
                    new[self.narrow][key] = {**row, self.reference: None}
        self.old, self.new = self.put_left(new), new
        self.remember()

    def put_left(self, new: State) -> State:
        whole: Rows = {}
        for key, row in new[self.narrow].items():
            reference = row[self.reference]
            if reference is not None and (reference,) not in new[self.lookup]:
                raise Refused
            nothing = dict.fromkeys(self.moved)
            values = nothing if reference is None else new[self.lookup][reference,]
            kept = {name: value for name, value in row.items() if name != self.reference}
            whole[key] = kept | values
            if any(values[c.name] is None and not c.nullable for c in self.schema.columns[1:]):
                raise Refused
        return {self.wide: whole}

    def remember(self) -> None:
        self.known = self.old[self.wide]
        self.ids = {key: row[self.reference] for key, row in self.new[self.narrow].items()}
        self.rows = self.new[self.lookup]


class SharedLookupModel(LookupModel):
    """Normalise into a table that is there: remembers which of its rows the old side has."""

    def begin(self) -> None:
        self.shared: Rows = {}
        super().begin()

    def replaced(self, old: State) -> Rows:
        """Lookup rows that the old side has written, over other values of the new side."""
        return {
            key: row
            for key, row in old[self.lookup].items()
            if self.shared.get(key) != row and self.rows.get(key, row) != row
        }

    def write_old(self, writes: Writes) -> None:
        old = written(self.old, writes)
        if self.fanout:
            updates = self.updates(old[self.wide])
            for key, values in self.replaced(old).items():
                if updates.setdefault(key, values) != values:
                    raise Refused
            for key, row in old[self.wide].items():
                if (self.ids.get(key),) in updates:
                    old[self.wide][key] = {**row, **updates[self.ids[key],]}
            for key in updates.keys() & old[self.lookup].keys():
                old[self.lookup][key] = updates[key]
        self.new, self.old = self.put_right(old), old
        self.remember()

    def put_right(self, old: State) -> State:
        replaced = {} if self.fanout else self.replaced(old)
        for key in [key for key, place in self.ids.items() if (place,) in replaced]:
            del self.known[key]
        written_rows = {k: row for k, row in old[self.lookup].items() if self.shared.get(k) != row}
        self.rows = {**self.rows, **written_rows}
        made = super().put_right(old)
        used = {(row[self.reference],) for row in made[self.narrow].values()}
        for key in self.shared.keys() - old[self.lookup].keys() - used:
            made[self.lookup].pop(key, None)
        return made

    def put_left(self, new: State) -> State:
        kept = {
            key: row
            for key, row in new[self.lookup].items()
            if key in self.shared or key not in self.rows
        }
        return {**super().put_left(new), self.lookup: kept}

    def remember(self) -> None:
        super().remember()
        self.known = dict(self.known)
        self.shared = dict(self.old[self.lookup])


class KeyedLookupModel(SharedLookupModel):
    """Normalise by a column that holds the key: all rows with one key have the same values."""

    def __init__(
        self,
        old: State,
        names: tuple[str, str],
        by: str,
        moved: Sequence[str],
        lookup: TableSchema,
        fanout: bool,
        set_null: bool,
    ):
        self.wide = self.narrow = names[0]
        self.lookup, self.reference, self.schema = names[1], by, lookup
        self.moved, self.fanout, self.set_null = list(moved), fanout, set_null
        Model.__init__(self, old)

    def begin(self) -> None:
        """Rows that are there have the values of their lookup rows from the beginning."""
        if self.differing(self.wanted(self.old[self.wide]), self.old[self.lookup]):
            raise Refused
        super().begin()

    def wanted(self, rows: Rows) -> Rows:
        """What rows say of lookup rows."""
        found: Rows = {}
        for row in rows.values():
            values, place = self.values(row), row[self.reference]
            if place is None and any(value is not None for value in values.values()):
                raise Refused
            if place is not None and found.setdefault((place,), values) != values:
                raise Refused
        return found

    def differing(self, wanted: Rows, lookup: Rows) -> Rows:
        """Those of lookup rows that have other values."""
        return {k: row for k, row in wanted.items() if k in lookup
                and self.values(lookup[k]) != self.values(row)}  # fmt: skip

    def write_old(self, writes: Writes) -> None:
        old = written(self.old, writes)
        rows, lookup = old[self.wide], old[self.lookup]
        fresh = {key: row for key, row in lookup.items() if self.shared.get(key) != row}
        now = {**self.rows, **fresh}
        for key, row in rows.items():
            was = self.known.get(key)
            is_same = was is not None and self.values(was) == self.values(row)
            place = row[self.reference]
            if was is None or not is_same or was[self.reference] == place:
                continue
            if place is None:
                if not all(self.schema.column(name).nullable for name in self.moved):
                    raise Refused
                rows[key] = {**row, **dict.fromkeys(self.moved)}
            elif (place,) in now:
                rows[key] = {**row, **self.values(now[place,])}
        if self.fanout:
            self.fan_out(rows, lookup, fresh)
        self.new, self.old = self.put_right(old), old
        self.remember()

    def fan_out(self, rows: Rows, lookup: Rows, fresh: Rows) -> None:
        """What rows say goes for a lookup row that is there, or is inserted with them."""
        said = {key: row for key, row in rows.items() if self.has_changed(key, row)}
        updates = self.differing(self.wanted(said), {**fresh, **self.rows})
        for key, row in self.differing(fresh, self.rows).items():
            if updates.setdefault(key, self.values(row)) != self.values(row):
                raise Refused
        for key, row in rows.items():
            if (row[self.reference],) in updates:
                rows[key] = {**row, **updates[row[self.reference],]}
        for key in updates.keys() & lookup.keys():
            lookup[key] = {**lookup[key], **updates[key]}

    def put_right(self, old: State) -> State:
        fresh = {key: row for key, row in old[self.lookup].items() if self.shared.get(key) != row}
        lookup = {**self.rows, **fresh}
        wanted = self.wanted(old[self.wide])
        deleted = self.shared.keys() - old[self.lookup].keys()
        for key in self.differing(wanted, lookup).keys() & deleted:
            del lookup[key]  # a row with these values takes its place
        differing = self.differing(wanted, lookup)
        if differing and not self.fanout:
            raise Refused
        blank = {c.name: None for c in self.schema.columns if c.name not in self.schema.key}
        for key, values in wanted.items():
            if key not in lookup or key in differing:
                lookup[key] = {**lookup.get(key, blank), **values}
        for key in self.shared.keys() - old[self.lookup].keys() - wanted.keys():
            lookup.pop(key, None)
        narrow = {
            key: {name: value for name, value in row.items() if name not in self.moved}
            for key, row in old[self.wide].items()
        }
        return {self.narrow: narrow, self.lookup: lookup}

    def put_left(self, new: State) -> State:
        whole: Rows = {}
        for key, row in new[self.narrow].items():
            place = row[self.reference]
            if place is not None and (place,) not in new[self.lookup]:
                raise Refused
            found = dict.fromkeys(self.moved) if place is None else new[self.lookup][place,]
            whole[key] = {**row, **self.values(found)}
            if any(whole[key][name] is None and not self.schema.column(name).nullable
                   for name in self.moved):  # fmt: skip
                raise Refused
        kept = {
            key: row
            for key, row in new[self.lookup].items()
            if key in self.shared or key not in self.rows
        }
        return {self.wide: whole, self.lookup: kept}


class UnionModel(Model):
    """Union: remembers where each key comes from, or has it in the key."""

    def __init__(self, old: State, into: str, origin: str | None, default: str | None):
        self.into, self.origin, self.default = into, origin, default
        super().__init__(old)

    def begin(self) -> None:
        self.new = self.put_right(self.old)
        self.remember()

    def put_right(self, old: State) -> State:
        whole: Rows = {}
        for name, rows in old.items():
            for key, row in rows.items():
                made = key if self.origin is None else (*key, name)
                if made in whole:
                    raise Refused
                whole[made] = row
        return {self.into: whole}

    def put_left(self, new: State) -> State:
        made: State = {name: {} for name in self.old}
        for key, row in new[self.into].items():
            if self.origin is None:
                made[self.origins.get(key, self.default)][key] = row  # type: ignore[index]
            elif key[-1] in made:
                made[key[-1]][key[:-1]] = row
            else:
                raise Refused
        return made

    def remember(self) -> None:
        self.origins = {key: name for name, rows in self.old.items() for key in rows}


class RekeyModel(Model):
    """Change key: the same rows, by another key."""

    def __init__(self, old: State, table: str, keys: tuple[Sequence[str], Sequence[str]]):
        self.table, self.keys = table, keys
        super().__init__(old)

    def begin(self) -> None:
        self.new = self.put_right(self.old)

    def put_right(self, old: State) -> State:
        return {self.table: self.rekeyed(old[self.table], *self.keys)}

    def put_left(self, new: State) -> State:
        return {self.table: self.rekeyed(new[self.table], *self.keys[::-1])}

    @staticmethod
    def rekeyed(rows: Rows, mine: Sequence[str], theirs: Sequence[str]) -> Rows:
        made: Rows = {}
        for key, row in rows.items():
            whole = {**dict(zip(mine, key, strict=True)), **row}
            other = tuple(whole.pop(name) for name in theirs)
            if other in made or None in other:
                raise Refused
            made[other] = whole
        return made
