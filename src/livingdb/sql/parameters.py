"""Parameters: values bound to a statement, never pasted into it."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sqlglot import exp

from livingdb.errors import InvalidData

__all__ = ["Parameters", "bind_parameters", "constant", "parameter_names", "parameter_values"]

Parameters: TypeAlias = Mapping[str, Any] | Sequence[Any] | None

_MOST_DIGITS = 38
_LEAST_TOO_LONG = 10**_MOST_DIGITS
_KNOWN = (
    bool,
    int,
    float,
    decimal.Decimal,
    str,
    bytes,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    uuid.UUID,
    tuple,
    dict,
)


def bind_parameters(tree: exp.Expr, given: Parameters) -> dict[str, object]:
    """The values by the names the tree uses from now on; `InvalidData` if any is missing.

    Placeholders are renamed in place, so that users may call theirs what they like.
    """
    values = parameter_values(given)
    names: dict[str, str] = {}
    for node in list(tree.find_all(exp.Placeholder, exp.Parameter)):
        name = _name(node)
        if name not in values:
            shown = f"parameter {name}" if name.isdecimal() else f"parameter :{name}"
            raise InvalidData(f"the statement has a {shown}, but no value was given for it")
        renamed = names.setdefault(name, f"p{len(names)}")
        node.replace(exp.Placeholder(this=renamed))
    positional = given is not None and not isinstance(given, Mapping)
    if positional and len(values) > len(names):
        raise InvalidData(
            f"{len(values)} values were given for the {len(names)} parameters of the statement"
        )
    return {renamed: values[name] for name, renamed in names.items()}


def parameter_names(tree: exp.Expr) -> list[str]:
    """The names of a statement's parameters, each once: `?` by its number, in their order."""
    found = list(dict.fromkeys(map(_name, tree.find_all(exp.Placeholder, exp.Parameter))))
    return sorted(found, key=int) if all(name.isdecimal() for name in found) else found


def _python_value(value: Any) -> object:
    """What a value stands for: scalars of NumPy and Arrow are Python's, times without a zone UTC.

    To PySpark a time without a zone is a moment, too, in the zone of its process; here every
    process means the same by it.
    """
    if hasattr(value, "as_py"):
        return _python_value(value.as_py())
    if hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0:
        return _python_value(value.item())
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)
    if isinstance(value, list):
        return [_python_value(item) for item in value]
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, (int, decimal.Decimal)):
        _check_digits(value)
    if value is None or isinstance(value, _KNOWN) or hasattr(value, "dtype"):
        return value
    raise InvalidData(
        f"a parameter is of a type SQL does not have, {type(value).__name__}; give numbers, text, "
        "dates, lists or dicts"
    )


def _check_digits(value: int | decimal.Decimal) -> None:
    """`InvalidData` for a number that no type has digits for: as a double it is another one."""
    if isinstance(value, int):
        fits = abs(value) < _LEAST_TOO_LONG
    elif not value.is_finite() or not value:
        return
    else:
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        fits = max(len(digits), len(digits) + exponent, -exponent) <= _MOST_DIGITS
    if not fits:
        raise InvalidData(f"a parameter has more digits than decimals, which have {_MOST_DIGITS}")


def parameter_values(given: Parameters) -> dict[str, object]:
    """The values that were given, by name, or by number from 1."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return {str(name): _python_value(value) for name, value in given.items()}
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise InvalidData(
            "parameters are a dict for :name or a list for ?, not " + type(given).__name__
        )
    return {str(number): _python_value(value) for number, value in enumerate(given, 1)}


def _name(node: exp.Expr) -> str:
    inner = node.this
    return str(inner.name if isinstance(inner, exp.Expr) else inner)


def constant(node: exp.Expr | None, parameters: Mapping[str, object]) -> object:
    """The value a tree stands for; None if it is none that is known before the query runs."""
    if isinstance(node, exp.Paren):
        return constant(node.this, parameters)
    if isinstance(node, exp.Placeholder):
        return parameters.get(_name(node))
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(str(node.this))
    if isinstance(node, exp.Neg):
        value = constant(node.this, parameters)
        is_number = isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool)
        return -value if is_number else None  # type: ignore[operator]
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        return _cast(constant(node.this, parameters), node.to)
    return None


def _number(text: str) -> object:
    try:
        if "e" in text.lower():
            return float(text)
        return int(text) if text.isdecimal() else decimal.Decimal(text)
    except (ValueError, decimal.InvalidOperation):
        return None


def _cast(value: object, target: exp.DataType) -> object:
    """Typed literals: DATE '…', TIMESTAMP '…', and whole numbers as integers."""
    kinds = exp.DataType.Type
    try:
        if isinstance(value, str) and target.this == kinds.DATE:
            return datetime.date.fromisoformat(value)
        zoned = (kinds.TIMESTAMPTZ, kinds.TIMESTAMPLTZ, kinds.TIMESTAMP)
        if isinstance(value, str) and target.this in zoned:
            moment = datetime.datetime.fromisoformat(value)
            return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    except ValueError:
        return None
    whole = (kinds.INT, kinds.BIGINT)
    if isinstance(value, int) and not isinstance(value, bool) and target.this in whole:
        return value
    return None
