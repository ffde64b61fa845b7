"""Makes schema changes of one branch on the tables of another, by the names it has for them.

What was done there is not made again: the same change, one that does the same, or a rename of what
is gone.  A rename of a column follows it to the tables that it is in there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from livingdb.errors import InvalidData, LivingDBError
from livingdb.evolution.equal_changes import (
    contradicting_values,
    depends_on_order,
    is_in_place,
    same_places,
)
from livingdb.evolution.follow_names import follow_change
from livingdb.evolution.schema_change import SchemaChange, Schemas
from livingdb.evolution.schema_elements import (
    MadeChange,
    ids_of,
    is_made,
    made_ids,
    planned_tables,
    table_key,
    unified_ids,
    with_aliases,
)
from livingdb.tables.identity import recorded_change_id
from livingdb.tables.letter_case import check_new

__all__ = ["Replay", "replay"]


@dataclass
class Replay:
    """Changes of one side, made on another."""

    tables: Schemas
    changes: list[SchemaChange] = field(default_factory=list)
    failed: list[tuple[MadeChange, LivingDBError]] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)
    """The identities of columns and tables that came about twice: of one, that of the other."""


def replay(
    made: Iterable[MadeChange],
    onto: Schemas,
    known: Collection[str],
    others: Sequence[MadeChange] | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Replay:
    """Make changes on other tables, but those that were made there.

    `others` are the changes that were made there since, if it is to be told whether they do the
    same to rows; `aliases` are the identities there of what is known to have come about twice.
    """
    done = Replay(onto, aliases=dict(aliases or {}))
    made = list(made)
    own = {one.identity for one in made}
    rivals = [other for other in others or () if other.identity not in own]
    for one in made:
        if one.identity not in known:
            _replay_one(with_aliases(one, done.aliases), rivals, done)
        elif made_ids(one) - ids_of(done.tables) - done.aliases.keys():  # it has them as others
            done.aliases.update(unified_ids(one, done.tables, done.aliases) or {})
    return done


def _replay_one(one: MadeChange, rivals: Sequence[MadeChange], done: Replay) -> None:
    """Make a change on other tables, unless that is done; it may come to several there."""
    why = depends_on_order(one, rivals)
    if why is not None:
        done.failed.append((one, InvalidData(why)))
        return
    # A mask of a key leaves the schema as it is: that it is made, others have to say.
    if is_in_place(one) and same_places(one, rivals) and is_made(one, done.tables):
        why = contradicting_values(one, rivals, ())
        if why is not None:
            done.failed.append((one, InvalidData(why)))
        return
    changes = _moved_renames(one, one.before, done.tables)
    try:
        for change in changes or [follow_change(one.change, one.before, done.tables)]:
            tables = planned_tables(change, done.tables)
            _check_names(tables, done.tables)
            done.changes.append(change)
            done.tables = tables
    except LivingDBError as error:
        twins = {} if is_made(one, done.tables) else unified_ids(one, done.tables, done.aliases)
        why = None if twins is None else contradicting_values(one, rivals, twins.values())
        if twins is None or why is not None:
            done.failed.append((one, error if why is None else InvalidData(why)))
        else:
            done.aliases.update(twins)


def _moved_renames(one: MadeChange, before: Schemas, tables: Schemas) -> list[SchemaChange]:
    """The renames of a column whose table is taken apart or joined there, where it is now.

    The first of them is the change itself; none, if the column is where it was, or gone.
    """
    from livingdb.evolution.changes.rename_column import RenameColumn

    change = one.change
    if not isinstance(change, RenameColumn):
        return []
    home = before[change.table]
    if home.schema.next_id is not None:  # its number tells columns of one table only
        return []
    column = home.schema.column(change.name).id
    places = [
        (table_key(name, known), name, other.name)
        for name, known in sorted(tables.items())
        for other in known.schema.columns
        if other.id == column
    ]
    if any(key == table_key(change.table, home) for key, _, _ in places):
        return []
    found: list[SchemaChange] = []
    for key, name, now in places:
        identity = recorded_change_id(f"{change.identity} in {key}") if found else change.id
        if now != change.to:
            found.append(RenameColumn(name, now, change.to).with_id(identity))
    return found


def _check_names(tables: Schemas, before: Schemas) -> None:
    """`InvalidName` for a name that differs from another in case only."""
    check_new(*({name: known.schema for name, known in some.items()} for some in (tables, before)))
