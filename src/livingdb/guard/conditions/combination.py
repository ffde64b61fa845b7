"""Conditions made of others: all of them, any of them, not one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from livingdb.errors import InvalidData
from livingdb.guard.conditions.condition import Condition, Verdict
from livingdb.guard.conditions.registry import register, register_constructor

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = ["AllOf", "AnyOf", "NotOne", "all_of", "any_of", "not_"]


def _plain_conditions(conditions: object) -> tuple[Condition, ...]:
    found = tuple(conditions) if isinstance(conditions, (tuple, list)) else ()
    if not found or not all(isinstance(one, Condition) for one in found):
        raise InvalidData("conditions are combined of conditions: all_of([one, other])")
    return tuple(replace(one, action="detach", severity=None) for one in found)


def _measured_parts(found: Sequence[tuple[Condition, Verdict]]) -> dict[str, float | int]:
    """What conditions measured, and what those measured that they are made of."""
    parts: dict[str, float | int] = {}
    for one, verdict in found:
        parts |= verdict.parts
        if verdict.measured is not None:
            parts[one.text] = verdict.measured
    return parts


def _history(found: Sequence[tuple[Condition, Verdict]]) -> dict[str, float | int]:
    return {key: value for _, verdict in found for key, value in verdict.history.items()}


@dataclass(frozen=True)
class _Combination(Condition):
    conditions: tuple[Condition, ...]

    JOINED_BY: ClassVar[str] = ""

    @property
    def needs_approval(self) -> bool:
        """Whether one of them does."""
        return any(one.needs_approval for one in self.conditions)

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", _plain_conditions(self.conditions))
        super().__post_init__()

    @property
    def is_of_change(self) -> bool:
        """See `NamedValue.is_of_change`."""
        return any(one.is_of_change for one in self.conditions)

    @property
    def is_of_model(self) -> bool:
        """See `NamedValue.is_of_model`."""
        return all(one.is_of_model for one in self.conditions)

    @property
    def text(self) -> str:
        """The conditions, with a word in between."""
        if len(self.conditions) == 1:
            (text,) = (one.text for one in self.conditions)
            # A name on its own would be taken for a column in a list.
            return f"{self.NAME}([{text if text.endswith(')') or ' ' in text else text + '()'}])"
        return f"({f' {self.JOINED_BY} '.join(one.text for one in self.conditions)})"


@register
@dataclass(frozen=True)
class AllOf(_Combination):
    """Holds if all of some conditions do."""

    NAME: ClassVar[str] = "all_of"
    JOINED_BY: ClassVar[str] = "AND"

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        found = [(one, one.judge(pending)) for one in self.conditions]
        problems = [str(verdict.problem) for _, verdict in found if not verdict.holds]
        parts, history = _measured_parts(found), _history(found)
        return Verdict("; ".join(problems) or None, parts=parts, history=history)


@register
@dataclass(frozen=True)
class AnyOf(_Combination):
    """Holds if one of some conditions does."""

    NAME: ClassVar[str] = "any_of"
    JOINED_BY: ClassVar[str] = "OR"

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        found: list[tuple[Condition, Verdict]] = []
        for one in self.conditions:
            found.append((one, one.judge(pending)))
            if found[-1][1].holds:
                return Verdict(parts=_measured_parts(found), history=_history(found))
        problems = [str(verdict.problem) for _, verdict in found]
        parts, history = _measured_parts(found), _history(found)
        return Verdict(" and ".join(problems), parts=parts, history=history)


@register
@dataclass(frozen=True)
class NotOne(Condition):
    """Holds if a condition does not."""

    condition: Condition

    NAME: ClassVar[str] = "not_"

    def __post_init__(self) -> None:
        (plain,) = _plain_conditions((self.condition,))
        object.__setattr__(self, "condition", plain)
        super().__post_init__()

    @property
    def needs_approval(self) -> bool:
        """Whether the condition does."""
        return self.condition.needs_approval

    @property
    def is_of_change(self) -> bool:
        """See `NamedValue.is_of_change`."""
        return self.condition.is_of_change

    @property
    def is_of_model(self) -> bool:
        """See `NamedValue.is_of_model`."""
        return self.condition.is_of_model

    @property
    def text(self) -> str:
        """The condition, denied."""
        return f"NOT {self.condition.text}"

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        verdict = self.condition.judge(pending)
        problem = f"{self.condition.text} holds, and is not to" if verdict.holds else None
        parts = _measured_parts([(self.condition, verdict)])
        return Verdict(problem, parts=parts, history=verdict.history)


@register_constructor
def all_of(conditions: Sequence[Condition], **how: Any) -> AllOf:
    """All of these hold."""
    return AllOf(tuple(conditions), **how)


@register_constructor
def any_of(conditions: Sequence[Condition], **how: Any) -> AnyOf:
    """One of these holds."""
    return AnyOf(tuple(conditions), **how)


@register_constructor
def not_(condition: Condition, **how: Any) -> NotOne:
    """This does not hold."""
    return NotOne(condition, **how)
