"""What a statement may call: the functions on the list, and those that the process trusts.

A query is checked twice.  `check_calls` goes through its tree, wherever a query is defined or an
engine is asked.  `text_for_spark` reads the very text that Spark is sent, word by word as Spark
does, so that no difference between the parser here and Spark's lets anything through.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

import pyarrow as pa
from sqlglot import ErrorLevel, exp

from livingdb.engines.spark_functions import ALLOWED, REFUSED
from livingdb.engines.spark_text import spark_text
from livingdb.engines.spark_words import spark_words
from livingdb.errors import Unsupported, Untrusted

__all__ = ["UnknownFunction", "check_calls", "text_for_spark"]

_STRANGE = (exp.Command, exp.Parameter, exp.QueryTransform, exp.SessionParameter)
"""What sqlglot did not understand, or what stands for a program, a setting or a variable."""
_BARE = frozenset({"current_path", "current_user", "session_user", "user"})
"""Spark calls these functions without parentheses, too, where no column has the name."""
_HINTS = """
    broadcast broadcastjoin coalesce mapjoin merge mergejoin rebalance repartition
    repartition_by_range shuffle_hash shuffle_merge shuffle_replicate_nl
"""
_STRUCTURE = """
    all and any as between by case cube distinct else escape except exists filter for from group
    having if ilike in intersect interval join lateral like limit minus not offset on or outer over
    pivot qualify recursive regexp rlike rollup select sets some tablesample then union unpivot
    using values when where with char try_cast varchar
