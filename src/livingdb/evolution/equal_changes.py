"""Whether changes of two branches that do the same to a schema do the same to rows as well.

A column that both sides added, split off or cast is one column only if both give its rows the same
values; and a change that computes values from a column gives others where that is masked first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass

from livingdb.evolution.follow_names import follow_change
from livingdb.evolution.schema_elements import MadeChange, effects_of, made_ids, unified_ids
from livingdb.sql.expressions import Expression

__all__ = [
    "Unified",
    "contradicting_values",
    "depends_on_order",
    "is_in_place",
    "remade_columns",
    "same_places",
    "unified_changes",
]

_VALUES = {"AddColumn": ("up",), "RetypeColumn": ("up", "policy")}
"""The fields that say which values rows get, of changes whose other fields a schema shows."""
_NO_VALUES = {"CreateTable", "Decompose", "JoinTables"}
"""Changes that make columns and give them the values that they have."""
_IN_PLACE = {"RetypeColumn", "MaskColumn"}
"""Changes that give columns other values, and leave them what they are."""
_READING = {"AddColumn": ("up",), "RetypeColumn": ("up",), "SplitTable": ("into",)}
"""The fields with expressions that values, or the tables of rows, are computed by."""


def is_in_place(one: MadeChange) -> bool:
    """Whether a change gives a column other values, and leaves it what it is."""
    return type(one.change).__name__ in _IN_PLACE


def remade_columns(made: Sequence[MadeChange], some: Collection[str]) -> frozenset[str]:
    """The ids of columns that some of the changes, by their ids, give other values in place."""
    in_place = [one for one in made if one.identity in some and is_in_place(one)]
    return frozenset(column for one in in_place for column in _changed_columns(one))


def same_places(one: MadeChange, others: Sequence[MadeChange]) -> list[MadeChange]:
    """The changes that give the column of one other values, too, in its place."""
    return [o for o in others if is_in_place(o) and _changed_columns(o) & _changed_columns(one)]


def contradicting_values(
    one: MadeChange, others: Sequence[MadeChange], twins: Collection[str]
) -> str | None:
    """Why a change is not the same as those of another side that made its twins; None if it is.

    `twins` are the ids there of what it makes; none, if it changes what there is.
    """
    if twins:
        makers = [other for other in others if made_ids(other) & set(twins)]
        if all(_gives_same(one, other) for other in makers):
            return None
    elif not is_in_place(one) or any(_gives_same(one, other) for other in others):
        return None
    return "the two sides give its rows different values"


@dataclass(frozen=True)
class Unified:
    """Changes of a side that an earlier merge found to be the same as ones of the base.

    `changes` are their ids, `ids` those of what they made by those that the base has for it.
    """

    changes: frozenset[str] = frozenset()
    ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def back(self) -> dict[str, str]:
        """The ids that the base has, by those of the side."""
        return {mine: base for base, mine in self.ids.items()}


def unified_changes(base: Sequence[MadeChange], side: Sequence[MadeChange]) -> Unified:
    """What a side made itself of what it has from the base as well, which it comes from.

    A merge took the two for one, under the identities of the side: the base's change is none of
    the side's history, and an equal one is that is none of the base's.
    """
    known, own = ({one.identity for one in made} for made in (base, side))
    rest = [one for one in side if one.identity not in known]
    changes: set[str] = set()
    ids: dict[str, str] = {}
    for one in base:
        if one.identity in own or not made_ids(one):
            continue
        for other in rest:
            twins = unified_ids(one, other.after, ids)
            is_same = twins is not None and set(twins.values()) == made_ids(other)
            if (
                twins is not None
                and is_same
                and contradicting_values(one, [other], made_ids(other)) is None
            ):
                changes.add(other.identity)
                ids.update(twins)
                break
    return Unified(frozenset(changes), ids)


def depends_on_order(one: MadeChange, others: Sequence[MadeChange]) -> str | None:
    """Why a change gives other rows after than before those of another side; None if it does not.

    It computes from a column that they mask, or masks one that they compute from.
    """
    reads, masks = _read_columns(one), _masked_columns(one)
    for other in others:
        if reads & _masked_columns(other) or masks & _read_columns(other):
            return "one side computes from a column that the other masks"
    return None


def _gives_same(one: MadeChange, other: MadeChange) -> bool:
    """Whether two changes give rows the same values, if they do the same to the schema."""
    kind = type(one.change).__name__
    if kind != type(other.change).__name__:
        return False
    if kind in _NO_VALUES:
        return True
    followed = follow_change(one.change, one.before, other.before)
    assert is_dataclass(followed)
    if kind == "RetypeColumn" and effects_of(one).keys() != effects_of(other).keys():
        return False
    names = _VALUES.get(kind) or [item.name for item in fields(followed)]
    return all(getattr(followed, name) == getattr(other.change, name) for name in names)


def _read_columns(one: MadeChange) -> set[str]:
    """The ids of the columns that a change computes from."""
    from livingdb.sql.table_lookups import given_columns, lookup_expression

    change = one.change
    texts: list[str] = []
    for name in _READING.get(type(change).__name__, ()):
        given = getattr(change, name)
        texts += [given] if isinstance(given, str) else list((given or {}).values())
    definition = one.before.get(str(getattr(change, "table", "")))
    if definition is None or not texts:
        return set()
    schemas = {name: known.schema for name, known in one.before.items()}
    table = str(getattr(change, "table", ""))
    found = [lookup_expression(text, table, definition.schema, schemas) for text in texts]
    names = {name for each in found for name in Expression(each.text).columns}
    names |= {name for each in found for name in given_columns(each.lookups)}
    return {column.id for column in definition.schema.columns if column.name in names}


def _masked_columns(one: MadeChange) -> set[str]:
    return _changed_columns(one) if type(one.change).__name__ == "MaskColumn" else set()


def _changed_columns(one: MadeChange) -> set[str]:
    """The id of the column that is given other values in its place."""
    table, name = getattr(one.change, "table"), getattr(one.change, "name")  # noqa: B009
    return {column.id for column in one.before[table].schema.columns if column.name == name}
