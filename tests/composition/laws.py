"""What holds after each step, whatever was done.

carried   a write reaches the rows it touches on the other sides, and what those alone hold stays
true      an active sync that is not behind satisfies its recipe at the heads
same      an immediate sync and its deferred twin show the same where both are up to date
total     everything that can be asked is answered, whatever became of the sources
history   a snapshot shows what it showed when it was a head
named     SQL knows a view by its name at every ref of its source, in the version that was then
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.composition.lookup_model import NormalizeBy
from tests.composition.model import Model, State, Sync, canonical, constraint_broken, shown
from tests.composition.queries import BoundQuery
from tests.composition.schema_model import (
    MASK_VARIABLE,
    BoundChanges,
    Change,
    CreateTable,
    Unknown,
    columns_agree,
    shared_agree,
)
from tests.composition.view_operations import answer_of

from livingdb import Forgotten, NotFound

if TYPE_CHECKING:
    from tests.composition.machine import World

    import livingdb

__all__ = [
    "answer",
    "check_carried",
    "check_fresh",
    "check_history",
    "check_named",
    "check_propagated",
    "check_same",
    "check_syncs",
    "check_total",
    "check_true",
    "check_whole",
    "definition_at",
    "follows",
]


_BRINGING = {"Merge", "RequestMerge", "CherryPick", "ApplyDiff"}
"""The operations that may bring a branch the schema changes of another."""


def answer(world: World, sync: Sync) -> State:
    """What the target of a one-way sync is to show."""
    return answer_of(world.model, sync)


def check_syncs(world: World, stopped: set[str]) -> None:
    """The syncs are those of the model; what stopped had to, and an alert says so."""
    model = world.model
    observed = {sync.name: sync for sync in world.db.syncs()}
    _follow_moved_views(world, observed)
    if set(observed) != set(_names(world)):
        world.fail("syncs", f"{sorted(observed)} instead of {sorted(_names(world))}")
    model.syncs = _names(world)
    for name, sync in model.syncs.items():
        state = observed[name].state
        if state == sync.state:
            continue
        was, sync.state = sync.state, state
        if sync.target in stopped:
            continue
        if was != "active":
            world.fail("state", f"{name} was {was} and is {state}", sync)
        if not _has_to_stop(world, sync, state):
            reason = observed[name].reason
            world.fail("stopped", f"{name} is {state} for no reason of its own: {reason}", sync)
        elif not world.db.alerts(sync=name):
            world.fail("alert", f"{name} is {state}, and no alert says so", sync)


def _follow_moved_views(world: World, observed: Mapping[str, livingdb.Sync]) -> None:
    """A view that a schema change broke may read the branch that keeps the old schema."""
    model = world.model
    for sync in model.syncs.values():
        kept = {model.kept.get(source, source) for source in sync.sources}
        name = f"{'+'.join(sorted(kept))}/{sync.target}"
        if sync.kind != "view" or name == sync.name or name not in observed:
            continue
        try:
            answer(world, sync)
        except (KeyError, ValueError):
            sync.sources = tuple(sorted(kept))
            sync.definition = replace(sync.definition, branch=sync.sources[0])
            continue
        world.fail("moved", f"{sync.name} moved, and could have followed", sync)
    model.kept.clear()


def _names(world: World) -> dict[str, Sync]:
    return {sync.name: sync for sync in world.model.syncs.values()}


def _has_to_stop(world: World, sync: Sync, state: str) -> bool:
    """Whether a sync cannot go on with what its sources are, or may not."""
    if sync.direction == "both":
        return False
    if _is_made_elsewhere(world, sync):
        return state == "detached"
    try:
        made = answer(world, sync)
    except (KeyError, ValueError):
        return state == "detached"
    if isinstance(sync.definition, BoundChanges) and _says_anew(world.model, sync):
        return state == "detached"
    if _breaks(made, world.model.branches[sync.target]):
        return state == "detached"
    if state == "held":
        return sync.most_rows is not None and len(made[sync.target].rows) > sync.most_rows
    return False


def _breaks(made: State, held: State) -> bool:
    """Whether what comes breaks a constraint that what is there keeps."""
    for name, table in made.items():
        if not constraint_broken(table, made):
            continue
        old = held.get(name)
        if old is None or not constraint_broken(old, held):
            return True
        come = canonical(row for row in table.rows if row not in old.rows)
        if constraint_broken(replace(table, rows=come), made):
            return True
    return False


def _says_anew(model: Model, sync: Sync) -> bool:
    """Whether rows say of a row of a shared table what is not what it was given once.

    It stays as it is, also where nothing refers to it any more: by its key it is that row.
    """
    source = sync.read[0]
    past = (
        [] if sync.when == "immediate" else [model.history.get(at, {}) for at in model.line(source)]
    )
    for change, state in sync.definition.stages(model.branches[source]):
        if isinstance(change, NormalizeBy):
            ((moved, by, there),) = change.joined(state)
            now = dict(_said(state, moved, by))
            given = _said(model.branches[sync.target], there)
            given |= {pair for one in past for pair in _said(one, moved, by)}
            if any(now.get(key, value) != value for key, value in given):
                return True
    return False


def _said(state: State, moved: str, by: str | None = None) -> set[tuple[Any, Any]]:
    """The keys of rows of a lookup table and a value: by its own rows, or those that refer to it"""
    return {
        (key[0] if by is None else row[table.column(by).name], row[table.column(moved).name])
        for table in state.values()
        if {moved, by or moved} <= {column.id for column in table.columns}
        for key, row in table.by_key().items()
    }


def _observed(world: World) -> dict[str, livingdb.Sync]:
    return {sync.name: sync for sync in world.db.syncs()}


def check_true(world: World) -> None:
    """Every active sync that is not behind satisfies its recipe."""
    for name, observed in _observed(world).items():
        sync = world.model.syncs[name]
        try:
            lag = observed.lag
            if name not in world.explained or world.explained[name] != observed.state:
                observed.explain()
            world.explained[name] = observed.state
        except Exception as error:
            world.fail("total", f"lag of {name}: {type(error).__name__}: {error}", sync)
            continue
        if lag is None and set(sync.read) & set(world.model.branches):
            world.fail("lag", f"{name} has a source and nothing to count", sync)
        if sync.state != "active" or sync.spoiled:
            continue
        if lag and not world.model.has_key and MASK_VARIABLE in lag.reason:
            world.model.waits.add(sync.target)
        elif not lag:
            world.model.waits.discard(sync.target)
        if lag and sync.when == "immediate" and sync.target not in world.model.waits:
            world.fail("lag", f"{name} is immediate and {lag} behind", sync)
        elif not lag:
            _check_recipe(world, sync)


def _check_recipe(world: World, sync: Sync) -> None:
    model = world.model
    if sync.direction in ("both", "reverse"):
        old, new = model.branches[sync.sources[0]], model.branches[sync.target]
        try:
            if sync.drifted:
                is_true = columns_agree(old, new, _own_columns(sync, old))
            else:
                is_true = sync.definition.agrees(old, new)
        except (KeyError, ValueError) as error:
            world.fail("true", f"{sync.name} goes on without {error}", sync)
            return
        if not is_true:
            world.fail("true", f"{sync.name}: {shown(old)} and {shown(new)}", sync)
        return
    found = model.branches[sync.target]
    if sync.met & _BRINGING and shown(found) == shown(model.branches[sync.read[0]]):
        return  # its source has all of its changes, by their ids: there is nothing left to make
    try:
        made = answer(world, sync)
    except (KeyError, ValueError) as error:
        is_merged = sync.kind in ("lens", "clone") and sync.met & _BRINGING
        if isinstance(error, Unknown) or is_merged:
            sync.spoiled = True  # its source has made the change, too, which the model forgets
            return
        world.fail("true", f"{sync.name} goes on though it cannot be made: {error}", sync)
        return
    if not (
        _agrees(world, sync, found, made) if _is_remembered(sync) else shown(found) == shown(made)
    ):
        world.fail("true", f"{sync.name}: {shown(found)} instead of {shown(made)}", sync)


def _own_columns(sync: Sync, old: State) -> set[str]:
    """The columns that are each side's own, though both have them by one id.

    Those that changes of a sync drop, where one is back on the new side; and those of a table that
    a change makes, where the old side got it by a merge while there was no sync.
    """
    changes = sync.definition.changes
    made = [number for number, one in enumerate(changes) if isinstance(one, CreateTable)]
    tables = {f"{sync.definition.made_by(number)}.t" for number in made}
    own = {c.id for table in old.values() if table.id in tables for c in table.columns}
    with suppress(KeyError, ValueError):
        sides = (old, sync.definition.get(old))
        before, after = ({c.id for t in side.values() for c in t.columns} for side in sides)
        own |= before - after
    return own


def _is_made_elsewhere(world: World, sync: Sync) -> bool:
    """Whether the source of a twin has got a change of the other by a merge.

    The model has one id for both; the database has two, and asks what comes of the second.
    """
    is_twin = any(other.twin == sync.target for other in world.model.syncs.values())
    if not is_twin or not isinstance(sync.definition, BoundChanges) or not sync.met & _BRINGING:
        return False
    with suppress(KeyError, ValueError):
        return sync.definition.is_made(world.model.branches[sync.read[0]])
    return True


def _by_hash(sync: Sync) -> bool:
    """Whether lookup rows have ids that the model does not know."""
    return isinstance(sync.definition, BoundChanges) and "Normalize" in sync.definition.kinds


def _is_remembered(sync: Sync) -> bool:
    """Whether the target holds more than its source says: ids, or what a column was first given."""
    if not isinstance(sync.definition, BoundChanges):
        return False
    return _by_hash(sync) or any(c.remembers for c in sync.definition.changes)


def _agrees(world: World, sync: Sync, found: State, made: State) -> bool:
    source = world.model.branches[sync.sources[0]]
    if len(sync.definition.changes) == 1:
        return bool(sync.definition.agrees(source, found))
    return shared_agree(made, found, source, sync.definition.filled(source, found))


def check_carried(world: World, branch: str, before: Mapping[str, State]) -> None:
    """A write reaches the rows it touches and no others, and keeps what its side has not."""
    model = world.model
    seen, left = {branch}, [branch]
    while left:
        here = left.pop(0)
        for sync in model.two_way(here):
            there = next(name for name in (*sync.sources, sync.target) if name != here)
            if there in seen:
                continue
            seen.add(there)
            left.append(there)
            if sync.drifted:
                continue
            changes = sync.definition.rebound(before[sync.sources[0]])
            if len(changes) == 1 and changes[0].KEEPS_ROWS and not sync.spoiled:
                _check_rows(world, sync, changes[0], (here, there), before)


def _check_rows(
    world: World, sync: Sync, change: Change, way: tuple[str, str], before: Mapping[str, State]
) -> None:
    """What went from one branch to another through a change of single rows."""
    here, there = way
    name = change.table  # type: ignore[attr-defined]
    mine = before[here][name].by_key(), world.model.branches[here][name].by_key()
    yours = before[there][name].by_key(), world.model.branches[there][name].by_key()
    for key, row in mine[1].items():
        if key in yours[0] and mine[0].get(key) == row and yours[1].get(key) != yours[0][key]:
            world.fail("carried", f"{there}: the row {key} was not touched", sync)
        filled = change.filled(row, to_new=here == sync.sources[0])
        for column, value in filled.items():
            if getattr(change, "how", "") == "computed":
                continue
            if value is None:
                value = before[there][name].named(column).default
            wanted = yours[0][key][column] if key in yours[0] else value
            if yours[1][key][column] != wanted:
                found = yours[1][key][column]
                world.fail("carried", f"{there}: {column} of {key} is {found}, not {wanted}", sync)


def follows(world: World, branch: str, found: State, expected: State) -> bool:
    """Whether a branch differs from what was written by what a lookup lens makes follow alone.

    Rows of a table and the rows of another, by whose keys they go on the other side, have the same
    values there: who writes one of them writes all, and a row that is given another key takes what
    is there.  So what differs has a value that was written to a cell which changes with it.
    """
    if {n: t.names for n, t in found.items()} != {n: t.names for n, t in expected.items()}:
        return False
    cells, wanted = _cells(found), _cells(expected)
    if cells.keys() != wanted.keys():
        return False
    before = _cells(world.model.branches.get(branch, {}))
    given = {cell: wanted[cell] for cell in cells if before.get(cell, _NOTHING) != wanted[cell]}
    groups: dict[Cell, set[Cell]] = {}
    for wide, by, lookup in _joined(world.model, branch):
        for (column, key), value in cells.items():
            there = (lookup, (cells.get((by, key)),))
            if column == wide and there in cells and cells[there] == value:
                groups.setdefault(there, {there}).add((column, key))
                if (by, key) in given:
                    given.setdefault(there, wanted[there])
    left = {cell for cell, value in cells.items() if wanted[cell] != value}
    while left:
        taken = {
            cell
            for group in groups.values()
            for cell in left & group
            if cells[cell] in [given[other] for other in group & given.keys()]
        }
        if not taken:
            return False
        given |= {cell: cells[cell] for cell in taken}
        left -= taken
    return True


Cell = tuple[str, Any]
_NOTHING = object()
"""What no cell holds."""


def _cells(state: State) -> dict[tuple[str, Any], Any]:
    """Every value, by the id of its column and the key of its row."""
    return {
        (column.id, key): row[column.name]
        for table in state.values()
        for key, row in table.identified().items()
        for column in table.columns
    }


def _joined(model: Model, branch: str) -> set[tuple[str, str, str]]:
    """The columns that change together on a branch, by the lenses of those it is in step with."""
    found: set[tuple[str, str, str]] = set()
    for sync in {s.name: s for name in model.group(branch) for s in model.two_way(name)}.values():
        with suppress(KeyError, ValueError):
            found |= sync.definition.joined(model.branches[sync.sources[0]])
    return found


def check_same(world: World) -> None:
    """Twins show the same where both are up to date."""
    observed = _observed(world)
    by_target = {sync.target: sync for sync in world.model.syncs.values()}
    for sync in world.model.syncs.values():
        twin = by_target.get(sync.twin or "")
        if twin is None or twin.sources != sync.sources or _by_hash(sync):
            continue
        if {sync.state, twin.state} != {"active"} or sync.spoiled or twin.spoiled:
            continue
        if observed[twin.name].lag or observed[sync.name].lag:
            continue
        one, other = (_typed(world, name) for name in (sync.target, twin.target))
        if isinstance(sync.definition, BoundQuery):
            one, other = one[sync.target], other[twin.target]
        if one != other:
            world.fail("same", f"{sync.target} and {twin.target}: {one} and {other}", sync)


def _typed(world: World, branch: str) -> dict[str, object]:
    state = world.db.branch(branch)
    return {
        name: [
            [(field.name, str(field.type)) for field in state.table(name).schema],
            world.model.branches[branch][name].rows,
        ]
        for name in state.tables()
    }


def check_propagated(world: World) -> None:
    """Nothing that is active and deferred is behind, but for want of the key of a mask."""
    check_true(world)
    for name, observed in _observed(world).items():
        sync = world.model.syncs[name]
        if sync.state != "active" or sync.spoiled or sync.when == "on demand":
            continue
        if observed.lag and sync.target not in world.model.waits:
            world.fail("lag", f"{name} is {observed.lag!r} after propagate", sync)
        if observed.lag and world.model.has_key:
            world.fail("lag", f"{name} is {observed.lag!r} though the key is here", sync)


def check_fresh(world: World, target: str) -> None:
    """A derived object that was refreshed is up to date, or has stopped."""
    for name, observed in _observed(world).items():
        sync = world.model.syncs[name]
        if sync.target != target or sync.state != "active" or sync.spoiled:
            continue
        if observed.lag:
            world.fail("lag", f"{name} is {observed.lag!r} after refresh", sync)


def check_history(world: World, turn: int) -> None:
    """One old snapshot after the other is read again."""
    known = list(world.model.history)
    snapshot = known[turn * 7 % len(known)]
    world.compare_snapshot(f"id:{snapshot}", world.model.history[snapshot])


def check_total(world: World) -> None:
    """Everything answers."""
    db = world.db
    asked = {
        "alerts": lambda: [str(alert) for alert in db.alerts()],
        "graph": lambda: db.graph().to_text(),
        "snapshots": db.snapshots,
        "status": lambda: _whole_status(db),
        "tags": db.tags,
    }
    for branch in db.branches():
        name = branch.name
        asked[f"log of {name}"] = branch.log
        asked[f"provenance of {name}"] = lambda name=name: str(db.provenance(name))
    for sync in world.model.syncs.values():
        if sync.kind == "view":
            name = sync.target
            asked[f"column lineage of {name}"] = lambda name=name: str(db.column_lineage(name))
            asked[f"lineage of {name}"] = lambda name=name: str(db.lineage(name))
    for what, ask in asked.items():
        try:
            ask()
        except Exception as error:
            subject = _subject(world, what)
            world.fail("total", f"{what}: {type(error).__name__}: {error}", subject)


def _whole_status(db: Any) -> None:
    """The status of a database, in which there is nothing that could not be answered."""
    unknown = [str(item) for item in db.status().failed if item.kind in ("status", "job")]
    if unknown:
        raise ValueError("; ".join(unknown))


def _subject(world: World, what: str) -> Sync | None:
    target = what.rsplit(" ", 1)[-1]
    return next((s for s in world.model.syncs.values() if s.target == target), None)


def check_whole(world: World) -> None:
    """The database finds nothing wrong with itself, tags stand, all history reads as it did."""
    for problem in world.db.check(deep=True).problems:
        sync = world.model.syncs.get(getattr(problem, "sync", ""))
        if sync is None:
            world.fail("check", str(problem))
        elif not sync.spoiled:
            world.fail("true", str(problem), sync)
    for name, snapshot in world.model.tags.items():
        if world.db.at(name).id != snapshot:
            world.fail("history", f"the tag {name} moved")
    for snapshot, state in world.model.history.items():
        world.compare_snapshot(f"id:{snapshot}", state)


def check_named(world: World, branch: str, steps: int) -> None:
    """By its name at a ref, a view is the version of the newest source that is not after it."""
    model = world.model
    at = model.back(branch, steps)
    assert at is not None
    past = model.ancestors(at)
    for sync in model.syncs.values():
        if sync.kind != "view" or sync.sources != (branch,) or sync.spoiled:
            continue
        version = _version_not_after(world, sync, branch, past, is_head=steps == 0)
        for place in (world.db.at(f"{branch}~{steps}"), world.db.at(f"id:{at}")):
            try:
                rows = place.sql(f"SELECT * FROM `{sync.target.upper()}`").to_arrow()
            except NotFound as error:
                is_gone = version is not None and sync.target not in model.history[version]
                if not is_gone and (version is not None or "derived_at" not in str(error)):
                    world.fail("named", repr(error), sync)
                continue
            except Forgotten:
                if not model.forgotten:
                    raise
                continue
            if version is None:
                world.fail("named", f"{sync.target} is there, and was made later", sync)
                continue
            table = model.history[version][sync.target]
            found = tuple(rows.column_names), canonical(tuple(r.values()) for r in rows.to_pylist())
            if found != (table.names, table.rows):
                world.fail("named", f"{found} instead of {table.names} {table.rows}", sync)


def definition_at(world: World, sync: Sync, snapshot: str) -> Any:
    """The definition of the newest version whose source is not after a snapshot; else the first."""
    if not sync.defined:
        return sync.definition
    past = world.model.ancestors(snapshot)
    found = definition = sync.defined[""]
    for version in reversed(_versions(world, sync)):
        definition = sync.defined.get(version, definition)
        if world.db.at(f"id:{version}").sources.get(sync.sources[0]) in past:
            found = definition
    return found


def _versions(world: World, sync: Sync) -> list[str]:
    """The versions of a view, newest first."""
    return world.model.line(sync.target)


def _version_not_after(
    world: World, sync: Sync, branch: str, past: set[str], is_head: bool
) -> str | None:
    """The version of a view whose source is the newest among these snapshots."""
    model = world.model
    found: tuple[str, str] | None = None
    sources: dict[str, str] = {}
    for version in reversed(_versions(world, sync)):
        own = world.db.at(f"id:{version}").sources
        if not own and not is_head:
            continue  # what somebody wrote to a detached view
        sources = own or sources
        source = sources.get(branch)
        if source in past and (found is None or found[1] in model.ancestors(source)):
            found = version, source
    return None if found is None else found[0]
