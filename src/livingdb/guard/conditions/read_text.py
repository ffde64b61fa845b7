"""Reading conditions: `changed_share <= 0.2 AND not_null(city) OR NOT freeze('22:00', '06:00')`.

conditions  one after the other, with AND between them
condition   metric <= number, metric BETWEEN number AND number, name(arguments),
            NOT condition, condition OR condition, (conditions)
arguments   columns, 'texts', numbers, true, false, null, ['lists', 'of', 'them'],
            other conditions and metrics, and name => argument
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from livingdb.errors import InvalidData
from livingdb.guard.conditions.combination import AllOf, AnyOf, NotOne
from livingdb.guard.conditions.condition import Condition, Named, make, named
from livingdb.guard.conditions.kinds.time import Age, Lag, period
from livingdb.guard.conditions.metric import Bound, Metric
from livingdb.guard.conditions.registry import modules
from livingdb.guard.conditions.tokens import Token, tokens

__all__ = ["Reader"]

_DEEPEST = 50
_SIGNS = {"<=": ">=", "<": ">", ">=": "<=", ">": "<", "=": "=", "==": "=", "!=": "!=", "<>": "!="}
"""What compares, and what it is seen from the other side."""
_VALUES = {"TRUE": True, "FALSE": False, "NULL": None}


@dataclass(frozen=True)
class _Word:
    """A name on its own: a column, a metric or a condition, by where it stands."""

    text: str


@cache
def constructors() -> Mapping[str, Callable[..., Any]]:
    """The functions that make conditions, by their names."""
    found: dict[str, Callable[..., Any]] = {}
    for loaded in modules():
        for name in loaded.__all__:
            value = getattr(loaded, name)
            if name == name.lower() and not isinstance(value, type) and name not in _NOT_MADE:
                found[name] = value
    return found


_NOT_MADE = ("differences", "metric_of", "period")


class Reader:
    """Reads one text, from left to right."""

    def __init__(self, text: str):
        self._tokens = list(tokens(text))
        self._at = 0
        self._depth = 0

    # --- words -------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        found = self._next
        self._at += found.kind != "end"
        return found

    def _word(self, *words: str) -> bool:
        if self._next.is_word(*words):
            self._at += 1
            return True
        return False

    def _sign(self, *signs: str) -> str:
        return self._take().text if self._next.is_sign(*signs) else ""

    def _need(self, sign: str) -> None:
        if not self._sign(sign):
            raise self._error(f"{sign!r} is missing")

    def _error(self, what: str) -> InvalidData:
        token = self._next
        near = "at the end" if token.kind == "end" else f"before {token.text!r}"
        return InvalidData(f"conditions: {what} {near} (place {token.start + 1})")

    # --- conditions --------------------------------------------------------------------------

    def conditions(self) -> list[Condition]:
        """All there are, up to the end."""
        if self._next.kind == "end":
            raise InvalidData("conditions: the text is empty")
        parts = self._either(split=True)
        if self._next.kind != "end":
            raise self._error("AND or OR is missing")
        return [self._condition(part) for part in parts]

    def _either(self, split: bool = False) -> list[Any]:
        """What stands between ORs: one value, or with `split` what ANDs join at the top."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InvalidData(f"conditions: nested more than {_DEEPEST} times")
        found = [self._all()]
        while self._word("OR"):
            found.append(self._all())
        self._depth -= 1
        if len(found) == 1:
            parts = found[0]
            return parts if split or len(parts) == 1 else [self._joined(AllOf, parts)]
        each = [p[0] if len(p) == 1 else self._joined(AllOf, p) for p in found]
        return [self._joined(AnyOf, each)]

    def _joined(self, cls: type[AllOf | AnyOf], parts: list[Any]) -> Condition:
        return cls(tuple(self._condition(part) for part in parts))

    def _all(self) -> list[Any]:
        found = [self._denied()]
        while self._word("AND"):
            found.append(self._denied())
        return found

    def _denied(self) -> Any:
        count = 0
        while self._word("NOT"):
            count += 1
        if count > _DEEPEST:
            raise InvalidData(f"conditions: nested more than {_DEEPEST} times")
        found = self._compared()
        for _ in range(count):
            found = NotOne(self._condition(found))
        return found

    def _compared(self) -> Any:
        left = self._value()
        sign = self._sign(*_SIGNS)
        if sign:
            return self._comparison(left, _SIGNS[sign], self._value())
        if self._word("BETWEEN"):
            metric = self._metric(left)
            low = self._number(metric, self._value())
            if not self._word("AND"):
                raise self._error("AND is missing")
            return Bound(metric, low, self._number(metric, self._value()))
        return left

    def _comparison(self, left: Any, flipped: str, right: Any) -> Condition:
        """A metric on either side of a sign; `flipped` is the sign as seen from the right."""
        sign = _SIGNS[flipped]
        if not self._is_metric(left):
            left, right, sign = right, left, flipped
        metric = self._metric(left)
        value = self._number(metric, right)
        if sign in ("=", "!="):
            same = Bound(metric, value, value)
            return same if sign == "=" else NotOne(same)
        is_open = sign in ("<", ">")
        if sign in ("<", "<="):
            return Bound(metric, at_most=value, is_open=is_open)
        return Bound(metric, at_least=value, is_open=is_open)

    # --- what values mean --------------------------------------------------------------------

    def _condition(self, value: Any) -> Condition:
        if isinstance(value, _Word):
            value = _called(value.text, [], {})
        if isinstance(value, Metric):
            raise self._error(f"{value.text} is to be compared with a number")
        if not isinstance(value, Condition):
            raise self._error(f"{_shown(value)} is no condition")
        return value

    def _is_metric(self, value: Any) -> bool:
        return isinstance(value, (_Word, Metric))

    def _metric(self, value: Any) -> Metric:
        if isinstance(value, _Word):
            value = _called(value.text, [], {})
        if not isinstance(value, Metric):
            raise self._error(f"{_shown(value)} is nothing that can be measured")
        return value

    def _number(self, metric: Metric, value: Any) -> Any:
        if isinstance(value, str) and isinstance(metric, (Age, Lag)):
            return period(value)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
        raise self._error(f"{metric.text} is compared with a number, not {_shown(value)}")

    # --- values ------------------------------------------------------------------------------

    def _value(self) -> Any:
        token = self._take()
        if token.is_sign("-", "+"):
            number = self._take()
            if number.kind != "number":
                raise self._error("a number is missing")
            return self._percent(-_number(number) if token.text == "-" else _number(number))
        if token.kind == "number":
            return self._percent(_number(token))
        if token.kind == "text":
            return token.text
        if token.is_sign("[", "("):
            return self._list("]" if token.text == "[" else ")")
        if token.kind == "name" or (token.kind == "word" and not _is_reserved(token)):
            return self._named(token)
        self._at -= token.kind != "end"
        raise self._error("something is missing")

    def _percent(self, number: float) -> float:
        return number / 100 if self._sign("%") else number

    def _list(self, closing: str) -> Any:
        """A list; in parentheses, of one thing, that thing."""
        found: list[Any] = []
        while not self._next.is_sign(closing):
            found += self._either()
            if not self._sign(","):
                break
        self._need(closing)
        if closing == ")" and len(found) == 1:
            return found[0]
        return tuple(_argument(one) for one in found)

    def _named(self, token: Token) -> Any:
        if token.kind == "word" and token.text.upper() in _VALUES:
            return _VALUES[token.text.upper()]
        name = token.text
        while self._sign("."):
            part = self._take()
            if part.kind not in ("word", "name"):
                raise self._error("a name is missing")
            name += f".{part.text}"
        if not self._sign("("):
            return _Word(name)
        given: list[Any] = []
        by_name: dict[str, Any] = {}
        while not self._next.is_sign(")"):
            self._one_argument(given, by_name)
            if not self._sign(","):
                break
        self._need(")")
        return _called(name, given, by_name)

    def _one_argument(self, given: list[Any], by_name: dict[str, Any]) -> None:
        following = next(islice(self._tokens, self._at + 1, None), None)
        if self._next.kind == "word" and following is not None and following.is_sign("=>"):
            name = self._take().text.lower()
            self._take()
            if name in by_name:
                raise self._error(f"{name} is said twice")
            by_name[name] = _argument(self._either()[0])
        elif by_name:
            raise self._error("an argument without a name comes before those with one")
        else:
            given.append(_argument(self._either()[0]))


