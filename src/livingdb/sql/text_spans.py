"""Where items of SELECT begin and end in a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from livingdb.errors import InvalidData
from livingdb.sql.parse import parse_statement, tokenize

__all__ = ["item_span"]

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_ENDS = {
    "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "UNION", "INTERSECT", "EXCEPT",
    "MINUS", "LATERAL", "WINDOW", "QUALIFY", "SORT", "CLUSTER", "DISTRIBUTE", ";",
}  # fmt: skip

Span = tuple[int, int]


def item_span(text: str, item: exp.Expr, places: Sequence[Span]) -> Span | None:
    """The part of the text that is an item; None if it cannot be told.

    `places` are names within the item.
    """
    low, high = min(start for start, _ in places), max(end for _, end in places)
    for start, end in sorted(_item_spans(tokenize(text)), key=lambda span: span[1] - span[0]):
        if start <= low and high <= end and _is_item(text[start:end], item):
            return start, end
    return None


def _is_item(text: str, item: exp.Expr) -> bool:
    try:
        tree = parse_statement(f"SELECT {text}")
    except InvalidData:
        return False
    return isinstance(tree, exp.Select) and tree.expressions == [item]


def _item_spans(tokens: Sequence[Token]) -> Iterator[Span]:
    """What could be an item: from a SELECT or a comma to a comma or what ends the items."""
    for at, token in enumerate(tokens):
        if token.token_type == TokenType.SELECT:
            yield from _spans_after(tokens[at + 1 :])


def _spans_after(tokens: Sequence[Token]) -> Iterator[Span]:
    depth, first, last = 0, None, None
    for token in tokens:
        is_word = token.token_type == TokenType.HINT or token.text.upper() in ("DISTINCT", "ALL")
        if first is None and depth == 0 and is_word:
            continue
        if depth == 0 and token.token_type in _CLOSING:
            break
        if depth == 0 and token.token_type == TokenType.COMMA:
            if first is not None and last is not None:
                yield first.start, last.end + 1
            first = None
            continue
        if depth == 0 and first is not None and token.text.upper() in _ENDS:
            if last is not None:
                yield first.start, last.end + 1
            if token.text.upper() in ("FROM", ";", "UNION", "WHERE"):
                return
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        first, last = first or token, token
    if first is not None and last is not None:
        yield first.start, last.end + 1
