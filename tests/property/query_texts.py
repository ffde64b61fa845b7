"""Queries of many shapes over tables with few names, so that names meet in every way they can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

__all__ = ["NAMES", "Shown", "queries"]

NAMES = ("a", "b", "c", "id", "x", "Größe", "v w", "t")
"""Columns, aliases, variables, fields and relations are all called from these."""

Columns = tuple[tuple[str, str], ...]
"""Names and kinds: "number", "struct" with a number in its fields `a` and `b`, or "array"."""


@dataclass(frozen=True)
class Shown:
    """Something in FROM: what it is called, and its columns."""

    called: str
    columns: Columns


def _quoted(name: str) -> str:
    return name if name.isascii() and " " not in name else f"`{name}`"


@st.composite
def _spelled(draw: st.DrawFn, name: str) -> str:
    """A name as somebody may write it."""
    way = draw(st.sampled_from(["plain", "plain", "quoted", "upper"]))
    if way == "quoted":
        return f"`{name}`"
    return _quoted(name.upper() if way == "upper" and name.isascii() else name)


@st.composite
def _reference(draw: st.DrawFn, shown: Sequence[Shown], kind: str) -> str:
    """A column of a kind by its name: with its relation's where it has to be, or just so."""
    found = [(r, n) for r in shown for n, k in r.columns if k == kind]
    if not found:
        return "1" if kind == "number" else ""
    relation, name = draw(st.sampled_from(found))
    others = [n for r in shown for n, _ in r.columns if n.casefold() == name.casefold()]
    spelled = draw(_spelled(name))
    if len(others) > 1 or draw(st.integers(0, 3)) == 0:
        return f"{_quoted(relation.called)}.{spelled}"
    return spelled


@st.composite
def _number(draw: st.DrawFn, shown: Sequence[Shown], depth: int = 2) -> str:
    ways = ["column", "column", "literal", "sum", "case", "field", "lambda", "comment", "text"]
    way = draw(st.sampled_from(ways if depth else ways[:3]))
    if way == "literal":
        return str(draw(st.integers(0, 3)))
    if way == "sum":
        one, other = draw(_number(shown, depth - 1)), draw(_number(shown, depth - 1))
        return f"{one} + {other}"
    if way == "case":
        parts = [draw(_number(shown, depth - 1)) for _ in range(3)]
        return "CASE WHEN {} > 1 THEN {} ELSE {} END".format(*parts)
    if way == "comment":
        return f"coalesce({draw(_number(shown, depth - 1))} /* a, b.id */, 0)"
    if way == "text":
        return f"length('a b ` {draw(st.sampled_from(NAMES))}')"
    struct, array = draw(_reference(shown, "struct")), draw(_reference(shown, "array"))
    if way == "field" and struct:
        return f"{struct}.{draw(st.sampled_from('ab'))}"
    if way == "lambda" and array:
        variable = _quoted(draw(st.sampled_from(NAMES)))
        added = draw(_reference(shown, "number"))
        if added.casefold() == variable.casefold():
            added = "1"
        return f"element_at(transform({array}, {variable} -> {variable} + {added}), 1)"
    return draw(_reference(shown, "number"))


@st.composite
def _condition(draw: st.DrawFn, shown: Sequence[Shown], tables: Sequence[Shown], depth: int) -> str:
    way = draw(
        st.sampled_from(["plain", "plain", "exists", "in", "scalar"] if depth else ["plain"])
    )
    left = draw(_number(shown, 1))
    if way == "plain":
        return f"{left} > {draw(_number(shown, 1))}"
    table = draw(st.sampled_from(tables))
    alias = draw(st.sampled_from([table.called, *NAMES]))
    inner = Shown(alias, table.columns)
    visible = [r for r in shown if r.called.casefold() != alias.casefold()]
    hidden = {n.casefold() for n, _ in inner.columns}
    outer = [Shown(r.called, tuple(c for c in r.columns if c[0].casefold() not in hidden))
             for r in visible]  # fmt: skip
    mine = draw(_reference([inner], "number"))
    theirs = draw(_reference(outer, "number"))
    source = f"{_quoted(table.called)} AS {_quoted(alias)}"
    if way == "exists":
        return f"EXISTS (SELECT 1 FROM {source} WHERE {mine} = {theirs})"
    if way == "in":
        return f"{left} IN (SELECT {mine} FROM {source})"
    return f"{left} >= (SELECT max({mine}) FROM {source})"