def _is_reserved(token: Token) -> bool:
    return token.is_word("AND", "OR", "NOT", "BETWEEN")


def _number(token: Token) -> float | int:
    is_whole = token.text.isdigit()
    if is_whole and len(token.text) <= 40:
        return int(token.text)
    value = float(token.text)
    if value in (float("inf"), float("-inf")):
        raise InvalidData(f"conditions: the number {token.text[:40]} is too large")
    return value


def _argument(value: Any) -> Any:
    return value.text if isinstance(value, _Word) else value


def _shown(value: Any) -> str:
    if isinstance(value, _Word):
        return repr(value.text)
    return value.text if isinstance(value, Named) else repr(value)


def _called(name: str, given: list[Any], by_name: dict[str, Any]) -> Any:
    """What a name with arguments stands for."""
    maker = constructors().get(name.lower())
    cls = named(name.lower())
    if maker is None and cls is None:
        raise InvalidData(
            f"conditions: there is no condition or metric {name!r}; livingdb.condition lists them"
        )
    if maker is None:
        assert cls is not None
        return make(cls, given, by_name)
    try:
        return maker(*given, **by_name)
    except TypeError as error:
        reason = str(error).partition("()")[2].strip() or str(error)
        raise InvalidData(f"{name}: {reason}") from None
