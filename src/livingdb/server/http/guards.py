"""Conditions and sinks of alerts, as requests say them: in words."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from livingdb.server.http.models import Asked

__all__ = ["Condition", "Guards", "parse_conditions"]


class Condition(Asked):
    """What has to hold of a change before it is carried."""

    text: str = Field(examples=["max_changed_share(0.2)"])
    action: Literal["warn", "quarantine", "hold", "detach", "fail"] = "detach"


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


def parse_conditions(given: list[Condition]) -> list[Any]:
    """Conditions in words as what judges changes."""
    from livingdb import condition

    named = [condition.parse(one.text, action=one.action) for one in given]
    return [one for part in named for one in part]
