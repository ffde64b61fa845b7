"""Collecting garbage: what no policy keeps is forgotten, and the space it took is given back.

Idle branches are dropped; what is to go is marked; it is forgotten in one transaction of the
catalog; then the chunks that nobody needs any more are swept away.  Killed anywhere, the next run
goes on: each step is found from what the catalog says.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from livingdb.catalog.branches import EPOCH
from livingdb.catalog.dropped_branches import DroppedBranchRow
from livingdb.commit.drop_branch import drop_branches, plan_drop
from livingdb.errors import LivingDBError, TransactionConflict
from livingdb.graph.graph import Graph, now
from livingdb.graph.names import is_hidden
from livingdb.graph.retention import DAY, Retention
from livingdb.graph.storage.drain_journal import drain_journal
from livingdb.maintenance.compact import compact
from livingdb.maintenance.live_chunks import KnownRows
from livingdb.maintenance.reach import recipe_chunks
from livingdb.maintenance.retention.forget import forget
from livingdb.maintenance.retention.history import History
from livingdb.maintenance.retention.keepers import find_kept
from livingdb.maintenance.retention.mark import Mark, mark
from livingdb.maintenance.retention.report import Collection, ids_of, kinds_of
from livingdb.maintenance.retention.sweep import pack_bytes, sweep
from livingdb.tables.recipe import load_recipe

__all__ = ["collect_garbage"]

_ATTEMPTS = 5

Progress = Callable[[str], None]


def collect_garbage(
    graph: Graph,
    policy: Retention,
    dry_run: bool = False,
    moment: int | None = None,
    progress: Progress | None = None,
) -> Collection:
    """Forget what a policy does not keep; `dry_run`: only say what that would be."""
    say = progress or (lambda text: None)
    moment = now() if moment is None else moment
    say("finding what is kept")
    if dry_run:
        return _foretell(graph, policy, moment)
    graph.check_writable()
    graph.leases.sweep()
    if not policy.forgets:
        return Collection(policy, False)
    dropped = _drop_idle(graph, policy, moment)
    graph.store.refresh()
    drain_journal(graph.store)
    before = pack_bytes(graph)
    with _no_search_for_cycles():
        found = _forget(graph, policy, moment)
        say("writing packs")
        sweep(graph, _known_rows(graph, found))
    if pack_bytes(graph) > before:  # of a few small packs, what replaces changes weighs more
        compact(graph)
    done = _report(policy, found, is_dry=False)
    return replace(done, dropped=dropped, before_bytes=before, after_bytes=pack_bytes(graph))


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Make rows by the hundred thousand, none in a cycle: to search them is a tenth of it all."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _forget(graph: Graph, policy: Retention, moment: int) -> Mark:
    """Mark and forget, again if others came between."""
    for _ in range(_ATTEMPTS):
        found = mark(find_kept(History.read(graph, policy, moment)))
        if forget(graph, found, moment):
            return found
    raise TransactionConflict(
        "others named again and again what was about to be forgotten; nothing is: try again"
    )


def _known_rows(graph: Graph, found: Mark) -> KnownRows | None:
    """What the catalog still has of what was read for marking; None if others forgot since."""
    if graph.catalog.meta(EPOCH) != found.epoch:
        return None
    history = found.history
    there = {a: row for a, row in history.versions.items() if a not in found.removed}
    return KnownRows(list(history.rows.values()), there, found.removed | found.hollow)


def _report(policy: Retention, found: Mark, is_dry: bool) -> Collection:
    history = found.history
    return Collection(
        policy,
        is_dry,
        ids_of([history.rows[number] for number in found.going]),
        kept=kinds_of(found.kept),
        forgotten=len(history.forgotten),
        versions=len(found.hollow) + len(found.removed),
        anchors=len(found.anchors),
        _found=found.kept,
    )


def _foretell(graph: Graph, policy: Retention, moment: int) -> Collection:
    """What would go, and about how many bytes."""
    history = History.read(graph, policy, moment)
    idle = idle_branches(history)
    gone = [row for row in history.branches if row.name in idle]
    if gone:
        there = [row for row in history.branches if row.name not in idle]
        dropped = [DroppedBranchRow(r.number, r.id, r.name, r.head, moment) for r in gone]
        history = replace(history, branches=there, dropped=[*history.dropped, *dropped])
    found = mark(find_kept(history))
    before = pack_bytes(graph)
    told = _report(policy, found, is_dry=True)
    return replace(
        told,
        dropped=idle,
        before_bytes=before,
        after_bytes=max(0, before - _dead_bytes(graph, found)),
    )


def _dead_bytes(graph: Graph, found: Mark) -> int:
    """The bytes of the changes of versions that go; trees and anchors are left out."""
    store = graph.store
    going = [a for a in found.hollow | found.removed if a not in found.history.hollow]
    chunks = list({c for a in going for c in (a, *recipe_chunks(load_recipe(store, a)))})
    there = store.contains(chunks).tolist()
    return sum(len(store.get(c)) for c, is_there in zip(chunks, there, strict=True) if is_there)


# --- idle branches --------------------------------------------------------------------------


def idle_branches(history: History) -> list[str]:
    """The names of branches that nobody wrote to for so long that their policy drops them."""
    default = history.graph.catalog.default_branch()
    in_syncs = {end for s in history.syncs if s.is_active for end in (*s.sources, s.target)}
    found = []
    for branch in history.branches:
        idle = history.policy_of(branch.id, branch.name).idle_days
        if idle is None or branch.id == default or branch.id in in_syncs or is_hidden(branch.name):
            continue
        stops = history.stops.get(branch.number, ())
        last = max([branch.time, *(stop.until for stop in stops if stop.until is not None)])
        if history.moment - last > idle * DAY:
            found.append(branch.name)
    return found


def _drop_idle(graph: Graph, policy: Retention, moment: int) -> list[str]:
    """Drop branches that are idle, each as if a user did; one that is written to stays."""
    if all(one.idle_days is None for one in (policy, *policy.branches.values())):
        return []
    dropped = []
    for name in idle_branches(History.read(graph, policy, moment)):
        row = graph.branches.find(name)
        if row is None or graph.branches.count() == 1:
            continue
        try:
            drop_branches(graph, [plan_drop(graph, row, detach=False)], moment)
        except LivingDBError:
            continue  # it came to be in a sync, or the default one, meanwhile
        dropped.append(name)
    return dropped
