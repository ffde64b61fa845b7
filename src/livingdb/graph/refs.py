"""Refs: how a user names a snapshot.

main            the head of a branch          v1           a tag
3fa9c1…         an id, or its unique prefix of six digits or more
id:3fa9c1       an id, even if there is a branch of that name
main~3          three first parents back
main@2026-11-15T10:00:00    where the branch was then (UTC unless a zone is given): the newest
                position in its log whose time is not later
main@now        its head, whatever the clocks said
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from livingdb.catalog.branch_log import Movement
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address, short
from livingdb.errors import InvalidName, NotFound
from livingdb.graph.names import is_hidden

if TYPE_CHECKING:
    from livingdb.graph.graph import Graph

__all__ = ["NOW", "ResolvedRef", "parse_time", "position_at", "resolve"]

NOW = "now"
"""The time at which a branch is at its head."""

PREFIX_DIGITS = 6
_LENGTH_LIMIT = 1000
_HEX = re.compile(r"[0-9a-f]{6,64}\Z")
_BACK = re.compile(r"(.*?)((?:~[0-9]{0,18})+)\Z", re.DOTALL)


@dataclass(frozen=True)
class ResolvedRef:
    """A snapshot, the catalog's epoch at that moment, and the branch if the ref was one.

    `named` is the branch whose name the ref has, also if it goes on with steps or a time.
    """

    snapshot: SnapshotRow
    epoch: str | None = None
    branch: BranchRow | None = None
    named: str | None = None
    notice: str = ""
    """What a reader is to know: that another snapshot stands for the one that was asked for."""


def resolve(graph: Graph, ref: str) -> ResolvedRef:
    """The snapshot a ref names; `NotFound` says what there is instead."""
    if not isinstance(ref, str) or not ref:
        raise InvalidName(f"a ref is a branch, a tag or a snapshot id, not {ref!r}")
    if len(ref) > _LENGTH_LIMIT:
        raise InvalidName(f"{ref[:40]!r}…: a ref has at most {_LENGTH_LIMIT:,} characters")
    named, epoch = graph.branches.branch_or_tag(ref)
    if isinstance(named, BranchRow):
        return ResolvedRef(graph.snapshots.at(named.head), epoch, named, named.name)
    if named is not None:
        return ResolvedRef(graph.snapshots.at(named.snapshot), epoch)
    back = _BACK.match(ref)
    if back is not None:
        return _ancestor(graph, back.group(1), _steps(back.group(2)), ref)
    if "@" in ref:
        name, _, time = ref.partition("@")
        return _as_of(graph, name, time, epoch)
    found = _by_id(graph, ref)
    if found is not None:
        return ResolvedRef(found, epoch)
    raise NotFound(f"there is no branch, tag or snapshot {ref!r}{_hint(graph, ref)}")


def _steps(back: str) -> int:
    """How far `~2~` goes back: one for a sign without a number."""
    return sum(int(number or 1) for number in back.split("~")[1:])


def _ancestor(graph: Graph, name: str, steps: int, ref: str) -> ResolvedRef:
    found = resolve(graph, name)
    row = found.snapshot
    if steps > row.depth:
        raise NotFound(f"{ref!r}: the history of {name!r} has only {row.depth + 1} snapshots")
    back = graph.snapshots.ancestor(row, row.depth - steps)
    return ResolvedRef(back, found.epoch, named=found.named)


def _as_of(graph: Graph, name: str, time: str, epoch: str | None) -> ResolvedRef:
    """Where a branch was then; if that is forgotten, where it was last before that is kept."""
    branch = graph.branches.find(name)
    if branch is None:
        raise NotFound(f"there is no branch {name!r}{_hint(graph, name)}")
    found = position_at(graph, branch, time)
    row = graph.snapshots.at(found.snapshot)
    if graph.forgotten.find(row) is None:
        return ResolvedRef(row, epoch, named=name)
    before = graph.movements.of(branch, upto=found.position)
    rows = (graph.snapshots.at(move.snapshot) for move in before)
    kept = next((one for one in rows if graph.forgotten.find(one) is None), None)
    kept = kept or graph.forgotten.nearest_kept(row)
    if kept is None:
        return ResolvedRef(row, epoch, named=name)
    notice = (
        f"{name}@{time} is snapshot {short(row.address)}, whose rows were forgotten: this is the "
        f"nearest kept one before it, {short(kept.address)}"
    )
    return ResolvedRef(kept, epoch, named=name, notice=notice)


def position_at(graph: Graph, branch: BranchRow, time: str) -> Movement:
    """The newest position in a branch's log whose time is not later; its last one for `NOW`."""
    if time.strip().lower() == NOW:
        (last,) = graph.movements.of(branch, branch.position - 1)
        return last
    found = graph.movements.at(branch, parse_time(time))
    if found is None:
        raise NotFound(f"the branch {branch.name!r} was not there yet at {time}")
    return found


def parse_time(text: str) -> int:
    """Microseconds since 1970 of an ISO time; UTC where it names no zone."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise InvalidName(f"{text!r} is no time: write 2026-11-15T10:00:00, or now") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    delta = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _by_id(graph: Graph, ref: str) -> SnapshotRow | None:
    digits = ref.removeprefix("id:").lower()
    if not _HEX.match(digits):
        if ref.startswith("id:"):
            raise InvalidName(f"{ref!r}: an id has {PREFIX_DIGITS} to 64 hexadecimal digits")
        return None
    if len(digits) == 64:
        return graph.snapshots.find(Address(bytes.fromhex(digits)))
    found = graph.snapshots.with_prefix(digits)
    if len(found) > 1:
        raise InvalidName(f"{ref!r} is the beginning of more than one snapshot id: give more of it")
    return found[0] if found else None


def _hint(graph: Graph, ref: str) -> str:
    import difflib

    renamed = graph.catalog.former_names.renamed(ref)
    row = None if renamed is None else graph.branches.by_id(renamed)
    if row is not None:
        return f"; the branch that was called so is called {row.name!r} now"
    rows = graph.branches.all()[:10_000]
    names = [branch.name for branch in rows if not is_hidden(branch.name)]
    names += [tag.name for tag in graph.catalog.tags.all()[:10_000]]
    near = difflib.get_close_matches(ref, names, 1)
    if near:
        return f"; did you mean {near[0]!r}?"
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return f"; there are {shown}" if names else ""