@st.composite
def _relation(
    draw: st.DrawFn, tables: Sequence[Shown], taken: Sequence[str], depth: int
) -> tuple[str, Shown] | None:
    """Something in FROM as text, and what it shows."""
    free = [name for name in NAMES if name.casefold() not in taken]
    if depth and draw(st.integers(0, 3)) == 0:
        text, columns = draw(_select(tables, depth - 1))
        alias = draw(st.sampled_from(free))
        if draw(st.integers(0, 3)) == 0:
            columns = tuple((f"k{at}", kind) for at, (_, kind) in enumerate(columns))
            names = ", ".join(name for name, _ in columns)
            return f"({text}) AS {_quoted(alias)}({names})", Shown(alias, columns)
        return f"({text}) AS {_quoted(alias)}", Shown(alias, columns)
    table = draw(st.sampled_from(tables))
    if table.called.casefold() not in taken and draw(st.booleans()):
        return draw(_spelled(table.called)), table
    alias = draw(st.sampled_from(free))
    return f"{_quoted(table.called)} {_quoted(alias)}", Shown(alias, table.columns)


@st.composite
def _from(draw: st.DrawFn, tables: Sequence[Shown], depth: int) -> tuple[str, list[Shown], bool]:
    """FROM, what it shows, and whether a star there is clear."""
    text, first = draw(_relation(tables, (), depth))
    shown = [first]
    if not draw(st.booleans()):
        return text, shown, True
    other, second = draw(_relation(tables, (first.called.casefold(),), depth))
    both = [*shown, second]
    common = {n for n, k in first.columns if k == "number"} & {
        n for n, k in second.columns if k == "number"
    }
    way = draw(st.sampled_from(["on", "on", "left", "cross", "using", "natural", "semi"]))
    if way == "using" and common:
        name = draw(st.sampled_from(sorted(common)))
        kept = tuple(c for c in second.columns if c[0] != name)
        side = draw(st.sampled_from(["", "LEFT "]))
        return (
            f"{text} {side}JOIN {other} USING ({_quoted(name)})",
            [first, Shown(second.called, kept)],
            False,
        )
    if way == "natural":
        shared = {n for n, _ in first.columns} & {n for n, _ in second.columns}
        kept = tuple(c for c in second.columns if c[0] not in shared)
        return f"{text} NATURAL JOIN {other}", [first, Shown(second.called, kept)], False
    if way == "cross":
        return f"{text}, {other}", both, True
    condition = f"{draw(_number(both, 1))} = {draw(_number(both, 1))}"
    if way == "semi":
        return f"{text} LEFT SEMI JOIN {other} ON {condition}", shown, True
    word = "LEFT JOIN" if way == "left" else "JOIN"
    return f"{text} {word} {other} ON {condition}", both, True


@st.composite
def _items(
    draw: st.DrawFn, shown: Sequence[Shown], has_star: bool, is_top: bool
) -> tuple[list[str], list[tuple[str, str]]]:
    texts: list[str] = []
    columns: list[tuple[str, str]] = []

    def take(text: str, name: str, kind: str = "number") -> None:
        if name.casefold() not in {n.casefold() for n, _ in columns}:
            texts.append(text)
            columns.append((name, kind))

    every = [c for r in shown for c in r.columns]
    is_clear = len({n.casefold() for n, _ in every}) == len(every)
    if has_star and is_clear and draw(st.integers(0, 2)) == 0:
        if draw(st.booleans()):
            return ["*"], every
        one = draw(st.sampled_from(shown))
        texts, columns = [f"{_quoted(one.called)}.*"], list(one.columns)
    for _ in range(draw(st.integers(1, 3))):
        way = draw(st.sampled_from(["alias", "alias", "bare", "implicit", "struct"]))
        name = draw(st.sampled_from(NAMES))
        if way == "bare":
            text = draw(_reference(shown, "number"))
            plain = text.rpartition(".")[2].strip("`")
            # Engines differ about its name further in, where it is not written as it is defined.
            as_is = is_top or plain in {n for n, _ in every}
            take(text if as_is else f"{text} AS {plain}", plain)
        elif way == "struct":
            one, other = draw(_reference(shown, "number")), draw(_number(shown, 1))
            take(f"struct({one} AS a, {other} AS b) {_quoted(name)}", name, "struct")
        elif way == "implicit" and is_top:  # engines call it differently further in
            text = f"{draw(_reference(shown, 'number'))} + 7"
            take(text, f"({text})")
        else:
            take(f"{draw(_number(shown))} AS {_quoted(name)}", name)
    return texts, columns


