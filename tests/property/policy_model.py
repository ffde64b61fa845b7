"""Values that do not fit, in plain Python: every policy with every kind of type pair."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from typing import Any

from hypothesis import strategies as st
from tests.property.row_lens_model import (
    INT,
    Carry,
    Case,
    Refusal,
    Row,
    clamping,
    days,
    decimals,
    doubles,
    ints,
    longs,
    midnight,
    moments,
    remembered,
    same,
    small,
    tenths,
    text_to_int,
    texts,
    texts_of,
)

from livingdb.evolution import AddColumn, RetypeColumn, SplitColumn

Function = Callable[[Any], Any]
"""Of values that are not null; `Refusal` for those that do not fit."""


def whole(value: float) -> int:
    if not math.isfinite(value) or not -INT <= math.trunc(value) <= INT - 1:
        raise Refusal
    return math.trunc(value)


def exact_whole(value: float) -> int:
    if value != whole(value):
        raise Refusal
    return whole(value)


def cut_tenths(value: Decimal) -> Decimal:
    made = value.quantize(Decimal("0.1"), ROUND_DOWN) + 0
    if abs(made) > Decimal("99.9"):
        raise Refusal
    return made


def exact_tenths(value: Decimal) -> Decimal:
    if cut_tenths(value) != value:
        raise Refusal
    return cut_tenths(value)


def exact_day(value: datetime.datetime) -> datetime.date:
    if value != midnight(value.date()):
        raise Refusal
    return value.date()


def at_most_three(value: str) -> str:
    if len(value) > 3:
        raise Refusal
    return value


@dataclass(frozen=True)
class TypePair:
    """Two types, values of both, and what crosses: exactly, and with something left out."""

    types: tuple[str, str]
    values: tuple[st.SearchStrategy[Any], st.SearchStrategy[Any]]
    exact: tuple[Function, Function]
    cut: tuple[Function, Function]
    clamp: tuple[Function, Function] | None = None


def identity(value: Any) -> Any:
    return value


long_texts = st.sampled_from([None, "", "abc", "abcd", "日本語学", "éé é"])
short_texts = st.sampled_from([None, "", "abc", "日本語", "é"])

PAIRS = {
    "long to int": TypePair(
        ("bigint", "int"),
        (longs, ints),
        (whole, identity),
        (whole, identity),
        (clamping(-INT, INT - 1), identity),
    ),
    "double to int": TypePair(
        ("double", "int"),
        (doubles, ints),
        (exact_whole, float),
        (whole, float),
        (clamping(-INT, INT - 1), float),
    ),
    "decimals": TypePair(
        ("decimal(5,2)", "decimal(3,1)"),
        (decimals, tenths),
        (exact_tenths, lambda v: v.quantize(Decimal("0.01"))),
        (cut_tenths, lambda v: v.quantize(Decimal("0.01"))),
    ),
    "timestamp to date": TypePair(
        ("timestamp_ntz", "date"),
        (moments, days),
        (exact_day, midnight),
        (lambda v: v.date(), midnight),
    ),
    "text to int": TypePair(
        ("string", "int"), (texts, ints), (text_to_int, str), (text_to_int, str)
    ),
    "int to text": TypePair(
        ("int", "string"), (ints, texts), (str, text_to_int), (str, text_to_int)
    ),
    "text to less": TypePair(
        ("string", "varchar(3)"),
        (long_texts, short_texts),
        (at_most_three, identity),
        (lambda v: v[:3], identity),
    ),
    "text to more": TypePair(
        ("varchar(3)", "varchar(4)"),
        (short_texts, long_texts),
        (identity, at_most_three),
        (identity, lambda v: v[:3]),
    ),
}


def of_column(function: Function) -> Callable[[Row], Any]:
    return lambda row: None if row["v"] is None else function(row["v"])


def or_none(function: Function) -> Function:
    """Null for what does not fit."""

    def call(value: Any) -> Any:
        try:
            return function(value)
        except Refusal:
            return None

    return call


def fits(function: Callable[[Row], Any], row: Row) -> bool:
    try:
        function(row)
    except Refusal:
        return False
    return True


def in_quarantine(there: Callable[[Row], Any], back: Callable[[Row], Any] | None) -> Carry:
    """The row is not there where its value does not fit; no other row may have its key."""

    def carry(before: Row | None, after: Row, other: Row | None) -> Row | None:
        if back is not None and before is None and other is not None and not fits(back, other):
            raise Refusal
        if other is not None and same(before, after, ["v"]):
            return {**after, "v": other["v"]}
        return {**after, "v": there(after)} if fits(there, after) else None

    return carry


def carries(pair: TypePair, policy: str) -> tuple[Carry, Carry] | None:
    """Both directions; None if the policy is not for these types."""
    there, back = pair.exact
    if policy == "quarantine":
        up, down = of_column(there), of_column(back)
        return in_quarantine(up, down), in_quarantine(down, up)
    if policy == "null":
        there, back = or_none(there), or_none(back)
    elif policy == "truncate":
        there, back = pair.cut
    elif policy == "clamp":
        if pair.clamp is None:
            return None
        there, back = pair.clamp
    return (
        remembered(["v"], {"v": of_column(there)}),
        remembered(["v"], {"v": of_column(back)}),
    )


def _retypes() -> list[Case]:
    found = []
    for name, pair in PAIRS.items():
        for policy in ("reject", "clamp", "null", "truncate", "quarantine"):
            made = carries(pair, policy)
            if made is None:
                continue
            case = Case(
                f"{name}, {policy}",
                RetypeColumn("t", "v", pair.types[1], policy),
                {"v": pair.types[0], "note": "string"},
                {"v": pair.values[0], "note": texts_of},
                {"v": pair.values[1], "note": texts_of},
                *made,
            )
            found.append(case)
    return found


# --- expressions -----------------------------------------------------------------------------

HALVES = "12 / a"


def half(row: Row) -> float | None:
    if row["a"] == 0:
        raise Refusal
    return None if row["a"] is None else 12 / row["a"]


def _added(policy: str) -> Carry:
    """12 / a as an int: a new row gets it, and a row that is there keeps what it has."""

    def carry(before: Row | None, after: Row, other: Row | None) -> Row | None:
        if other is not None:
            return {**after, "v": other["v"]}
        try:
            value = half(after)
            if value is not None and policy not in ("truncate", "clamp"):
                value = exact_whole(value)
            return {**after, "v": None if value is None else math.trunc(value)}
        except Refusal:
            if policy == "null":
                return {**after, "v": None}
            if policy == "quarantine":
                return None
            raise

    return carry


def _taken_back(policy: str) -> Carry:
    def carry(before: Row | None, after: Row, other: Row | None) -> Row | None:
        if policy == "quarantine" and before is None and other is not None:
            raise Refusal
        return {name: value for name, value in after.items() if name != "v"}

    return carry


def _expressions() -> list[Case]:
    numbers: Mapping[str, st.SearchStrategy[Any]] = {"a": small}
    return [
        Case(
            f"up, {policy}",
            AddColumn("t", "v", "int", up=HALVES, policy=policy),
            {"a": "int"},
            numbers,
            {"a": small, "v": ints},
            _added(policy),
            _taken_back(policy),
        )
        for policy in ("reject", "clamp", "null", "truncate", "quarantine")
    ]


def _computed() -> Case:
    """A computed column whose expression fails: the row is in quarantine."""

    def to_new(before: Row | None, after: Row, other: Row | None) -> Row | None:
        return {**after, "v": half(after)} if fits(half, after) else None

    def to_old(before: Row | None, after: Row, other: Row | None) -> Row | None:
        return _taken_back("quarantine")(before, after, other)

    return Case(
        "computed, quarantine",
        AddColumn("t", "v", "double", computed=HALVES, policy="quarantine"),
        {"a": "int"},
        {"a": small},
        {"a": st.sampled_from([None, 1, 5]), "v": st.just(None)},
        to_new,
        to_old,
        fill_new=lambda row, held: {**row, "v": half(row)},
    )


def _split() -> Case:
    """Text that is no number has no row on the other side."""

    def to_new(before: Row | None, after: Row, other: Row | None) -> Row | None:
        if other is not None and same(before, after, ["v"]):
            return {
                **{k: x for k, x in after.items() if k != "v"},
                "p": other["p"],
                "q": other["q"],
            }
        try:
            value = None if after["v"] is None else text_to_int(after["v"])
        except Refusal:
            return None
        return {**{k: x for k, x in after.items() if k != "v"}, "p": value, "q": after["v"]}

    def to_old(before: Row | None, after: Row, other: Row | None) -> Row | None:
        if before is None and other is not None:
            raise Refusal
        rest = {k: x for k, x in after.items() if k not in ("p", "q")}
        if other is not None and same(before, after, ["p"]):
            return {**rest, "v": other["v"]}
        return {**rest, "v": None if after["p"] is None else str(after["p"])}

    up = {"p": "CAST(v AS int)", "q": "v"}
    return Case(
        "split, quarantine",
        SplitColumn(
            "t", "v", {"p": "int", "q": "string"}, up, "CAST(p AS string)", policy="quarantine"
        ),
        {"v": "string", "note": "string"},
        {"v": texts, "note": texts_of},
        {"p": ints, "q": texts, "note": texts_of},
        to_new,
        to_old,
    )


POLICY_CASES = [*_retypes(), *_expressions(), _computed(), _split()]
