"""What is written down of what people do, and of what they are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from livingdb.access.user import User
from livingdb.graph.graph import Graph, now

if TYPE_CHECKING:
    from livingdb.graph.draft import Action

__all__ = ["BEGUN", "DONE", "FAILED", "REFUSED", "entry", "note_action"]

DONE, REFUSED = "done", "refused"
BEGUN, FAILED = "begun", "failed"
"""How what no transaction does is noted before it begins, and when it ended by an error."""


def entry(
    person: str, action: str, subject: str, outcome: str, details: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """An entry of the audit trail, as of now."""
    return {
        "time": now(),
        "person": person,
        "action": action,
        "subject": subject,
        "outcome": outcome,
        "details": dict(details or {}),
    }


def note_action(graph: Graph, user: User, done: Sequence[tuple[str, str]]) -> Action:
    """What a transaction does to note actions of a user and what they were about."""

    def act(connection: Connection) -> None:
        entries = [entry(user.name, action, subject, DONE) for action, subject in done]
        if entries:
            graph.catalog.audit.add(connection, entries)

    return act
