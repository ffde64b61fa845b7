"""What becomes of a value that the other side of a change cannot hold.

    reject       the change, or the write, is refused
    clamp        the nearest number is shown
    null         nothing is shown
    truncate     what does not fit is left out: digits, a time of day, the end of a text
    quarantine   the row is not there on that side

The side that can hold the value keeps it.  Where a policy has no answer (no number is near a text
that is none) it rejects.  A value that loses something does not fit: 7.9 as an int.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from livingdb.errors import InvalidData
from livingdb.evolution.definition_edits import check_choice
from livingdb.evolution.schema_change import SchemaChange
from livingdb.tables.schema import Column

__all__ = [
    "LATER_POLICY",
    "NO_POLICY",
    "POLICIES",
    "check_policy",
    "require_policy",
    "take_policy",
]

POLICIES = ("reject", "clamp", "null", "truncate", "quarantine")
LATER_POLICY: Mapping[str, str] = MappingProxyType({"policy": "reject"})
"""What changes have that had no policy in earlier records."""
NO_POLICY: Mapping[str, None] = MappingProxyType({"policy": None})
"""What records have of constraints, where `on_violation` says it."""


def require_policy(policy: str | None) -> None:
    """`InvalidData` if a change that is new has no policy."""
    check_choice("policy", policy, POLICIES)


def check_policy(
    policy: str | None, columns: Iterable[Column], allowed: Sequence[str] = POLICIES
) -> None:
    """`InvalidData` if there is no such policy, or if these columns cannot show null by it.

    None is what records of earlier versions have: it is refused where a change is defined.
    """
    check_choice("policy", policy, (None, *POLICIES))
    if policy is not None and policy not in allowed:
        raise InvalidData(f"policy {policy!r}: here it is one of {', '.join(allowed)}")
    for column in columns:
        if policy == "null" and not column.nullable:
            raise InvalidData(f"the column {column.name!r} is NOT NULL: choose another policy")


def take_policy(change: SchemaChange, policy: str | None, on_violation: str | None) -> None:
    """`policy` of a constraint is kept as what it means; `InvalidData` if both are given."""
    if policy is None:
        return
    check_choice("policy", policy, ("reject", "quarantine"))
    if on_violation != "reject":
        raise InvalidData("policy and on_violation say the same: give one of them")
    object.__setattr__(change, "on_violation", policy)
    object.__setattr__(change, "policy", None)
