"""The clauses `WHEN conditions ELSE action` at the end of a statement.

CREATE MATERIALIZED VIEW totals AS SELECT …
    WHEN changed_share <= 0.2 ELSE HOLD
    WHEN not_null(city) AND in_range(amount, 0) ELSE QUARANTINE
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from livingdb.errors import InvalidData
from livingdb.guard.conditions.condition import ACTIONS, SEVERITIES, Condition
from livingdb.guard.conditions.text import condition_tokens, parse
from livingdb.sql.parse import tokenize

__all__ = ["split_when_else"]

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET)


def split_when_else(sql: str) -> tuple[str, list[Condition]]:
    """A statement without the clauses `WHEN conditions ELSE action` at its end, and what they say.

    Without ELSE, what breaks the conditions detaches.  The action may be followed by the severity
    of its alert: `ELSE HOLD WARNING`.
    """
    start = _clause_start(sql)
    if start is None:
        return sql, []
    clause = sql[start:]
    tokens = [t for t in condition_tokens(clause) if t.token_type != TokenType.SEMICOLON]
    found: list[Condition] = []
    while tokens:
        end = _conditions_end(tokens)
        upto = tokens[end].start if end < len(tokens) else len(clause.rstrip().rstrip(";"))
        text = clause[tokens[0].end + 1 : upto]
        tokens, after = tokens[end:], "the conditions"
        action, severity = "detach", None
        if tokens and _is_word(tokens[0], "ELSE"):
            action, severity, used = _parse_action(tokens)
            tokens, after = tokens[used:], "the action"
        found += parse(text, action, severity)
        if tokens and not _is_word(tokens[0], "WHEN"):
            raise InvalidData(f"conditions: {tokens[0].text!r} comes after {after}")
    return sql[:start].rstrip(), found


def _clause_start(sql: str) -> int | None:
    """Where the first WHEN stands that belongs to no CASE and no parentheses."""
    depth = cases = 0
    before: Token | None = None
    for token in tokenize(sql):
        if before is None and not _is_word(token, "CREATE", "ALTER"):
            return None
        is_name = before is not None and _is_name(before, token)
        if token.token_type in _OPENING:
            depth += 1
        elif token.token_type in _CLOSING:
            depth -= 1
        elif not is_name and _is_word(token, "CASE"):
            cases += 1
        elif not is_name and _is_word(token, "END") and cases:
            cases -= 1
        elif not is_name and _is_word(token, "WHEN") and not depth and not cases:
            return int(token.start)
        before = token
    return None


def _is_name(before: Token, token: Token) -> bool:
    """Whether WHEN, CASE or END is a name where it stands: `t.when`, `AS when`, `SELECT when`."""
    if before.token_type == TokenType.DOT or _is_word(before, "AS"):
        return True
    begins = before.token_type == TokenType.COMMA or _is_word(before, "SELECT")
    return begins and not _is_word(token, "CASE")


def _is_word(token: Token, *words: str) -> bool:
    """Whether a token is one of some words, in any case and not in quotes."""
    quoted = token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
    return not quoted and token.text.upper() in words


def _conditions_end(tokens: Sequence[Token]) -> int:
    """The place of the token after the conditions that follow a WHEN."""
    depth = 0
    for at, token in enumerate(tokens[1:], 1):
        depth += token.token_type in _OPENING
        depth -= token.token_type in _CLOSING
        if not depth and _is_word(token, "ELSE", "WHEN"):
            return at
    return len(tokens)


def _parse_action(tokens: Sequence[Token]) -> tuple[str, str | None, int]:
    """The action after ELSE, the severity after that, and how many words that is."""
    words = [token.text.lower() for token in tokens[1:3]]
    if not words or words[0] not in ACTIONS:
        choices = ", ".join(ACTIONS).upper()
        given = repr(tokens[1].text) if words else "and nothing"
        raise InvalidData(f"conditions: ELSE {given}: choose one of {choices}")
    if len(words) > 1 and words[1] in SEVERITIES:
        return words[0], words[1], 3
    return words[0], None, 2
