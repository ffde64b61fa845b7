"""Conditions and sinks of alerts, as requests say them: in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from livingdb.errors import LivingDBError
from livingdb.server.http.failures import Refusal, status_of
from livingdb.server.http.models import Asked

if TYPE_CHECKING:
    from livingdb import alert

__all__ = [
    "Condition",
    "Guards",
    "KeptSink",
    "NewSink",
    "Severity",
    "changed_conditions",
    "changed_sinks",
    "parse_conditions",
    "wrong_at",
]

Severity = Literal["info", "warning", "error", "critical"]


class Condition(Asked):
    """What has to hold of a change before it is carried."""

    text: str = Field(examples=["max_changed_share(0.2)"])
    action: Literal["warn", "quarantine", "hold", "detach", "fail"] = "detach"
    severity: Severity | None = Field(None, description="Of its alerts; else as the action is bad.")


class NewSink(Asked):
    """Where alerts go."""

    to: str = Field(examples=["webhook:https://…"])
    severity: Severity = Field("info", description="Only alerts that are at least so bad.")


class KeptSink(Asked):
    """A sink that is there, as `GET /v1/sync` tells it: its address is told to nobody."""

    number: int = Field(ge=0)
    label: str
    severity: Severity | None = Field(None, description="As it is, if it is left out.")


class Guards(Asked):
    """What guards a sync; what is not said stays as it is."""

    conditions: list[Condition] | None = None
    alerts: list[str] | None = Field(
        None, description="Where alerts go.", examples=[["webhook:https://…"]]
    )

    def guards(self) -> dict[str, Any]:
        """What was said, as `Branch.derive` takes it."""
        from livingdb import alert

        found: dict[str, Any] = {}
        if self.conditions is not None:
            found["conditions"] = parse_conditions(self.conditions)
        if self.alerts is not None:
            found["alerts"] = [alert.parse(text) for text in self.alerts]
        return found


def parse_conditions(given: Sequence[Condition]) -> list[Any]:
    """Conditions in words as what judges changes."""
    return [one for part in changed_conditions(given, {}) for one in part]


def changed_conditions(
    given: Sequence[Condition], known: Mapping[tuple[str, str, str | None], Any]
) -> list[list[Any]]:
    """Conditions in words, each as those that it says.

    One that is said as it is known, by text, action and severity, stays what it is.
    """
    from livingdb import condition

    found: list[list[Any]] = []
    for at, said in enumerate(given):
        there = (said.text, said.action, said.severity)
        if there in known:
            found.append([known[there]])
            continue
        with wrong_at("conditions", at):
            found.append(condition.parse(*there))
    return found


def changed_sinks(
    given: Sequence[str | NewSink | KeptSink], known: Sequence[alert.Sink]
) -> list[alert.Sink]:
    """Sinks in words, and those that are known and stay."""
    from livingdb import alert

    found: list[alert.Sink] = []
    for at, said in enumerate(given):
        with wrong_at("alerts", at):
            if isinstance(said, KeptSink):
                found.append(_kept(said, known))
            elif isinstance(said, NewSink):
                found.append(replace(alert.parse(said.to), severity=said.severity))
            else:
                found.append(alert.parse(said))
    return found


def _kept(said: KeptSink, known: Sequence[alert.Sink]) -> alert.Sink:
    there = known[said.number] if said.number < len(known) else None
    if there is None or there.label != said.label:
        raise Refusal(
            409,
            "transaction_conflict",
            f"{said.label} is not sink {said.number} any more: somebody changed where alerts go",
        )
    return there if said.severity is None else replace(there, severity=said.severity)


@contextmanager
def wrong_at(part: str, number: int | None) -> Iterator[None]:
    """What is refused inside is told with where in the request that was said."""
    try:
        yield
    except LivingDBError as error:
        if number is None:
            raise
        raise Refusal(status_of(error), error.code, str(error), at=[part, number]) from None
