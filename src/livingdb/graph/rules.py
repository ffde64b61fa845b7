"""The rules of the graph, in one place that every operation asks.

1. Only a head can be written.
2. The target of a one-way sync is read-only until it is detached.
3. The target of a one-way sync takes part in no two-way sync.
4. Two-way syncs are always immediate, and form a tree.
5. A branch has at most one incoming one-way sync.
6. One-way chains are allowed and propagate in topological order.
7. A change that a sync cannot carry detaches it.
8. A commit and all its immediate propagation land together or not at all.

What there are no syncs for yet has nothing to ask: a rule joins this file with its first case.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from livingdb.catalog.branches import BranchRow
from livingdb.errors import RuleViolation

__all__ = ["Rule", "Write", "check_write"]


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
