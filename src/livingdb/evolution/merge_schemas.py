"""Merges schemas: what each of two branches did to the schema since they parted, on the other.

Each side is to have the changes that only the other has, by the names it knows their tables and
columns by.  If both orders give one schema, that is the merged one.  Where a change cannot be made
on the other side, or the orders give two schemas, the sides contradict each other; unless both did
the same, or one renamed what the other dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from livingdb.errors import LivingDBError
from livingdb.evolution.equal_changes import Unified, is_in_place, same_places, unified_changes
from livingdb.evolution.replay_schema import replay
from livingdb.evolution.schema_change import SchemaChange, Schemas
from livingdb.evolution.schema_elements import (
    Element,
    MadeChange,
    effects_of,
    elements_of,
    table_key,
    touched_tables,
)

__all__ = [
    "NEITHER",
    "Histories",
    "SchemaConflict",
    "SchemaMerge",
    "losing_changes",
    "merge_kept",
    "merge_schemas",
    "own_changes",
    "patch_schema",
    "replay_changes",
]

NEITHER = "neither"
"""The policy by which of two changes that contradict each other none counts."""

_NO_COLUMNS = ("key", "check", "unique")
"""What elements of a table have in the place of a column's id."""

ThreeSchemas = tuple[Schemas, Schemas, Schemas]
"""Those of base, ours and theirs."""
Histories = tuple[Sequence[MadeChange], Sequence[MadeChange], Sequence[MadeChange]]
"""What each of them did since a time."""


@dataclass(frozen=True)
class SchemaConflict:
    """A table, or a column of it, about which the two sides contradict each other."""

    table: str
    column: str | None
    reason: str
    ours: tuple[MadeChange, ...] = ()
    theirs: tuple[MadeChange, ...] = ()
    is_loss: bool = False
    """Whether it is rows that one side changed that the other leaves no place for."""

    @property
    def element(self) -> str:
        """What it is about, as policies name it."""
        return self.table if self.column is None else f"{self.table}.{self.column}"

    def winner(self, on_conflict: Any) -> str | None:
        """Whose change counts by a policy: "ours", "theirs", `NEITHER`, or nobody's yet."""
        given = on_conflict
        if isinstance(given, Mapping):
            names = (self.element, self.table, "*")
            given = next((given[name] for name in names if name in given), "fail")
        return given if given in ("ours", "theirs", NEITHER) else None


def losing_changes(
    conflicts: Iterable[SchemaConflict], on_conflict: Any
) -> tuple[set[str], set[str]]:
    """The ids of the changes of ours and of theirs that do not count, by a policy."""
    ours: set[str] = set()
    theirs: set[str] = set()
    for one in conflicts:
        winner = one.winner(on_conflict)
        if winner != "theirs":
            theirs |= {change.identity for change in one.theirs}
        if winner != "ours":
            ours |= {change.identity for change in one.ours}
    return ours, theirs


