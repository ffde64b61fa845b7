"""What a condition is: it judges a pending change, and says what happens if it does not hold.

A condition is a value: a frozen dataclass with a name of its own, which can be written down as
plain values and as text, `max_changed_share(0.2)`.  Conditions combine with `&`, `|` and `~`.
"""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, cast

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.guard.conditions.registry import named_class

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = [
    "ACTIONS",
    "SEVERITIES",
    "Condition",
    "NamedValue",
    "UnknownCondition",
    "Verdict",
    "from_json",
    "render_literal",
    "to_json",
]

ACTIONS = ("detach", "hold", "warn", "quarantine", "fail")
"""What happens if a condition does not hold."""
STRENGTH = ("warn", "quarantine", "hold", "detach", "fail")
"""The same, the strongest last."""
SEVERITIES = ("info", "warning", "error", "critical")


@dataclass(frozen=True)
class Verdict:
    """What a condition found: whether it holds, what it measured, and which rows break it.

    `problem` says in words what is wrong; None: the condition holds.  `rows` are, by table of the
    target, the rows that break it, if it is one about rows.  `parts` are what the conditions
    measured that it is made of, by their texts.  `history` is what later changes are compared with,
    by what it is about, whatever that is called.  Not `is_judged`: nothing could be found out, and
    `problem` says why.
    """

    problem: str | None = None
    measured: float | int | None = None
    rows: Mapping[str, pa.Table] = field(default_factory=dict)
    parts: Mapping[str, float | int] = field(default_factory=dict)
    history: Mapping[str, float | int] = field(default_factory=dict)
    is_judged: bool = True

    @property
    def holds(self) -> bool:
        """Whether the condition is satisfied."""
        return self.problem is None


class NamedValue:
    """A frozen dataclass that can be written down: conditions and what they measure."""

    NAME: ClassVar[str] = ""
    SPREAD: ClassVar[str] = ""
    """The field whose values are written as arguments of their own."""

    OF_CHANGE: ClassVar[bool] = False
    """Whether it is about what changes, so that it says nothing of what is just being made."""

    OF_MODEL: ClassVar[bool] = False
    """Whether it is about what a model says of itself, which only training can change."""

    @property
    def is_of_change(self) -> bool:
        """Whether it, or a part of it, is about what changes."""
        return self.OF_CHANGE

    @property
    def is_of_model(self) -> bool:
        """Whether it is about nothing but what a model says of itself."""
        return self.OF_MODEL

    @property
    def text(self) -> str:
        """It as one would write it in SQL."""
        return f"{self.NAME}{_arguments(self)}"

    def __str__(self) -> str:
        return self.text


_SAID_APART = ("action", "severity")
"""What is said beside the text of a condition."""


def _arguments(item: NamedValue) -> str:
    """The arguments that are not as usual; the first ones without their names."""
    parts: list[str] = []
    named_ones: list[str] = []
    for at in dataclasses.fields(cast("Any", item)):
        value = getattr(item, at.name)
        if at.name in _SAID_APART:
            continue
        if at.name == item.SPREAD:
            parts += [render_literal(one) for one in value]
        elif at.kw_only or named_ones or _is_default(at, value):
            if not at.kw_only and not named_ones:
                named_ones.append("")
            if not _is_default(at, value):
                named_ones.append(f"{at.name} => {render_literal(value)}")
        else:
            parts.append(render_literal(value))
    parts += [one for one in named_ones if one]
    return f"({', '.join(parts)})" if parts else ""


def _is_default(at: dataclasses.Field[Any], value: object) -> bool:
    if at.default is not dataclasses.MISSING:
        return bool(value == at.default)
    return at.default_factory is not dataclasses.MISSING and value == at.default_factory()


def render_literal(value: object) -> str:
    """A value as it is written in SQL."""
    if isinstance(value, NamedValue):
        return value.text
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, Mapping):
        return render_literal(json.dumps(dict(value)))
    if isinstance(value, Sequence):
        return f"[{', '.join(render_literal(item) for item in value)}]"
    return str(value)


def to_json(item: NamedValue) -> dict[str, Any]:
    """It as plain values."""
    if isinstance(item, UnknownCondition):
        return {**json.loads(item.plain)}
    found: dict[str, Any] = {"name": item.NAME}
    for at in dataclasses.fields(cast("Any", item)):
        value = getattr(item, at.name)
        if not _is_default(at, value):
            found[at.name] = _to_plain(value)
    return found


