"""Who may change something, who has to agree, and what must not cross."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from livingdb.errors import InvalidData
from livingdb.guard.conditions.condition import Condition, Verdict
from livingdb.guard.conditions.kinds.labels import exposed_columns
from livingdb.guard.conditions.registry import register, register_constructor

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = [
    "Approval",
    "Authors",
    "NoLabel",
    "NotAuthors",
    "approval",
    "authors",
    "no_label",
    "not_authors",
]


def _is_match(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _names(given: Any, name: str, may_be_empty: bool = False) -> tuple[str, ...]:
    found = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if not all(isinstance(one, str) and one for one in found) or not (found or may_be_empty):
        raise InvalidData(f"{name}: name people, as in {name}('ann', 'bot-*')")
    return found


@dataclass(frozen=True)
class _People(Condition):
    names: tuple[str, ...] = ()

    SPREAD: ClassVar[str] = "names"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "names", _names(self.names, self.NAME))


@register
@dataclass(frozen=True)
class Authors(_People):
    """Only some people make what comes; a star stands for anything."""

    OF_CHANGE: ClassVar[bool] = True

    NAME: ClassVar[str] = "authors"

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        others = [name for name in pending.authors if not _is_match(name, self.names)]
        if not others:
            return Verdict()
        allowed = ", ".join(self.names)
        return Verdict(f"a change by {', '.join(others)}; only {allowed} may make one")


@register
@dataclass(frozen=True)
class NotAuthors(_People):
    """Some people make nothing of what comes; a star stands for anything."""

    OF_CHANGE: ClassVar[bool] = True

    NAME: ClassVar[str] = "not_authors"

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        found = [name for name in pending.authors if _is_match(name, self.names)]
        return Verdict(f"a change by {', '.join(found)}" if found else None)


@register
@dataclass(frozen=True)
class Approval(Condition):
    """So many of some people, or of all, let the change pass; until then it is held."""

    OF_CHANGE: ClassVar[bool] = True

    by: tuple[str, ...] = ()
    at_least: int = 1

    NAME: ClassVar[str] = "approval"

    def __post_init__(self) -> None:
        object.__setattr__(self, "action", "hold")
        super().__post_init__()
        object.__setattr__(self, "by", _names(self.by, self.NAME, may_be_empty=True))
        is_number = isinstance(self.at_least, int) and not isinstance(self.at_least, bool)
        if not is_number or self.at_least < 1:
            raise InvalidData(f"approval: at_least={self.at_least!r} is no number from 1 on")

    @property
    def needs_approval(self) -> bool:
        """See `Condition.needs_approval`."""
        return True

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        given = [name for name in pending.approved_by if not self.by or _is_match(name, self.by)]
        count = len(set(given))
        if count >= self.at_least:
            return Verdict()
        who = f" of {', '.join(self.by)}" if self.by else ""
        return Verdict(f"it waits for approval by {self.at_least}{who}; there are {count}")


@register
@dataclass(frozen=True)
class NoLabel(Condition):
    """No column of the source with a label reaches the target, unless it is masked."""

    label: str

    NAME: ClassVar[str] = "no_label"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.label, str) or not self.label:
            raise InvalidData(f"no_label: a label is text, not {self.label!r}")

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        found = exposed_columns(pending, self.label)
        if not found:
            return Verdict(measured=0)
        columns = ", ".join(f"{table}.{column}" for table, column in found)
        return Verdict(f"{columns}, labelled {self.label!r}, would reach the target", len(found))


@register_constructor
def authors(*names: str, **how: Any) -> Authors:
    """Only these people make what comes: authors('ann', 'bot-*')."""
    return Authors(names, **how)


@register_constructor
def not_authors(*names: str, **how: Any) -> NotAuthors:
    """None of these people makes anything of what comes."""
    return NotAuthors(names, **how)


@register_constructor
def approval(by: str | Sequence[str] = (), at_least: int = 1, **how: Any) -> Approval:
    """So many of these people (of all, if none is named) approve of the change."""
    return Approval(by, at_least, **how)  # type: ignore[arg-type]


@register_constructor
def no_label(label: str, **how: Any) -> NoLabel:
    """No column with this label reaches the target, unless it is masked."""
    return NoLabel(label, **how)