@dataclass(frozen=True)
class SchemaMerge:
    """The changes that bring each side to the merged schema, and what stands in the way.

    The base comes to it by way of either side.
    """

    onto_ours: Sequence[SchemaChange] = ()
    onto_theirs: Sequence[SchemaChange] = ()
    base_to_ours: Sequence[SchemaChange] = ()
    base_to_theirs: Sequence[SchemaChange] = ()
    tables: Schemas = field(default_factory=dict)
    conflicts: Sequence[SchemaConflict] = ()
    taken_back: frozenset[str] = frozenset()
    """The ids of changes of ours that do not count."""
    left_out: frozenset[str] = frozenset()
    """The ids of changes of theirs that do not count."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """The ids in the merged schema of what the sides have under others."""
    is_base_other: bool = False
    """Whether the base has made some of those, so that no changes lead from it to the schema."""


def merge_schemas(schemas: ThreeSchemas, made: Histories) -> SchemaMerge:
    """Merge the schemas of two sides; `made` are the changes of base, ours and theirs since a time.

    The base may have made some of them itself.
    """
    base, ours, theirs = schemas
    _, in_ours, in_theirs = made
    has_base, has_ours, has_theirs = map(_identities, made)
    in_ours = _without_reverted(in_ours, has_base | has_theirs)
    in_theirs = _without_reverted(in_theirs, has_base | has_ours)
    has_ours, has_theirs = _identities(in_ours), _identities(in_theirs)
    same = _Sameness.of(made[0], in_ours, in_theirs)
    known = has_base | same.changes
    onto_ours = replay(in_theirs, ours, has_ours | known, in_ours, same.theirs_to_ours)
    onto_theirs = replay(in_ours, theirs, has_theirs | known, in_theirs, same.ours_to_theirs)
    whole = replay(in_ours, base, known, aliases=same.ours.back)
    conflicts = [
        *_failures(onto_ours.failed, in_ours, has_theirs, base, is_theirs=True),
        *_failures(onto_theirs.failed, in_theirs, has_ours, base, is_theirs=False),
    ]
    if not conflicts:
        aliases = onto_theirs.aliases
        conflicts = _contradictions(
            onto_ours.tables, onto_theirs.tables, aliases, (made[0], in_ours, in_theirs), base
        )
    return SchemaMerge(
        onto_ours.changes,
        onto_theirs.changes,
        whole.changes,
        replay(in_theirs, base, known, aliases=same.theirs.back).changes,
        onto_ours.tables,
        _merged_conflicts(conflicts),
        aliases={**same.ours.ids, **onto_ours.aliases},
    )


@dataclass(frozen=True)
class _Sameness:
    """What earlier merges found to be the same: of the base and ours, and of it and theirs."""

    ours: Unified
    theirs: Unified

    @classmethod
    def of(
        cls, base: Sequence[MadeChange], ours: Sequence[MadeChange], theirs: Sequence[MadeChange]
    ) -> _Sameness:
        return cls(unified_changes(base, ours), unified_changes(base, theirs))

    @property
    def changes(self) -> frozenset[str]:
        """The ids of changes that all have, under one id or another."""
        return self.ours.changes | self.theirs.changes

    @property
    def ours_to_theirs(self) -> dict[str, str]:
        """The ids that theirs has for what ours has under others."""
        there = self.theirs.ids
        own = {mine: there.get(base, base) for mine, base in self.ours.back.items()}
        return {**there, **own}

    @property
    def theirs_to_ours(self) -> dict[str, str]:
        """The ids that ours has for what theirs has under others."""
        return _Sameness(self.theirs, self.ours).ours_to_theirs


def _identities(made: Iterable[MadeChange]) -> set[str]:
    return {one.identity for one in made}


def _without_reverted(made: Sequence[MadeChange], elsewhere: set[str]) -> list[MadeChange]:
    """Changes without those that were taken back, where nobody else has made them."""
    reverted = {
        known: one.identity
        for one in made
        if (known := one.change.reverts) is not None and known not in elsewhere
    }
    own = _identities(made)
    gone = {i for pair in reverted.items() if pair[0] in own for i in pair}
    return [one for one in made if one.identity not in gone]


def own_changes(made: Sequence[MadeChange], others: Sequence[MadeChange]) -> list[MadeChange]:
    """What one side did and the other did not, by ids; what it took back again is nothing."""
    known = _identities(others)
    return [one for one in _without_reverted(made, known) if one.identity not in known]


def replay_changes(
    made: Sequence[MadeChange], ours: Schemas, known: Collection[str]
) -> SchemaMerge:
    """Changes made again on other tables, but those that are known there."""
    done = replay(made, ours, known)
    conflicts = _failures(done.failed, (), (), ours, is_theirs=True)
    return SchemaMerge(done.changes, tables=done.tables, conflicts=_merged_conflicts(conflicts))


def patch_schema(schemas: ThreeSchemas, made: Histories) -> SchemaMerge:
    """What theirs did since the base, on ours, whether or not theirs could have what ours did.

    It contradicts ours where it cannot be made there, or both say something else of an element.
    """
    merged = merge_schemas(schemas, made)
    has_base, has_ours, has_theirs = map(_identities, made)
    ours = own_changes(made[1], made[2])
    same = _Sameness.of(*made)
    known = has_base | same.changes
    theirs = own_changes(made[2], made[1])
    onto_ours = replay(theirs, schemas[1], has_ours | known, ours, same.theirs_to_ours)
    if onto_ours.failed:
        failed = _failures(onto_ours.failed, ours, has_theirs, schemas[0], is_theirs=True)
        return replace(merged, conflicts=_merged_conflicts(failed))
    if replay(ours, schemas[2], has_theirs | known, aliases=same.ours_to_theirs).failed:
        return replace(merged, conflicts=())
    return merged


def merge_kept(
    schemas: ThreeSchemas, made: Histories, left_out: tuple[set[str], set[str]]
) -> SchemaMerge:
    """The schema with the changes of both sides but some, and but those that need them.

    The base comes to it by `base_to_ours`; of the sides, only one that has nothing left out.  For
    ours without what is left out of it, `onto_ours` is what theirs did, by its names.
    """
    base, ours, theirs = schemas
    in_base, in_ours, in_theirs = made
    same = _Sameness.of(*made)
    no_ours, no_theirs = map(set, left_out)
    while True:
        gone = no_ours | no_theirs
        in_start = [one for one in in_base if one.identity not in gone]
        start = base
        if len(in_start) < len(in_base):
            start = replay(in_start, in_base[0].before, ()).tables
        has_base = _identities(in_start) | same.changes
        mine = [one for one in in_ours if one.identity not in no_ours]
        yours = [one for one in in_theirs if one.identity not in no_theirs]
        first = replay(mine, start, has_base, aliases=same.ours.back)
        known = has_base | _identities(mine)
        second = replay(yours, first.tables, known, mine, same.theirs.back)
        no_ours |= {one.identity for one, _ in first.failed}
        no_theirs |= {one.identity for one, _ in second.failed}
        if not first.failed and not second.failed:
            break
    has_ours = _identities(in_ours) | same.changes
    onto_ours = replay(yours, ours, has_ours, None, same.theirs_to_ours).changes
    if no_ours:
        again = [one.change for one in yours if one.identity in has_base - has_ours]
        onto_ours = [*again, *(one for one in second.changes if one.identity not in has_ours)]
    return SchemaMerge(
        onto_ours,
        replay(
            mine, theirs, _identities(in_theirs) | same.changes, None, same.ours_to_theirs
        ).changes,
        [*first.changes, *second.changes],
        (),
        second.tables,
        taken_back=frozenset(no_ours),
        left_out=frozenset(no_theirs),
        aliases={**first.aliases, **second.aliases},
        is_base_other=len(in_start) < len(in_base),
    )


# --- contradictions -------------------------------------------------------------------------------


def _failures(
    failed: Sequence[tuple[MadeChange, LivingDBError]],
    others: Sequence[MadeChange],
    known: Collection[str],
    base: Schemas,
    is_theirs: bool,
) -> list[SchemaConflict]:
    """Changes of one side that cannot be made on the other, with those there that prevent it."""
    found = []
    for one, error in failed:
        against = _against(one, [other for other in others if other.identity not in known])
        table, column = _place(one, against, base)
        sides = ((one,), against) if is_theirs else (against, (one,))
        words = (
            one.change.title,
            "; ".join(other.change.title for other in against) or "the other side",
        )
        reason = f"{words[0]} does not go with {words[1]}: {error}"
        found.append(SchemaConflict(table, column, reason, sides[1], sides[0]))
    return found


def _against(one: MadeChange, others: Sequence[MadeChange]) -> tuple[MadeChange, ...]:
    """The changes of the other side that have to do with what a change changes."""
    effects = effects_of(one)
    tables = touched_tables(one)
    names = {value for element, value in effects.items() if element[2:] == ("name",)}
    names |= {value for element, value in effects.items() if len(element) == 1}
    close: list[MadeChange] = []
    near: list[MadeChange] = []
    for other in others:
        theirs = effects_of(other)
        said = {v for e, v in theirs.items() if e[2:] == ("name",) or len(e) == 1} - {None}
        is_masked_twice = not effects and is_in_place(one) and same_places(one, [other])
        if effects.keys() & theirs.keys() or names & said or is_masked_twice:
            close.append(other)
        elif tables & touched_tables(other):
            near.append(other)
    return tuple(close or near)


def _place(one: MadeChange, against: Sequence[MadeChange], base: Schemas) -> tuple[str, str | None]:
    """The table, and column if it is one, that two changes contradict each other about."""
    effects = effects_of(one)
    shared = [set(effects_of(other)) & effects.keys() for other in against]
    both = sorted(set().union(*shared), key=str) if shared else []
    if not both:
        theirs = set().union(*(touched_tables(other) for other in against))
        both = [(table,) for table in sorted(theirs & touched_tables(one))]
    return _named(both or sorted(effects, key=str), one.after, one.before, base)


def _named(elements: Sequence[Element], *schemas: Schemas) -> tuple[str, str | None]:
    """The table and column that elements are of, by the names of the last schema that has them."""
    names: dict[str, str] = {}
    columns: dict[Element, str] = {}
    for tables in schemas:
        for name, definition in tables.items():
            key = table_key(name, definition)
            names[key] = name
            columns.update(((key, c.id), c.name) for c in definition.schema.columns)
    table = min((names.get(element[0], element[0]) for element in elements), default="")
    if any(len(element) == 1 for element in elements):
        return table, None
    named = {columns[e[:2]] for e in elements if e[:2] in columns and names.get(e[0]) == table}
    return table, next(iter(named)) if len(named) == 1 else None


def _contradictions(
    one: Schemas,
    other: Schemas,
    aliases: Mapping[str, str],
    made: Histories,
    base: Schemas,
) -> list[SchemaConflict]:
    """What the two orders of changes do not agree about."""
    back = {theirs: ours for ours, theirs in aliases.items()}
    mine, yours = elements_of(one), elements_of(other, back)
    differing = {e for e in {**mine, **yours} if mine.get(e) != yours.get(e)}
    found = []
    for place in sorted({element[:2] for element in differing}, key=str):
        some = [element for element in differing if element[:2] == place]
        known, *sides = [_causes(side, some) for side in made]
        table, column = _named(some, other, one, base)
        values = [sorted({str(side.get(e)) for e in some}) for side in (mine, yours)]
        reason = "the two sides make different schemas of it"
        if all(sides):
            reason = f"ours says {', '.join(values[1])} and theirs {', '.join(values[0])}"
        elif known:
            reason = f"{known[-1].change.title} was left out by an earlier merge"
        found.append(SchemaConflict(table, column, reason, sides[0], sides[1]))
    return found


def _causes(made: Sequence[MadeChange], elements: Sequence[Element]) -> tuple[MadeChange, ...]:
    """The changes that say something of elements, or else of their columns in other tables."""
    found = tuple(one for one in made if any(e in effects_of(one) for e in elements))
    columns = {element[1] for element in elements if len(element) > 1} - set(_NO_COLUMNS)
    if found or not columns:
        return found
    return tuple(one for one in made if any(set(e[1:2]) & columns for e in effects_of(one)))


def _merged_conflicts(conflicts: Sequence[SchemaConflict]) -> list[SchemaConflict]:
    """One conflict for each element."""
    found: dict[str, SchemaConflict] = {}
    for one in conflicts:
        known = found.get(one.element)
        if known is None:
            found[one.element] = one
            continue
        ours = (*known.ours, *(c for c in one.ours if c not in known.ours))
        theirs = (*known.theirs, *(c for c in one.theirs if c not in known.theirs))
        found[one.element] = replace(known, ours=ours, theirs=theirs)
    return list(found.values())
