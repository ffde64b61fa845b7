"""What schema changes of one table do to single rows, in plain Python: models for the laws.

A `Case` is a change on a small table with, for each direction, a function from the row that was
written (as it was, or None; and as it is) and the row of the other side (or None) to what that
becomes: a row, None where there is none, or `Refusal`.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
from hypothesis import strategies as st

from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    ConcatColumns,
    DropColumn,
    DropConstraint,
    MaskColumn,
    RenameColumn,
    RetypeColumn,
    SchemaChange,
    SplitColumn,
)

Row = dict[str, Any]
Carry = Callable[[Row | None, Row, Row | None], Row | None]
Values = Mapping[str, st.SearchStrategy[Any]]

INT, LONG = 2**31, 2**63
NAN, INF = math.nan, math.inf


class Refusal(Exception):
    """The write is not possible."""


@dataclass(frozen=True, eq=False)
class Case:
    """A change of the table `t`, whose key is (`id`, `code`), and its model."""

    name: str
    change: SchemaChange
    schema: Mapping[str, str]
    old: Values
    """Values of the columns of the old side that are not in the key."""
    new: Values
    to_new: Carry
    to_old: Carry
    fill_new: Callable[[Row, Row | None], Row] = lambda row, held: row
    """What the new side does to a row that is written there: given the row, and as it was."""
    fill_old: Callable[[Row, Row | None], Row] = lambda row, held: row
    new_key: Mapping[str, str] = field(default_factory=dict)
    """Key columns that have another name on the new side."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    computed: Mapping[str, str] = field(default_factory=dict)
    checks: Sequence[tuple[str, str]] = ()


def shown(value: object) -> str:
    """A value so that NaN is NaN."""
    return repr(value + 0.0 if isinstance(value, float) else value)


def same(first: Row | None, second: Row | None, names: Sequence[str]) -> bool:
    """Whether two rows are there and agree on some columns."""
    if first is None or second is None:
        return False
    return all(shown(first[name]) == shown(second[name]) for name in names)


def remembered(reads: Sequence[str], makes: Mapping[str, Callable[[Row], Any]]) -> Carry:
    """Columns made of others when those changed; all else is the same."""

    def carry(before: Row | None, after: Row, other: Row | None) -> Row | None:
        keep = other is not None and same(before, after, reads)
        made = {name: other[name] if keep and other else f(after) for name, f in makes.items()}
        return {**after, **made}

    return carry


def kept(name: str, value: Callable[[Row], Any]) -> Carry:
    """A column that the writer does not see: it stays, and new rows get a value."""
    return lambda before, after, other: {
        **after,
        name: value(after) if other is None else other[name],
    }


def always(name: str, value: Callable[[Row], Any]) -> Carry:
    """A column that is always computed."""
    return lambda before, after, other: {**after, name: value(after)}


def plain(before: Row | None, after: Row, other: Row | None) -> Row:
    """Everything is the same; columns that the other side has not are left out there."""
    return dict(after)


# --- values -------------------------------------------------------------------------------------

ints = st.sampled_from([None, 0, 1, -1, 7, INT - 1, -INT])
small = st.sampled_from([None, 0, 1, -1, 7])
longs = st.sampled_from([None, 0, 1, -7, INT - 1, INT, -INT - 1, LONG - 1, -LONG])
doubles = st.sampled_from(
    [None, 0.0, -0.0, 1.5, -1.5, 2.5, 1e300, -1e300, 3e9, 0.1, NAN, INF, -INF, 5e-324]
)
texts = st.sampled_from([None, "", "a", "a b", "é ß c", " ", "x  y", "日本 語", "12", "-7", "1.5"])
days = st.sampled_from(
    [None, *(datetime.date(*d) for d in [(1, 1, 1), (1969, 12, 31), (2024, 2, 29), (9999, 12, 31)])]
)
moments = st.sampled_from(
    [
        None,
        datetime.datetime(1, 1, 1),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime.datetime(2024, 2, 29, 12),
    ]
)
decimals = st.sampled_from(
    [None, *(Decimal(d) for d in ["0.00", "1.25", "-1.25", "99.95", "999.99", "-0.05", "9.94"])]
)
tenths = st.sampled_from([None, *(Decimal(d) for d in ["0.0", "1.3", "-1.3", "99.9", "9.9"])])


