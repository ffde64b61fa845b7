"""Calls of every signature of the whitelist, with every combination of kinds it takes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa
from sqlglot import exp
from tests.spark.portable_values import ROWS, arguments, groups

from livingdb.engines.portable.portability import PortableQuery, check_portability
from livingdb.engines.portable.signatures import (
    AGGREGATES,
    CASTS,
    FUNCTIONS,
    GROUPS,
    WINDOWED,
    Signature,
)
from livingdb.sql.parse import parse_statement

LITERALS: dict[str, Sequence[str | None]] = {
    "BASE": ["10", "2"],
    "BITS": ["256"],
    "COUNT": ["1", "3"],
    "DAY": ["DAY"],
    "DAYS": ["'YEAR'", "'quarter'", "'MM'", "'week'"],
    "DIGITS": ["0", "1", "2", "5"],
    "LETTERS": ["'a'", "'bx '"],
    "LIKED": ["''", "'a%'", "'%b%'", "'_b_'", r"'a\\_b%'", r"'%\\\\b'", "'%😀_'"],
    "PART": ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY"],
    "PATTERN": ["'^a'", "'[a-c]+'", "'a|x'", "'[^a-z]'", r"'\\d+'", "'b?c'"],
    "SIZE": ["0", "1", "5"],
    "UNIT": ["'YEAR'", "'quarter'", "'MONTH'", "'week'", "'DAY'", "'hour'", "'minute'", "'second'"],
    "WORD": ["''", "'-'"],
}
_MIXED = {
    ("int", "bigint"), ("tinyint", "int"), ("smallint", "bigint"), ("int", "decimal"),
    ("bigint", "decimal"), ("int", "double"), ("bigint", "double"), ("decimal", "double"),
    ("float", "double"), ("date", "timestamp"), ("date", "timestamp_ntz"),
    ("timestamp", "timestamp_ntz"),
}  # fmt: skip
"""Kinds that meet another; each kind meets itself."""
_TYPES = {"decimal": ("decimal(5,1)", "decimal(10,2)", "decimal(38,18)")}


@dataclass(frozen=True)
class Case:
    """An expression over a table; `key` tells rows apart, `tail` is what follows FROM."""

    text: str
    table: str
    key: str
    tail: str = ""
    columns: tuple[str, ...] = ()
    """The columns of arguments it uses."""

    @property
    def query(self) -> str:
        """The expression over all rows."""
        return f"SELECT {self.key}, {self.text} AS v FROM {self.table} {self.tail}".strip()

    @property
    def shared(self) -> tuple[str, str, str]:
        """What the cases have in common that can be asked for in one query."""
        return self.table, self.key, self.tail

    @property
    def form(self) -> str:
        """The expression without the columns it is about."""
        return re.sub(r"\b(\w+_[abc]|c_\w+)\b", "…", self.text)

    def __str__(self) -> str:
        return f"{self.text} {self.tail}".strip()


def _called(template: str, kinds: Sequence[str], written: Sequence[str | None]) -> Case:
    """A case for a call; where `written` has None, there is a column of the next kind."""
    names = [f"{'_'.join(kinds)}_{letter}" for letter in "abc"[: len(kinds)]]
    columns = iter(names)
    texts = [next(columns) if text is None else text for text in written]
    return Case(template.format(*texts), "arguments", "n", columns=tuple(names))


@cache
def tables() -> dict[str, pa.Table]:
    """The tables of all cases."""
    columns = {"n": pa.array(range(ROWS), pa.int32())}
    for kinds in sorted(_KINDS_USED):
        for letter, values in zip("abc", arguments(kinds), strict=False):
            columns[f"{'_'.join(kinds)}_{letter}"] = values
    return {"arguments": pa.table(columns), "in_groups": groups()}


_KINDS_USED: set[tuple[str, ...]] = set()


def calls() -> list[Case]:
    """A case for every signature, combination of kinds and literal."""
    return list(dict.fromkeys(case for line in FUNCTIONS for case in _calls(line)))


def portable_only(cases: Sequence[Case]) -> list[Case]:
    """Without combinations that are refused, as decimals are that would need too many digits."""
    return [case for case in cases if _is_portable(case)]


def _is_portable(case: Case) -> bool:
    text = case.query
    query = parse_statement(text)
    assert isinstance(query, exp.Query)
    schema = pa.schema([field for field in tables()[case.table].schema if field.name in text])
    return isinstance(check_portability(query, {case.table: schema}), PortableQuery)


def _calls(line: Signature) -> Iterator[Case]:
    places = [int(place) for place in re.findall(r"{(\d)}", line.text)]
    count = max([*(place + 1 for place in places), line.text.count("{}"), len(line.kinds)])
    kinds = [kind.rstrip("*") for kind in line.kinds]
    kinds += [kinds[-1]] * (count - len(kinds))
    may_meet = len(set(kinds)) == 1
    for chosen in itertools.product(*map(_kinds, kinds)):
        if may_meet and not _meet(chosen, line.text):
            continue
        columns = tuple(kind for kind in chosen if kind not in LITERALS)
        if "date_from_unix_date" in line.text:
            columns = ("days",)
        _KINDS_USED.add(columns)
        texts = [LITERALS.get(kind, [None]) for kind in chosen]
        for written in itertools.product(*texts):
            yield _called(line.text, columns, written)


def _kinds(kind: str) -> Sequence[str]:
    found = GROUPS.get(kind, (kind,))
    return [name for name in found if name != "null"]


def _meet(kinds: tuple[str, ...], text: str) -> bool:
    """Whether values of the kinds are tried together; for most comparisons, only of one kind."""
    is_alike = "IS DISTINCT" in text or any(f" {sign} " in text for sign in ("<>", "<=", ">", ">="))
    mixed = set() if is_alike else _MIXED
    return len(set(kinds)) == 1 or kinds in mixed or kinds[::-1] in mixed


def casts() -> list[Case]:
    """A case for every cast, and for every attempt to cast text."""
    found = []
    for source, targets in CASTS.items():
        kinds = ("texts",) if source == "string" else (source,)
        _KINDS_USED.add(kinds)
        for target in targets:
            for name in _TYPES.get(target, (target,)):
                found.append(_called(f"CAST({{}} AS {name})", kinds, [None]))
                if source == "string":
                    found.append(_called(f"TRY_CAST({{}} AS {name})", kinds, [None]))
    return found


_FRAMES = (
    "PARTITION BY g ORDER BY o",
    "PARTITION BY g ORDER BY o ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "ORDER BY g, o DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
)


def aggregates() -> list[Case]:
    """Every aggregate of every kind: by group, of nothing, with FILTER, DISTINCT and OVER."""
    found = []
    for line in AGGREGATES:
        for kind in [*_kinds(line.kinds[0].rstrip("*")), "odd"]:
            call = line.text.format(f"c_{kind}")
            found += [
                Case(call, "in_groups", "g", "GROUP BY g"),
                Case(call, "in_groups", "count(*) AS n", "WHERE o < 0"),
                Case(f"{call} FILTER (WHERE o % 2 = 0)", "in_groups", "g", "GROUP BY g"),
                Case(f"{call} OVER ({_FRAMES[0]})", "in_groups", "o"),
                Case(f"{call} OVER ({_FRAMES[1]})", "in_groups", "o"),
            ]
            if call.split("(")[0] in ("count", "sum", "avg"):
                distinct = call.replace("(", "(DISTINCT ")
                found.append(Case(distinct, "in_groups", "g, max(o) AS n", "GROUP BY g"))
    return list(dict.fromkeys(found))


def windows() -> list[Case]:
    """Every function that needs a window, over frames and kinds."""
    found = []
    for line in WINDOWED:
        kinds = [kind.rstrip("*") for kind in line.kinds]
        columns = _kinds(kinds[0]) if kinds and kinds[0] == "any" else [""]
        for kind, frame in itertools.product(columns, _FRAMES):
            is_framed = "ROWS" not in frame or "_value" in line.text or "st(" in line.text
            if not is_framed or (
                kind not in ("int", "string", "array", "") and frame != _FRAMES[0]
            ):
                continue
            written = [f"c_{kind}", "2"] if kind else ["3"]
            call = line.text.format(*written)
            found.append(Case(f"{call} OVER ({frame})", "in_groups", "o"))
    return list(dict.fromkeys(found))
