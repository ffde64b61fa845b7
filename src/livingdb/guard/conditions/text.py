"""Conditions as text: `changed_share <= 0.2 AND not_null(city) OR NOT freeze('22:00', '06:00')`.

conditions  one after the other, with AND between them
condition   metric <= number, metric BETWEEN number AND number, name(arguments),
            NOT condition, condition OR condition, (conditions)
arguments   columns, 'texts', numbers, 20%, true, false, null, ['lists', 'of', 'them'],
            other conditions and metrics, and name => argument

The parser is SQL's, with no keyword but these: every other word may name a column.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from livingdb.errors import InvalidData
from livingdb.guard.conditions.combination import AllOf, AnyOf, NotOne
from livingdb.guard.conditions.condition import Condition, NamedValue, make
from livingdb.guard.conditions.kinds.time import Age, Lag, period
from livingdb.guard.conditions.metric import Bound, Metric
from livingdb.guard.conditions.registry import constructor, constructors, named_class

__all__ = ["condition_tokens", "parse"]

_DEEPEST = 50
_MOST_DIGITS = 40
_COMPARISONS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.EQ: ("=", "="),
    exp.NEQ: ("!=", "!="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}
"""What compares, and what it is seen from the other side."""


class _Tokenizer(Tokenizer):
    """Words are names, but for these; double quotes are around names, backslashes are letters."""

    QUOTES = ["'"]  # noqa: RUF012
    IDENTIFIERS = ["`", '"']  # noqa: RUF012
    STRING_ESCAPES = ["'"]  # noqa: RUF012
    IDENTIFIER_ESCAPES = ["`", '"']  # noqa: RUF012
    COMMENTS = ["--", ("/*", "*/")]  # noqa: RUF012
    KEYWORDS = {  # noqa: RUF012
        "AND": TokenType.AND,
        "OR": TokenType.OR,
        "NOT": TokenType.NOT,
        "BETWEEN": TokenType.BETWEEN,
        "TRUE": TokenType.TRUE,
        "FALSE": TokenType.FALSE,
        "NULL": TokenType.NULL,
        "=>": TokenType.FARROW,
        "<=": TokenType.LTE,
        ">=": TokenType.GTE,
        "<>": TokenType.NEQ,
        "!=": TokenType.NEQ,
        "==": TokenType.EQ,
    }


class _Parser(Parser):
    """No function is known, so that each is read as a name with arguments."""

    FUNCTIONS = {}  # noqa: RUF012
    FUNCTION_PARSERS = {}  # noqa: RUF012
    NO_PAREN_FUNCTIONS = {}  # noqa: RUF012
    NO_PAREN_FUNCTION_PARSERS = {}  # noqa: RUF012
    QUERY_MODIFIER_PARSERS = {}  # noqa: RUF012
    STATEMENT_PARSERS = {}  # noqa: RUF012


class _Dialect(Dialect):
    Tokenizer = _Tokenizer
    Parser = _Parser


@dataclass(frozen=True)
class _Word:
    """A name on its own: a column, a metric or a condition, by where it stands."""

    text: str


def parse(text: str, action: str = "detach", severity: str | None = None) -> list[Condition]:
    """The conditions that a text names; `InvalidData` says what is wrong with it.

    Those between ANDs come one by one, each with the action and severity, unless it names others.
    """
    if not isinstance(text, str):
        raise InvalidData(f"conditions are text, not {type(text).__name__}")
    found = [_as_condition(_to_value(part)) for part in _operands(_parse_tree(text), exp.And)]
    return [_with_action(one, action, severity) for one in found]


def _with_action(one: Condition, action: str, severity: str | None) -> Condition:
    if one.action == "detach" and action != "detach":
        one = replace(one, action=action)
    if one.severity is None and severity is not None:
        one = replace(one, severity=severity)
    return one


def condition_tokens(text: str) -> list[Token]:
    """The words, numbers, texts and signs of a text; `InvalidData` if a quote is not closed."""
    try:
        return _Dialect().tokenize(text)
    except SqlglotError:
        raise InvalidData("conditions: a quote or a comment is not closed") from None


def _parse_tree(text: str) -> exp.Expr:
    tokens = _with_percentages(condition_tokens(text))
    if not tokens:
        raise InvalidData("conditions: the text is empty")
    _check_depth(tokens)
    try:
        trees = _Dialect().parser().parse(tokens, text)
    except ParseError as error:
        raise InvalidData(_problem(error)) from None
    except (SqlglotError, RecursionError):
        raise InvalidData(f"conditions: {text!r} cannot be read") from None
    if len(trees) != 1 or trees[0] is None:
        raise InvalidData("conditions: ';' means nothing here")
    return trees[0]


def _with_percentages(tokens: list[Token]) -> list[Token]:
    """The tokens with each number and the % after it as one number."""
    found: list[Token] = []
    for token in tokens:
        before = found[-1] if found else None
        if token.token_type != TokenType.MOD or before is None:
            found.append(token)
        elif before.token_type == TokenType.NUMBER:
            text = repr(_parse_number(before.text) / 100)
            place = (before.line, before.col, before.start, token.end)
            found[-1] = Token(TokenType.NUMBER, text, *place)
        else:
            raise InvalidData(f"conditions: '%' after {before.text!r} means nothing")
    return found


def _check_depth(tokens: list[Token]) -> None:
    """`InvalidData` if parentheses or NOTs are nested too deeply."""
    depth = run = 0
    for token in tokens:
        kind = token.token_type
        depth += kind in (TokenType.L_PAREN, TokenType.L_BRACKET)
        depth -= kind in (TokenType.R_PAREN, TokenType.R_BRACKET)
        run = run + 1 if kind == TokenType.NOT else 0
        if max(depth, run) > _DEEPEST:
            raise InvalidData(f"conditions: nested more than {_DEEPEST} times")


def _problem(error: ParseError) -> str:
    first = error.errors[0] if error.errors else {}
    word, column, what = (first.get(name) for name in ("highlight", "col", "description"))
    if not word or not column:
        return "conditions: the text ends too early"
    place = f"{word!r} (place {max(column - len(word) + 1, 1)})"
    if what and what.startswith("Expecting "):
        return f"conditions: {what.removeprefix('Expecting ')!r} is missing after {place}"
    if what and what.startswith("Required"):
        return f"conditions: something is missing after {place}"
    return f"conditions: {place} is not expected there"


# --- what nodes mean --------------------------------------------------------------------------


def _operands(node: exp.Expr, kind: type[exp.Binary]) -> list[exp.Expr]:
    """What an AND or an OR joins, from left to right."""
    found: list[exp.Expr] = []
    while isinstance(node, kind):
        found.append(node.right)
        node = node.left
    return [node, *reversed(found)]


def _to_value(node: exp.Expr) -> Any:
    """A condition, a metric, a name or a plain value."""
    if isinstance(node, exp.Paren):
        return _to_value(node.this)
    if isinstance(node, exp.And):
        return AllOf(tuple(_as_condition(_to_value(part)) for part in _operands(node, exp.And)))
    if isinstance(node, exp.Or):
        return AnyOf(tuple(_as_condition(_to_value(part)) for part in _operands(node, exp.Or)))
    if isinstance(node, exp.Not):
        return NotOne(_as_condition(_to_value(node.this)))
    if type(node) in _COMPARISONS:
        return _to_comparison(node)
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        metric = _as_metric(_to_value(node.this))
        low, high = (_as_bound(metric, _to_value(node.args[name])) for name in ("low", "high"))
        return Bound(metric, low, high)
    if isinstance(node, exp.Anonymous):
        return _call(node)
    if isinstance(node, (exp.Tuple, exp.Array)):
        return tuple(_as_argument(item) for item in node.expressions)
    return _to_plain_value(node)


def _to_plain_value(node: exp.Expr) -> Any:
    if isinstance(node, exp.Literal):
        return node.this if node.is_string else _parse_number(node.this)
    if isinstance(node, exp.Neg):
        value = _to_value(node.this)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return -value
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        return None
    names = list(_names(node))
    if names and all(isinstance(name, exp.Identifier) for name in names):
        return _Word(".".join(name.name for name in names))
    raise InvalidData(f"conditions: {node.sql()!r} means nothing here")


def _names(node: exp.Expr) -> Iterator[exp.Expr]:
    """The parts of a name with dots."""
    if isinstance(node, (exp.Column, exp.Dot)):
        for part in node.parts:
            yield from _names(part)
    else:
        yield node


def _to_comparison(node: exp.Expr) -> Condition:
    """A metric on either side of a sign."""
    left, right = _to_value(node.this), _to_value(node.expression)
    sign, mirrored = _COMPARISONS[type(node)]
    if not isinstance(left, (_Word, Metric)):
        left, right, sign = right, left, mirrored
    metric = _as_metric(left)
    value = _as_bound(metric, right)
    if sign in ("=", "!="):
        same = Bound(metric, value, value)
        return same if sign == "=" else NotOne(same)
    is_open = sign in ("<", ">")
    if sign in ("<", "<="):
        return Bound(metric, at_most=value, is_open=is_open)
    return Bound(metric, at_least=value, is_open=is_open)


def _as_condition(value: Any) -> Condition:
    if isinstance(value, _Word):
        value = _make(value.text, [], {})
    if isinstance(value, Metric):
        raise InvalidData(f"conditions: {value.text} is to be compared with a number")
    if not isinstance(value, Condition):
        raise InvalidData(f"conditions: {_render(value)} is no condition")
    return value


def _as_metric(value: Any) -> Metric:
    if isinstance(value, _Word):
        value = _make(value.text, [], {})
    if not isinstance(value, Metric):
        raise InvalidData(f"conditions: {_render(value)} is nothing that can be measured")
    return value


def _as_bound(metric: Metric, value: Any) -> Any:
    """The number that a metric is compared with."""
    if isinstance(value, str) and isinstance(metric, (Age, Lag)):
        return period(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise InvalidData(f"conditions: {metric.text} is compared with a number, not {_render(value)}")


def _parse_number(text: str) -> float | int:
    if text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise InvalidData(f"conditions: the number {text[:_MOST_DIGITS]} is too large")
    return value


def _call(node: exp.Anonymous) -> Any:
    given: list[Any] = []
    by_name: dict[str, Any] = {}
    for item in node.expressions:
        if isinstance(item, exp.Kwarg):
            name = item.this.name.lower()
            if name in by_name:
                raise InvalidData(f"conditions: {name} is said twice")
            by_name[name] = _as_argument(item.expression)
        elif by_name:
            raise InvalidData(
                f"conditions: {node.name}: an argument without a name comes before those with one"
            )
        else:
            given.append(_as_argument(item))
    return _make(node.name, given, by_name)


def _as_argument(node: exp.Expr) -> Any:
    value = _to_value(node)
    return value.text if isinstance(value, _Word) else value


def _make(name: str, given: list[Any], by_name: dict[str, Any]) -> Any:
    """What a name with arguments stands for."""
    maker = constructor(name.lower())
    cls = named_class(name.lower())
    if maker is None and cls is None:
        near = difflib.get_close_matches(name.lower(), constructors(), 1)
        hint = f"did you mean {near[0]!r}?" if near else "livingdb.condition lists them"
        raise InvalidData(f"conditions: there is no condition or metric {name!r}; {hint}")
    if maker is None:
        assert cls is not None
        return make(cls, given, by_name)
    try:
        return maker(*given, **by_name)
    except TypeError as error:
        reason = str(error).partition("()")[2].strip() or str(error)
        raise InvalidData(f"{name}: {reason}") from None


def _render(value: Any) -> str:
    if isinstance(value, _Word):
        return repr(value.text)
    return value.text if isinstance(value, NamedValue) else repr(value)