def _to_plain(value: object) -> object:
    if isinstance(value, NamedValue):
        return to_json(value)
    if isinstance(value, tuple):
        return [_to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _to_plain(item) for key, item in value.items()}
    return value


def from_json(data: Mapping[str, Any]) -> NamedValue:
    """The inverse of `to_json`; `InvalidData` for what no version knows."""
    name = data.get("name")
    cls = named_class(str(name))
    if cls is None:
        raise InvalidData(f"there is no condition {name!r}; livingdb.condition lists them")
    values = {key: _from_plain(value) for key, value in data.items() if key != "name"}
    return make(cls, (), values)


def _from_plain(value: object) -> object:
    if isinstance(value, Mapping) and named_class(str(value.get("name"))) is not None:
        return from_json(value)
    if isinstance(value, list):
        return tuple(_from_plain(item) for item in value)
    return value


def make(
    cls: type[NamedValue], given: Sequence[object], named_ones: Mapping[str, object]
) -> NamedValue:
    """One of a class; `InvalidData` where the arguments do not fit."""
    try:
        return cls(*given, **named_ones)
    except TypeError as error:
        takes = [
            at.name for at in dataclasses.fields(cast("Any", cls)) if at.name not in _SAID_APART
        ]
        reason = str(error).partition("()")[2].strip() or str(error)
        raise InvalidData(f"{cls.NAME} takes ({', '.join(takes)}): {reason}") from None


@dataclass(frozen=True, kw_only=True)
class Condition(NamedValue, ABC):
    """Something that has to hold of a change before a sync carries it.

    action    what happens if it does not: "detach", "hold" (stop, and wait for approval), "warn"
              (carry it and raise an alert), "quarantine" (set the rows aside that break it) or
              "fail" (abort the source's transaction; immediate syncs only)
    severity  of the alert; by the action if it is not said
    """

    action: str = "detach"
    severity: str | None = None

    BY_ROW: ClassVar[bool] = False
    """Whether it is about single rows, so that these can be set aside."""

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise InvalidData(f"action={self.action!r}: choose one of {', '.join(ACTIONS)}")
        if self.severity is not None and self.severity not in SEVERITIES:
            raise InvalidData(f"severity={self.severity!r}: choose one of {', '.join(SEVERITIES)}")
        if self.action == "quarantine" and not self.BY_ROW:
            raise InvalidData(
                f"{self.NAME}: action='quarantine' sets rows aside, and this condition is not "
                "about single rows"
            )

    @abstractmethod
    def judge(self, pending: PendingChange) -> Verdict:
        """What it finds about a change that is about to happen."""

    def release_mask(self, rows: pa.Table, pending: PendingChange, table: str) -> Any:
        """Which rows that were set aside for it break it no more, although they stay as they are.

        None if that cannot be.
        """
        return None

    @property
    def needs_approval(self) -> bool:
        """Whether it holds only once somebody said so."""
        return False

    def __and__(self, other: Condition) -> Condition:
        from livingdb.guard.conditions.combination import AllOf

        return AllOf((self, other), action=self.action, severity=self.severity)

    def __or__(self, other: Condition) -> Condition:
        from livingdb.guard.conditions.combination import AnyOf

        return AnyOf((self, other), action=self.action, severity=self.severity)

    def __invert__(self) -> Condition:
        from livingdb.guard.conditions.combination import NotOne

        return NotOne(self, action=self.action, severity=self.severity)


@dataclass(frozen=True)
class UnknownCondition(Condition):
    """Stands in for a condition that nothing here knows, as one of a later version.

    It can be looked at and given again.  Nobody can judge it, so it does not hold.
    """

    plain: str
    """The condition as plain values, as JSON."""
    written: str
    """Its text."""
    why: str
    """Why it is not known."""

    NAME: ClassVar[str] = "unknown_condition"
    BY_ROW: ClassVar[bool] = True

    @classmethod
    def of(cls, data: Mapping[str, Any], why: str) -> UnknownCondition:
        """The one that stands in for what plain values say."""
        plain = {name: value for name, value in data.items() if name != "text"}
        written = str(data.get("text") or data.get("name", "?"))
        action, severity = data.get("action"), data.get("severity")
        return cls(
            json.dumps(plain),
            written,
            why,
            action=action if action in ACTIONS else "detach",
            severity=severity if severity in SEVERITIES else None,
        )

    @property
    def text(self) -> str:
        """The text that was written down with it."""
        return self.written

    def judge(self, pending: PendingChange) -> Verdict:
        """See `Condition.judge`."""
        return Verdict(f"it cannot be judged: {self.why}", is_judged=False)
