"""Forgetting: what was marked goes, in one transaction of the catalog.

From then on the snapshots that went are forgotten, and the chunks that only they needed are needed
by nobody: whoever sweeps next takes them away.  Others write meanwhile.  So in the transaction it
is looked at once more whether something that came since names what goes; then nothing is done.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, select, text

from livingdb.catalog import schema
from livingdb.catalog.branches import EPOCH
from livingdb.catalog.forgotten import ForgottenRow
from livingdb.catalog.versions import RunRow
from livingdb.chunks.address import Address
from livingdb.chunks.store import StoredChunk
from livingdb.graph.graph import Graph
from livingdb.graph.storage.staging import Staging
from livingdb.maintenance.reach import recipe_chunks, recipe_inputs
from livingdb.maintenance.retention.mark import Mark
from livingdb.maintenance.retention.policy_lines import expired_branches, forgetting_policies
from livingdb.tables.index import Run, Stretch, Version
from livingdb.tables.recipe import load_recipe

__all__ = ["forget", "make_anchors"]

_OVERHEAD_BYTES = 256  # of a chunk in an index, and of what shared a dictionary with it


def make_anchors(graph: Graph, mark: Mark, staging: Staging) -> list[Run]:
    """Write the anchors of a mark; where one is larger than what it stands for, that stays."""
    made: list[Run] = []
    for version, since in sorted(mark.anchors.items()):
        over, under = graph.versions.require(version), graph.versions.require(since)
        known = graph.index.line(over, under.depth, 1)[0].run
        if known is not None and known.since == since:
            made.append(known)
            continue
        chunks: list[StoredChunk] = []
        run = graph.versions.runs.anchor(under, over, chunks.append)
        line = _stored_line(graph, over, under)
        if _bytes(chunks) + _OVERHEAD_BYTES <= _bytes_of_changes(graph, line):
            for chunk in chunks:
                staging.sink(chunk)
            made.append(run)
        else:
            stays = {part.version.address for part in line}
            mark.staying |= stays
            mark.hollow -= stays
    return made


def _stored_line(graph: Graph, version: Version, since: Version) -> list[Stretch]:
    """What leads from one version to another as it is stored, without runs that are not needed."""
    found: list[Stretch] = []
    while version.address != since.address:
        assert version.base is not None
        (part,) = graph.index.line(version, 0, 1)
        is_anchored = graph.index.is_hollow(version.base)
        found.append(part if is_anchored else Stretch(version))
        version = graph.versions.require(found[-1].since or version.base)
    return found


def _bytes(chunks: Iterable[StoredChunk]) -> int:
    return sum(len(chunk.data) for chunk in chunks)


def _bytes_of_changes(graph: Graph, line: list[Stretch]) -> int:
    """The bytes of the changes of a line that an anchor stands for: the last recipe stays."""
    store = graph.store
    recipes = [(part.recipe, load_recipe(store, part.recipe)) for part in line]
    named = {each for address, recipe in recipes for each in (address, *recipe_chunks(recipe))}
    named.discard(line[0].version.address)
    return sum(store.packs.stored_bytes(address) or len(store.get(address)) for address in named)


def forget(graph: Graph, mark: Mark, moment: int) -> bool:
    """Do what a mark says; False if others named something of it meanwhile."""
    history = mark.history
    expired = expired_branches(history)
    words = forgetting_policies(history)
    default = f"the policy: {history.policy}"
    rows = [ForgottenRow(n, moment, words.get(n, default)) for n in sorted(mark.going)]
    if not rows and not mark.removed and not expired:
        mark.epoch = history.epoch
        return True
    catalog = graph.catalog
    with graph.stage() as staging:
        runs = make_anchors(graph, mark, staging)
        staging.finish_packs()
        with catalog.write() as connection:
            _wait_for_writers(connection)
            if not _is_current(graph, mark, connection):
                return False
            staging.write(connection)
            catalog.forgotten.add(connection, rows)
            catalog.forgotten.add_versions(connection, mark.hollow)
            catalog.forgotten.remove_versions(connection, list(mark.removed & history.hollow))
            catalog.versions.remove_answers(connection, list(mark.hollow))
            catalog.versions.remove(connection, list(mark.removed))
            catalog.versions.put_runs(connection, [_row(run) for run in runs])
            catalog.touches.remove(connection, mark.buried)
            catalog.dropped_branches.remove(connection, expired)
            epoch = catalog.raise_epoch(connection)
            staging.keep()
        staging.publish()
    graph.observe_epoch(epoch)
    mark.epoch = epoch
    return True


def _row(run: Run) -> RunRow:
    return RunRow(run.version, run.since, run.depth, run.change)


def _wait_for_writers(connection: Connection) -> None:
    """Let those who are committing come to an end, and others wait for this."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("LOCK TABLE snapshot, branch IN SHARE ROW EXCLUSIVE MODE"))


def _is_current(graph: Graph, mark: Mark, connection: Connection) -> bool:
    """Whether nothing that came since names what goes."""
    going, gone = mark.going, mark.hollow | mark.removed
    if graph.catalog.meta(EPOCH, connection) != mark.history.epoch:
        return False
    branch, tag, lease = schema.branch.c, schema.tag.c, schema.lease.c
    named = {number for (number,) in connection.execute(select(branch.head))}
    tags = {(known.name, known.snapshot) for known in mark.history.tags}
    named |= {
        n for name, n in connection.execute(select(tag.name, tag.snapshot)) if (name, n) not in tags
    }
    leases = {known.id for known in mark.history.leases}
    named |= {n for i, n in connection.execute(select(lease.id, lease.snapshot)) if i not in leases}
    if named & going:
        return False
    snapshot, touch = schema.snapshot.c, schema.touch.c
    since = mark.history.newest
    parents = connection.execute(select(snapshot.first).where(snapshot.sequence > since))
    if any(first in going for (first,) in parents):
        return False
    made = connection.execute(select(touch.version).where(touch.sequence > since))
    return not any(_leads_to(graph, Address(v), mark, gone) for (v,) in made if v is not None)


def _leads_to(graph: Graph, version: Address, mark: Mark, gone: set[Address]) -> bool:
    """Whether a version that came since is built upon one that goes."""
    at: Address | None = version
    history = mark.history
    while at is not None and (at not in history.versions or at in history.hollow):
        if at in gone:
            return True
        found = graph.catalog.versions.get(at)
        if found is None:
            return True
        if found.version.base is None:
            inputs = recipe_inputs(load_recipe(graph.store, at))
            return any(_leads_to(graph, each, mark, gone) for each in inputs)
        at = found.version.base
    return at in gone