@st.composite
def _select(
    draw: st.DrawFn, tables: Sequence[Shown], depth: int, is_top: bool = False
) -> tuple[str, Columns]:
    """A SELECT, and its columns."""
    source, shown, has_star = draw(_from(tables, depth))
    where = ""
    if draw(st.booleans()):
        where = f" WHERE {draw(_condition(shown, tables, depth))}"
    if draw(st.integers(0, 2)) == 0:
        return draw(_grouped(shown, f"{source}{where}"))
    texts, columns = draw(_items(shown, has_star, is_top))
    if draw(st.integers(0, 4)) == 0:
        name = draw(st.sampled_from(NAMES))
        if name.casefold() not in {n.casefold() for n, _ in columns}:
            by, order = draw(_number(shown, 1)), draw(_number(shown, 1))
            window = f"sum({by}) OVER (PARTITION BY {by} ORDER BY {order})"
            texts, columns = [*texts, f"{window} AS {_quoted(name)}"], [*columns, (name, "number")]
    word = draw(st.sampled_from(["", "", "DISTINCT "]))
    if any(kind != "number" for _, kind in columns):
        word = ""
    return f"SELECT {word}{', '.join(texts)} FROM {source}{where}", tuple(columns)


@st.composite
def _grouped(draw: st.DrawFn, shown: Sequence[Shown], source: str) -> tuple[str, Columns]:
    key = draw(_reference(shown, "number"))
    counted = draw(_number(shown, 1))
    plain = key.rpartition(".")[2].strip("`")
    alias = draw(st.sampled_from(NAMES))
    total = draw(st.sampled_from([n for n in NAMES if n not in (alias, plain.lower(), plain)]))
    defined = {name for relation in shown for name, _ in relation.columns}
    is_named = plain not in defined or draw(st.booleans())
    item = f"{key} AS {_quoted(alias)}" if is_named else key
    group = draw(st.sampled_from([key if key != "1" else "1", "1"]))
    having = draw(st.sampled_from(["", f" HAVING count({counted}) > 0", f" HAVING max({key}) > 0"]))
    first = alias if is_named else plain
    text = f"SELECT {item}, sum({counted}) AS {_quoted(total)} FROM {source} GROUP BY {group}"
    return text + having, ((first, "number"), (total, "number"))


@st.composite
def queries(draw: st.DrawFn, tables: Sequence[Shown]) -> str:
    """A query over the tables."""
    known, prefix = list(tables), ""
    if draw(st.integers(0, 2)) == 0:
        text, columns = draw(_select(tables, 1))
        name = draw(st.sampled_from([*(table.called for table in tables), "q", "id"]))
        known = [table for table in known if table.called.casefold() != name.casefold()]
        known.append(Shown(name, columns))
        prefix = f"WITH {_quoted(name)} AS ({text}) "
    text, columns = draw(_select(known, 1, is_top=True))
    if draw(st.integers(0, 4)) == 0:
        other, others = draw(_select(known, 0))
        if len(others) == len(columns) and {k for _, k in (*others, *columns)} == {"number"}:
            text = f"{text} UNION ALL {other}"
    numbers = [name for name, kind in columns if kind == "number" and "+" not in name]
    if numbers and draw(st.booleans()):
        text += f" ORDER BY {_quoted(draw(st.sampled_from(numbers)))}"
    return prefix + text
