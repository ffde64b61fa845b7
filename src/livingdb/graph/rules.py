"""The rules of the graph, in one place that every operation asks.

1. Only a head can be written.
2. The target of a one-way sync is read-only until it is detached.
3. The target of a one-way sync takes part in no two-way sync.
4. Two-way syncs are always immediate, and form a tree.
5. A branch has at most one incoming one-way sync.
6. One-way chains are allowed and propagate in topological order.
7. A change that a sync cannot carry detaches it.
8. A commit and all its immediate propagation land together or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.syncs import ActiveSyncs, SyncRow
from livingdb.errors import ReadOnlyBranch, RuleViolation

__all__ = [
    "Rule",
    "Write",
    "check_again",
    "check_new_sync",
    "check_writable",
    "check_write",
    "is_synced",
]


class Rule(IntEnum):
    """The rules by number."""

    ONLY_HEADS = 1
    ONE_WAY_TARGET_IS_READ_ONLY = 2
    NO_TWO_WAY_AT_ONE_WAY_TARGET = 3
    TWO_WAY_IS_AN_IMMEDIATE_TREE = 4
    ONE_INCOMING_ONE_WAY = 5
    CHAINS_IN_TOPOLOGICAL_ORDER = 6
    UNCARRIED_CHANGE_DETACHES = 7
    TOGETHER_OR_NOT_AT_ALL = 8


@dataclass(frozen=True)
class Write:
    """A write that is about to happen: to a branch (None: to a snapshot that is no head)."""

    branch: BranchRow | None
    ref: str


def check_write(write: Write) -> BranchRow:
    """The branch to write to; `RuleViolation` names the rule that forbids it."""
    if write.branch is None:
        raise RuleViolation(
            f"rule {Rule.ONLY_HEADS}: only the head of a branch can be written, and {write.ref!r} "
            "is no branch; clone it: db.at(ref).clone(name)"
        )
    return write.branch


def check_writable(syncs: ActiveSyncs, branch: BranchRow) -> None:
    """`ReadOnlyBranch` if a one-way sync writes the branch; it names the sync."""
    sync = syncs.writer(branch.id)
    if sync is not None:
        # Its source may be that of several; only its target names a sync.
        called = branch.name if sync.target == branch.id else sync.name
        raise ReadOnlyBranch(
            f"rule {Rule.ONE_WAY_TARGET_IS_READ_ONLY}: the sync {sync.name!r} writes the "
            f"branch {branch.name!r}, so nobody else does; db.sync({called!r}).detach() ends that"
        )


def is_synced(syncs: ActiveSyncs, branch: BranchRow) -> bool:
    """Whether the branch is in step with others; views follow wherever it goes."""
    return bool(syncs.schema_syncs_of(branch.id))


def check_again(syncs: ActiveSyncs, chain: Sequence[SyncRow]) -> None:
    """The rules on a sync that stopped and is to go on; `chain` are its rows."""
    mine = {row.id for row in chain}
    first, last = chain[0].sources, chain[-1].target
    is_two_way = chain[0].direction == "both"
    ends = (*first, last) if is_two_way else chain[0].written_branches
    if chain[0].direction == "forward":
        ends = (last,)
    for branch in ends:
        writer = syncs.writer(branch)
        if writer is not None and writer.id not in mine:
            rule = Rule.NO_TWO_WAY_AT_ONE_WAY_TARGET if is_two_way else Rule.ONE_INCOMING_ONE_WAY
            raise RuleViolation(
                f"rule {rule}: the sync {writer.name!r} writes what this one would write, which "
                "cannot go on, or be defined anew; detach that one first"
            )
        for other in () if is_two_way else syncs.of_branch(branch):
            if other.direction == "both":
                raise RuleViolation(
                    f"rule {Rule.NO_TWO_WAY_AT_ONE_WAY_TARGET}: what this sync would write is in "
                    f"the two-way sync {other.name!r} now; detach that one first"
                )


def check_new_sync(
    syncs: ActiveSyncs, branch: BranchRow, direction: str, is_new_target: bool
) -> None:
    """The rules on a sync between a branch and one that is new.

    `is_new_target`: the new branch is the sync's target, else its source.  A tree stays a tree
    when a new branch is joined to one of it.
    """
    if direction == "none":
        if not is_new_target:
            check_writable(syncs, branch)
        return
    writes_branch = direction == ("reverse" if is_new_target else "forward")
    for sync in syncs.of_branch(branch.id):
        is_written = branch.id in sync.written_branches
        if is_written and direction == "both":
            raise RuleViolation(
                f"rule {Rule.NO_TWO_WAY_AT_ONE_WAY_TARGET}: {branch.name!r} is written by the sync "
                f"{sync.name!r}, so it takes part in no two-way sync"
            )
        if sync.direction == "both" and writes_branch:
            raise RuleViolation(
                f"rule {Rule.NO_TWO_WAY_AT_ONE_WAY_TARGET}: {branch.name!r} is in the two-way sync "
                f"{sync.name!r}, so no one-way sync can write it"
            )
        if is_written and writes_branch:
            raise RuleViolation(
                f"rule {Rule.ONE_INCOMING_ONE_WAY}: the sync {sync.name!r} writes {branch.name!r} "
                "already"
            )