def some(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values but null."""
    return values.filter(lambda value: value is not None)


# --- casts --------------------------------------------------------------------------------------


def or_null(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of values that leaves null alone."""
    return lambda value: None if value is None else f(value)


def fitting(low: int, high: int) -> Callable[[Any], Any]:
    """A whole number in a range, or a refusal."""

    def cast(value: Any) -> int:
        if isinstance(value, float) and not math.isfinite(value):
            raise Refusal
        whole = math.trunc(value)
        if not low <= whole <= high:
            raise Refusal
        return whole

    return or_null(cast)


def clamping(low: int, high: int) -> Callable[[Any], Any]:
    """The nearest whole number in a range; zero for NaN."""

    def cast(value: Any) -> int:
        if math.isnan(value):
            return 0
        return max(low, min(high, value if math.isinf(value) else math.trunc(value)))

    return or_null(lambda value: int(cast(value)))


def hiding(low: int, high: int) -> Callable[[Any], Any]:
    """A whole number in a range, or null."""
    return or_null(lambda value: value if low <= value <= high else None)


def narrow_float(value: float) -> float:
    with np.errstate(over="ignore"):
        made = float(np.float32(value))
    if math.isinf(made) and not math.isinf(value):
        raise Refusal
    return made


def clamped_float(value: float) -> float:
    try:
        return narrow_float(value)
    except Refusal:
        return math.copysign(float(np.finfo(np.float32).max), value)


def text_to_int(value: str) -> int:
    text = value.strip(" ")
    if not text.lstrip("-").isdecimal() or not text.isascii():
        raise Refusal
    return fitting(-INT, INT - 1)(int(text))  # type: ignore[no-any-return]


def to_tenths(value: Decimal) -> Decimal:
    made = value.quantize(Decimal("0.1"), ROUND_HALF_UP)
    if abs(made) > Decimal("99.9"):
        raise Refusal
    return made + 0


def retype(
    name: str,
    types: tuple[str, str],
    values: tuple[st.SearchStrategy[Any], st.SearchStrategy[Any]],
    up: Callable[[Any], Any],
    down: Callable[[Any], Any],
    policy: str | None = None,
    texts: Mapping[str, str] | None = None,
) -> Case:
    """The column `v` in another type."""
    old, new = types
    return Case(
        f"retype {name}",
        RetypeColumn("t", "v", new, policy, **(texts or {})),
        {"v": old, "note": "string"},
        {"v": values[0], "note": texts_of},
        {"v": values[1], "note": texts_of},
        remembered(["v"], {"v": lambda row: up(row["v"])}),
        remembered(["v"], {"v": lambda row: down(row["v"])}),
    )


texts_of = st.sampled_from([None, "n", "m"])
floats = st.sampled_from([None, 0.0, -0.0, 1.5, NAN, INF, float(np.float32(0.1))])


def midnight(day: datetime.date) -> datetime.datetime:
    return datetime.datetime(day.year, day.month, day.day)


RETYPES = [
    retype(
        "wider, reject", ("int", "bigint"), (ints, longs), lambda v: v, fitting(-INT, INT - 1),
        "reject",
    ),
    retype(
        "wider, null", ("int", "bigint"), (ints, longs), lambda v: v, hiding(-INT, INT - 1), "null"
    ),
    retype(
        "narrower, clamp", ("bigint", "int"), (longs, ints), clamping(-INT, INT - 1), lambda v: v,
        "clamp",
    ),
    retype(
        "narrower, reject", ("bigint", "int"), (longs, ints), fitting(-INT, INT - 1),
        lambda v: v, "reject",
    ),
    retype(
        "double to int", ("double", "int"), (doubles, ints), clamping(-INT, INT - 1),
        or_null(float), "clamp",
    ),
    retype(
        "double to float", ("double", "float"), (doubles, floats), or_null(clamped_float),
        lambda v: v, "clamp",
    ),
    retype(
        "int to text", ("int", "string"), (ints, texts), or_null(str), or_null(text_to_int),
        "reject",
    ),
    retype(
        "text to int", ("string", "int"), (texts, ints), or_null(text_to_int), or_null(str),
        "reject",
    ),
    retype(
        "decimal", ("decimal(5,2)", "decimal(3,1)"), (decimals, tenths), or_null(to_tenths),
        or_null(lambda v: v.quantize(Decimal("0.01"))),
    ),
    retype(
        "timestamp to date", ("timestamp_ntz", "date"), (moments, days),
        or_null(lambda v: v.date()), or_null(midnight),
    ),
    retype(
        "by expressions", ("int", "string"), (small, texts),
        lambda v: "none" if v is None else f"n{v}",
        lambda v: None if v is None else len(v),
        texts={"up": "coalesce(concat('n', CAST(v AS string)), 'none')", "down": "length(v)"},
    ),
]  # fmt: skip

# --- columns that come, go and change their names ----------------------------------------------

BASE = {"a": small, "x": doubles}
TYPES = {"a": "int", "x": "double"}


def without(name: str) -> Carry:
    return lambda before, after, other: {k: v for k, v in after.items() if k != name}


def renamed(names: Mapping[str, str]) -> Carry:
    return lambda before, after, other: {names.get(k, k): v for k, v in after.items()}


def half(row: Row) -> Any:
    return None if row["a"] is None else row["a"] * 2


COLUMNS = [
    Case(
        "add nullable", AddColumn("t", "v", "string"), TYPES, BASE, {**BASE, "v": texts},
        kept("v", lambda row: None), without("v"),
    ),
    Case(
        "add with default", AddColumn("t", "v", "double not null", default=1.5), TYPES, BASE,
        {**BASE, "v": some(doubles)}, kept("v", lambda row: 1.5), without("v"),
    ),
    Case(
        "add with up", AddColumn("t", "v", "bigint", nullable=False, up="coalesce(a, 0) * 2"),
        TYPES, BASE, {**BASE, "v": some(longs)}, kept("v", lambda row: half(row) or 0),
        without("v"),
    ),
    Case(
        "add computed", AddColumn("t", "v", "bigint", computed="a * 2"), TYPES, BASE,
        {**BASE, "v": st.just(None)}, always("v", half), without("v"),
        fill_new=lambda row, held: {**row, "v": half(row)},
    ),
    Case(
        "drop nullable", DropColumn("t", "a"), TYPES, BASE, {"x": doubles}, without("a"),
        kept("a", lambda row: None),
    ),
    Case(
        "drop with default", DropColumn("t", "a", default=7), {**TYPES, "a": "int not null"},
        {**BASE, "a": some(small)}, {"x": doubles}, without("a"), kept("a", lambda row: 7),
    ),
    Case(
        "drop with the column's default", DropColumn("t", "a"), {**TYPES, "a": "int not null"},
        {**BASE, "a": some(small)}, {"x": doubles}, without("a"), kept("a", lambda row: -1),
        defaults={"a": -1},
    ),
    Case(
        "drop with down", DropColumn("t", "a", down="CASE WHEN x IS NULL THEN 1 ELSE 2 END"),
        {**TYPES, "a": "int not null"}, {**BASE, "a": some(small)}, {"x": doubles}, without("a"),
        kept("a", lambda row: 1 if row["x"] is None else 2),
    ),
    Case(
        "drop computed", DropColumn("t", "v"), {**TYPES, "v": "bigint"},
        {**BASE, "v": st.just(None)}, BASE, without("v"), always("v", half),
        fill_old=lambda row, held: {**row, "v": half(row)}, computed={"v": "a * 2"},
    ),
    Case(
        "rename", RenameColumn("t", "a", "b c"), TYPES, BASE, {"b c": small, "x": doubles},
        renamed({"a": "b c"}), renamed({"b c": "a"}), checks=[("sound", "`a` > -2 OR x > 0")],
    ),
    Case(
        "rename key", RenameColumn("t", "code", "sign"), TYPES, BASE, BASE,
        renamed({"code": "sign"}), renamed({"sign": "code"}), new_key={"code": "sign"},
    ),
]  # fmt: skip

# --- split and concat ---------------------------------------------------------------------------


def part(at: int, last: bool, default: str | None = None) -> Callable[[str | None], str | None]:
    def cut(text: str | None) -> str | None:
        if text is None:
            return None
        pieces = text.split(" ", 1 if last else -1)
        return pieces[at] if at < len(pieces) else default

    return cut


def joined(*names: str) -> Callable[[Row], str | None]:
    def join(row: Row) -> str | None:
        parts = [row[name] for name in names if row[name] is not None]
        return " ".join(parts) if parts else None

    return join


def swapped(carry: Carry, gone: Sequence[str]) -> Carry:
    """Columns that the other side does not have are left out."""

    def swap(before: Row | None, after: Row, other: Row | None) -> Row | None:
        made = carry(before, after, other)
        return made and {k: v for k, v in made.items() if k not in gone}

    return swap


def split(
    name: str, change: SchemaChange, wide: bool, not_null: bool = False, default: str | None = None
) -> Case:
    """`v` in two parts `p` and `q`, or the other way about."""
    apart = swapped(
        remembered(
            ["v"],
            {
                "p": lambda row: part(0, True, default)(row["v"]),
                "q": lambda row: part(1, True, default)(row["v"]),
            },
        ),
        ["v"],
    )
    together = swapped(remembered(["p", "q"], {"v": joined("p", "q")}), ["p", "q"])
    mark = " not null" if not_null else ""
    text = some(texts) if not_null else texts
    one, two = {"v": text, "x": doubles}, {"p": text, "q": texts, "x": doubles}
    if wide:
        types = {"v": f"string{mark}", "x": "double"}
        return Case(name, change, types, one, two, apart, together)
    if default is not None:
        two["q"] = some(texts)
    types = {"p": f"string{mark}", "q": "string not null" if default == "" else "string"}
    return Case(name, change, {**types, "x": "double"}, two, one, together, apart)


UP = {"p": "upper(v)", "q": "CASE WHEN v IS NULL THEN NULL ELSE 'q' END"}
TEXTS = [
    split("split", SplitColumn("t", "v", ["p", "q"], separator=" "), True),
    split("split NOT NULL", SplitColumn("t", "v", ["p", "q"], separator=" "), True, True),
    split("concat", ConcatColumns("t", ["p", "q"], "v", separator=" "), False),
    split("concat NOT NULL", ConcatColumns("t", ["p", "q"], "v", separator=" "), False, True, ""),
    Case(
        "split by expressions", SplitColumn("t", "v", {"p": "bigint", "q": "string"},
        {"p": "length(v)", "q": "v"}, "concat(q, CAST(p AS string))"),
        {"v": "string", "x": "double"}, {"v": texts, "x": doubles},
        {"p": small, "q": texts, "x": doubles},
        swapped(remembered(["v"], {"p": lambda r: None if r["v"] is None else len(r["v"]),
                                   "q": lambda r: r["v"]}), ["v"]),
        swapped(remembered(["p", "q"], {"v": lambda r: None if None in (r["p"], r["q"])
                                        else f"{r['q']}{r['p']}"}), ["p", "q"]),
    ),
]  # fmt: skip

# --- constraints --------------------------------------------------------------------------------


def refused(is_bad: Callable[[Row], bool]) -> Carry:
    def carry(before: Row | None, after: Row, other: Row | None) -> Row:
        if is_bad(after):
            raise Refusal
        return dict(after)

    return carry


def hidden(is_bad: Callable[[Row], bool]) -> Carry:
    return lambda before, after, other: None if is_bad(after) else dict(after)


def unless_hidden(is_bad: Callable[[Row], bool], names: Sequence[str] = ()) -> Carry:
    """The same, but for repaired columns that were not written, and keys that are taken."""

    def carry(before: Row | None, after: Row, other: Row | None) -> Row:
        if before is None and other is not None and is_bad(other):
            raise Refusal
        keep = [name for name in names if other is not None and same(before, after, [name])]
        return {**after, **{name: other[name] for name in keep if other is not None}}

    return carry


def repaired(
    is_bad: Callable[[Row], bool], reads: Sequence[str], makes: Mapping[str, Callable[[Row], Any]]
) -> Carry:
    def carry(before: Row | None, after: Row, other: Row | None) -> Row | None:
        if other is not None and same(before, after, reads):
            return {**after, **{name: other[name] for name in makes}}
        made = {**after, **{n: f(after) for n, f in makes.items()}} if is_bad(after) else after
        return None if is_bad(made) else dict(made)

    return carry


def negative(row: Row) -> bool:
    return row["a"] is not None and row["a"] < 0


def unsorted(row: Row) -> bool:
    return None not in (row["a"], row["b"]) and row["a"] > row["b"]


def empty(row: Row) -> bool:
    return row["a"] is None


sound = {"a": st.sampled_from([None, 0, 1, 7]), "x": doubles}
full = {"a": some(small), "x": doubles}
pairs = {"a": small, "b": small}
CHECK = "a >= 0"
CONSTRAINTS = [
    Case(
        "check, reject", AddConstraint("t", "sound", CHECK), TYPES, BASE, sound,
        refused(negative), plain,
    ),
    Case(
        "check, quarantine", AddConstraint("t", check=CHECK, on_violation="quarantine"), TYPES,
        BASE, sound, hidden(negative), unless_hidden(negative),
    ),
    Case(
        "check, repair", AddConstraint("t", check=CHECK, on_violation="repair", repair="-a"),
        TYPES, BASE, sound, repaired(negative, ["a"], {"a": lambda row: -row["a"]}),
        unless_hidden(negative, ["a"]),
    ),
    Case(
        "check of two, repair",
        AddConstraint("t", check="a <= b", on_violation="repair", repair={"b": "a * abs(b)"}),
        {"a": "int", "b": "int"}, pairs, pairs,
        repaired(unsorted, ["a", "b"], {"b": lambda row: row["a"] * abs(row["b"])}),
        unless_hidden(unsorted, ["b"]),
    ),
    Case(
        "not null, reject", AddConstraint("t", not_null="a"), TYPES, BASE, full, refused(empty),
        plain,
    ),
    Case(
        "not null, quarantine", AddConstraint("t", not_null="a", on_violation="quarantine"),
        TYPES, BASE, full, hidden(empty), unless_hidden(empty),
    ),
    Case(
        "not null, repair",
        AddConstraint("t", not_null="a", on_violation="repair", repair="CAST(x AS int)"),
        TYPES, {**BASE, "x": st.sampled_from([None, 1.5, -2.0])}, full,
        repaired(empty, ["a", "x"],
                 {"a": lambda r: None if r["x"] is None else math.trunc(r["x"])}),
        unless_hidden(empty, ["a"]),
    ),
    Case(
        "drop check, reject", DropConstraint("t", "sound"), TYPES, sound, BASE, plain,
        refused(negative), checks=[("sound", CHECK)],
    ),
    Case(
        "drop check, quarantine", DropConstraint("t", "sound", on_violation="quarantine"), TYPES,
        sound, BASE, unless_hidden(negative), hidden(negative), checks=[("sound", CHECK)],
    ),
    Case(
        "drop not null, repair",
        DropConstraint("t", not_null="a", on_violation="repair", repair="0"),
        {**TYPES, "a": "int not null"}, full, BASE, unless_hidden(empty, ["a"]),
        repaired(empty, ["a"], {"a": lambda row: 0}),
    ),
]  # fmt: skip

# --- masks --------------------------------------------------------------------------------------


def shielded(default: object) -> Callable[[Row, Row | None], Row]:
    """The new side's column is not its writer's."""
    return lambda row, held: {**row, "v": default if held is None else held["v"]}


def mask(name: str, change: MaskColumn, f: Callable[[Row], Any], reads: Sequence[str]) -> Case:
    types = {"v": "string", "a": "int"}
    values = {"v": texts, "a": small}
    default = f({"v": None, "a": None}) if change.method == "constant" else None
    return Case(
        name, change, types, values, {"v": st.just(None), "a": small},
        remembered(reads, {"v": f}), kept("v", lambda row: None), fill_new=shielded(default),
    )  # fmt: skip


MASKS = [
    mask("mask, null", MaskColumn("t", "v", "null"), lambda row: None, []),
    mask("mask, constant", MaskColumn("t", "v", "constant", "***"), lambda row: "***", []),
    mask(
        "mask, expression",
        MaskColumn("t", "v", "expression", "concat(substring(v, 1, 1), '*')"),
        lambda row: None if row["v"] is None else f"{row['v'][:1]}*",
        ["v"],
    ),
]

CASES = [*COLUMNS, *RETYPES, *TEXTS, *CONSTRAINTS, *MASKS]