"""
"""Words of the grammar that an opening parenthesis may follow."""
_hints, _structure = frozenset(_HINTS.split()), frozenset(_STRUCTURE.split())


class UnknownFunction(Untrusted, Unsupported):
    """A function on neither list: Spark has none of the name, and if the session has, who knows."""

    code = "untrusted"


def check_calls(tree: exp.Expr, trust: Sequence[str] = ()) -> None:
    """`Untrusted` for a call of what is not on the list, unless a pattern trusts it.

    A function of a Spark session is trusted as `spark:name`.
    """
    for node in tree.walk():
        if isinstance(node, _STRANGE):
            raise Untrusted(_strange(_text(node)))
        if isinstance(node, exp.Hint):
            _check_hint(node)
        elif isinstance(node, exp.Anonymous):
            if not isinstance(node.parent, exp.Hint):
                _check_name(_whole_name(node), trust)
        elif isinstance(node, exp.Func) and not _is_listed(type(node)):
            for name in node.sql_names():
                if name.casefold() in REFUSED:
                    _check_name(name, trust)
            _check_text(_text(node), trust)


def text_for_spark(
    query: exp.Query,
    sources: Mapping[str, pa.Schema],
    trust: Sequence[str] = (),
    written: str | None = None,
) -> str:
    """The query's text, which reads the sources and nothing else, and calls what it may.

    It is the text that was `written`, if there is one, and else made from the tree.

    `${…}` in a text stays what it is, whatever the session is set to.
    """
    check_calls(query, trust)
    _check_tables(query, sources)
    _check_bare(query, sources)
    text = _text(query) if written is None else written
    _check_text(text, trust, _aliases_with_columns(query))
    for word in reversed(spark_words(text)):
        if word.kind in ("string", "quoted") and "${" in word.text:
            text = text[: word.start] + _plain(word.text) + text[word.end :]
    return text


def _text(node: exp.Expr) -> str:
    return spark_text(node, unsupported_level=ErrorLevel.IGNORE)


def _is_trusted(name: str, trust: Sequence[str]) -> bool:
    return any(fnmatchcase(f"spark:{name}", pattern) for pattern in trust)


def _check_name(name: str, trust: Sequence[str]) -> None:
    name = name.casefold()
    if name in ALLOWED or _is_trusted(name, trust):
        return
    reason = REFUSED.get(name.removeprefix("system.").removeprefix("builtin."))
    if reason is not None:
        raise Untrusted(
            f"the function {name!r} is refused: it {reason}; "
            f"livingdb.open(…, trust=['spark:{name}']) lets it run on Spark"
        )
    near = get_close_matches(name, ALLOWED, 1, 0.75)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise UnknownFunction(
        f"there is no function {name!r} that SQL may call here{hint}; one of a Spark "
        f"session runs where livingdb.open(…, trust=['spark:{name}']) says so"
    )


def _strange(text: str) -> str:
    shown = text if len(text) <= 60 else text[:57] + "…"
    return f"{shown!r} is refused: SQL here reads tables and calls functions, and nothing else"


_listed: dict[type[exp.Func], bool] = {}


def _is_listed(kind: type[exp.Func]) -> bool:
    """Whether a function that sqlglot knows is on the list by one of its names."""
    if kind not in _listed:
        _listed[kind] = any(name.casefold() in ALLOWED for name in kind.sql_names())
    return _listed[kind]


def _whole_name(call: exp.Anonymous) -> str:
    """The name of a function with what stands before it, as in `system.builtin.name`."""
    parts = [call.name]
    node: exp.Expr = call
    while isinstance(node.parent, exp.Dot) and node.arg_key == "expression":
        node = node.parent
        parts += reversed([part.name for part in node.this.find_all(exp.Identifier)])
    if isinstance(node.parent, exp.Table) and node.arg_key == "this":
        parts += [part for part in (node.parent.db, node.parent.catalog) if part]
    return ".".join(reversed(parts))


def _check_hint(hint: exp.Hint) -> None:
    for item in hint.expressions:
        name = item.this if isinstance(item.this, str) else item.key
        if name.casefold() not in _hints:
            raise Untrusted(_strange(f"/*+ {_text(item)} */"))


# --- what is named ------------------------------------------------------------------------------


def _check_tables(query: exp.Query, sources: Mapping[str, pa.Schema]) -> None:
    """`Untrusted` for tables that are neither sources nor defined by the query itself."""
    defined = {cte.alias.casefold() for cte in query.find_all(exp.CTE)}
    for table in query.find_all(exp.Table):
        is_function = isinstance(table.this, exp.Func) and not table.db
        if is_function or isinstance(table.parent, exp.JoinHint):
            continue
        is_ours = table.name in sources or table.name.casefold() in defined
        if table.db or not is_ours or not isinstance(table.this, exp.Identifier):
            raise Untrusted(_strange(f"FROM {_text(table)}"))


def _check_bare(query: exp.Query, sources: Mapping[str, pa.Schema]) -> None:
    """`Untrusted` for a name that Spark could take for a function called without parentheses."""
    for column in query.find_all(exp.Column):
        name = column.name.casefold()
        if name in _BARE and len(column.parts) == 1 and not _is_column(column, name, sources):
            raise Untrusted(
                f"{column.name!r} may be the function of that name, which is refused: it "
                f"{REFUSED[name]}; if it is a column, write the table's name before it"
            )


def _is_column(column: exp.Column, name: str, sources: Mapping[str, pa.Schema]) -> bool:
    """Whether a table of the query around a column, or of one around that, has it."""
    select = column.parent_select
    while select is not None:
        for table in _tables_of(select):
            schema = sources.get(table.name)
            if schema is None or table.alias_column_names:
                continue
            if any(known.casefold() == name for known in schema.names):
                return True
        select = select.parent_select
    return False


def _tables_of(select: exp.Expr) -> Iterator[exp.Table]:
    parts = [select.args.get("from_"), *(select.args.get("joins") or ())]
    yield from (part.this for part in parts if part and isinstance(part.this, exp.Table))


# --- the text -----------------------------------------------------------------------------------

_ESCAPED = re.compile(r"\\.|\$(?=\{)", re.DOTALL)


def _plain(token: str) -> str:
    """A string in which Spark finds no variable to put a value for."""
    if token.startswith("`"):  # a name has no other spelling
        return token
    return _ESCAPED.sub(lambda found: "\\u0024" if found[0] == "$" else found[0], token)


def _tokens(text: str) -> list[tuple[str, str]]:
    words = [word for word in spark_words(text) if word.kind != "comment"]
    for word in words:
        if word.kind == "other":
            raise Untrusted(_strange(text[word.start :]))
    return [(word.kind, word.text) for word in words]


def _aliases_with_columns(query: exp.Query) -> set[str]:
    """Names that the query gives together with names of columns: `VALUES (1) name(column)`."""
    return {
        alias.name.casefold()
        for alias in query.find_all(exp.TableAlias)
        if alias.args.get("columns")
    }


def _check_text(text: str, trust: Sequence[str], aliases: Collection[str] = ()) -> None:
    """`Untrusted` for a call in the text that is not allowed, and for programs.

    No call stands right after a closing parenthesis or a value: what does is one of the `aliases`.
    """
    tokens = _tokens(text)
    defined = _names_of_with(tokens)
    in_hint = False
    for at, (kind, token) in enumerate(tokens):
        after = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if kind == "hint":
            in_hint = token != "*/"
        elif kind == "word" and token.casefold() == "using" and after != "(":
            raise Untrusted(_strange(f"USING {after}"))
        if after != "(" or kind not in ("word", "quoted") or at in defined:
            continue
        before = tokens[at - 1][1] if at else ""
        is_word = kind == "word" and before != "."
        if before.casefold() == "as" or (is_word and token.casefold() in _structure):
            continue
        is_after_value = before == ")" or before[:1] in ("'", '"') or before.isdecimal()
        if is_after_value and _unquote(token).casefold() in aliases:
            continue
        if not (in_hint and token.casefold() in _hints):
            _check_name(_function_name_at(tokens, at), trust)


def _function_name_at(tokens: Sequence[tuple[str, str]], at: int) -> str:
    """The name of a function, of which the last part is at a place."""
    parts = [_unquote(tokens[at][1])]
    while at >= 2 and tokens[at - 1][1] == ".":
        at -= 2
        parts.append(_unquote(tokens[at][1]))
    return ".".join(reversed(parts))


def _unquote(token: str) -> str:
    if token[0] not in '`"':
        return token
    return token[1:-1].replace(token[0] * 2, token[0])


def _names_of_with(tokens: Sequence[tuple[str, str]]) -> set[int]:
    """Where WITH clauses name their queries: `WITH name(column, …) AS (…), …`."""
    closing = _closing_parentheses(tokens)
    found: set[int] = set()
    for at, (kind, token) in enumerate(tokens):
        if kind != "word" or token.casefold() != "with":
            continue
        name = at + 1
        if name < len(tokens) and tokens[name][1].casefold() == "recursive":
            name += 1
        while name + 1 < len(tokens):
            body = name + 1
            if tokens[body][1] == "(":
                body = closing.get(body, len(tokens)) + 1
            words = [token.casefold() for _, token in tokens[body : body + 3]]
            if words == ["max", "recursion", "level"]:
                body += 4
            if [token.casefold() for _, token in tokens[body : body + 2]] != ["as", "("]:
                break
            found.add(name)
            end = closing.get(body + 1, len(tokens)) + 1
            if end >= len(tokens) or tokens[end][1] != ",":
                break
            name = end + 1
    return found


def _closing_parentheses(tokens: Sequence[tuple[str, str]]) -> dict[int, int]:
    """Where each parenthesis that opens closes."""
    open_at: list[int] = []
    found = {}
    for at, (kind, token) in enumerate(tokens):
        if kind == "mark" and token == "(":
            open_at.append(at)
        elif kind == "mark" and token == ")" and open_at:
            found[open_at.pop()] = at
    return found
