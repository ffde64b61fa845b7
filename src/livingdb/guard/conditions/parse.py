"""Conditions as text, on their own and at the end of statements.

CREATE MATERIALIZED VIEW totals AS SELECT …
    WHEN changed_share <= 0.2 ELSE HOLD
    WHEN not_null(city) AND in_range(amount, 0) ELSE QUARANTINE
"""

from __future__ import annotations

from dataclasses import replace

from livingdb.errors import InvalidData
from livingdb.guard.conditions.condition import ACTIONS, Condition
from livingdb.guard.conditions.read_text import Reader
from livingdb.guard.conditions.tokens import Token, tokens

__all__ = ["parse", "when_else"]


def parse(text: str, action: str = "detach", severity: str | None = None) -> list[Condition]:
    """The conditions that a text names; `InvalidData` says what is wrong with it.

    Those between ANDs come one by one, each with the action and severity, unless it names others.
    """
    if not isinstance(text, str):
        raise InvalidData(f"conditions are text, not {type(text).__name__}")
    found = Reader(text).conditions()
    return [_acting(one, action, severity) for one in found]


def _acting(one: Condition, action: str, severity: str | None) -> Condition:
    if one.action == "detach" and action != "detach":
        one = replace(one, action=action)
    if one.severity is None and severity is not None:
        one = replace(one, severity=severity)
    return one


def when_else(sql: str) -> tuple[str, list[Condition]]:
    """A statement without the clauses `WHEN conditions ELSE action` at its end, and what they say.

    There may be several of them; without ELSE, what breaks the conditions detaches.  The action
    may be followed by the severity of its alert: `ELSE HOLD WARNING`.
    """
    start = _clause(sql)
    if start is None:
        return sql, []
    found: list[Condition] = []
    pieces = [token for token in tokens(sql, start) if not token.is_sign(";")]
    while pieces[0].kind != "end":
        end, upto = _ends(pieces)
        text = sql[pieces[0].end : pieces[end].start]
        rest = pieces[end:]
        action, severity = "detach", None
        if rest[0].is_word("ELSE"):
            action, severity, used = _action(rest)
            rest = rest[used:]
        found += parse(text, action, severity)
        pieces = rest
        if pieces[0].kind != "end" and not pieces[0].is_word("WHEN"):
            raise InvalidData(f"conditions: {pieces[0].text!r} comes after {upto}")
    return sql[:start].rstrip(), found


def _clause(sql: str) -> int | None:
    """Where the first WHEN stands that belongs to no CASE and no parentheses."""
    depth, cases = 0, 0
    before: Token | None = None
    for token in tokens(sql, escapes=True):
        if before is None and not token.is_word("CREATE", "ALTER"):
            return None
        after_dot = before is not None and before.is_sign(".")
        if token.is_sign("(", "["):
            depth += 1
        elif token.is_sign(")", "]"):
            depth -= 1
        elif not after_dot and token.is_word("CASE"):
            cases += 1
        elif not after_dot and token.is_word("END") and cases:
            cases -= 1
        elif not after_dot and token.is_word("WHEN") and not depth and not cases:
            return token.start
        before = token
    return None


def _ends(pieces: list[Token]) -> tuple[int, str]:
    """Where the conditions after a WHEN end, and what with, in words."""
    depth = 0
    for at, token in enumerate(pieces[1:], 1):
        if token.is_sign("(", "["):
            depth += 1
        elif token.is_sign(")", "]"):
            depth -= 1
        elif not depth and token.is_word("ELSE", "WHEN"):
            return at, "the action"
    return len(pieces) - 1, "the conditions"


_SEVERITIES = ("INFO", "WARNING", "ERROR", "CRITICAL")


def _action(pieces: list[Token]) -> tuple[str, str | None, int]:
    """The action after ELSE, the severity after that, and how many words that is."""
    action = pieces[1].text.lower()
    if pieces[1].kind != "word" or action not in ACTIONS:
        choices = ", ".join(ACTIONS).upper()
        raise InvalidData(f"conditions: ELSE {pieces[1].text!r}: choose one of {choices}")
    if pieces[2].is_word(*_SEVERITIES):
        return action, pieces[2].text.lower(), 3
    return action, None, 2
