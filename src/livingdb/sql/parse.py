"""Text to a tree: Spark's dialect as Spark 4 reads it, one statement, kind errors."""

from __future__ import annotations

import re
from functools import lru_cache

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from livingdb.engines.portable.grouping_sets import MOST_SETS, count_sets
from livingdb.errors import InvalidData, Unsupported
from livingdb.sql.join_count import count_joins
from livingdb.sql.spark_grammar import WRITTEN_NAME, SparkGrammar, read_strings

__all__ = [
    "POSSIBLE",
    "is_definition",
    "parse_condition",
    "parse_expression",
    "parse_statement",
    "tokenize",
]

POSSIBLE = (
    "SQL here is SELECT, INSERT, UPDATE, DELETE, MERGE, CREATE, ALTER, DROP TABLE, "
    "CREATE, DROP VIEW, INDEX, BRANCH and TAG, MERGE BRANCH, REFRESH VIEW, ALTER SYNC, "
    "SHOW, DESCRIBE and EXPLAIN"
)

_BEGINNINGS = (
    *("SELECT", "WITH", "FROM", "VALUES", "(", "INSERT", "UPDATE", "DELETE", "MERGE"),
    *("ALTER", "CREATE", "DROP"),
)
_MAY_DEFINE = re.compile(r"\b(?:alter|create|drop)\b", re.IGNORECASE)
"""Most texts are queries, and need not be read for their first word."""
_NOT_CLOSED = "the statement cannot be read: a quote or a comment is not closed"
_ELSEWHERE = {
    "COMMENT": "tables and columns hold no comments",
    "TRUNCATE": "DELETE without WHERE empties a table",
    "USE": "each branch has its own sql method, and branch.table names a table of another",
}
_REMEMBERED_LENGTH = 4096
_MOST_DIGITS = 400
"""Signs of a number: decimals have 38 digits, and a double that is written out some 330."""
_MOST_LEVELS = 1000
"""Of a tree: the embedded engine ends at some 300, and Spark at some 800."""
_MOST_JOINS = 128
"""Ordered together: for more, engines take minutes to choose, and cannot be stopped then."""
_OTHERS = """
    ADD ANALYZE ATTACH BEGIN CACHE CALL CHECKPOINT CLEAR COMMENT COMMIT COPY DECLARE DESC DESCRIBE
    DETACH EXECUTE EXPLAIN EXPORT GRANT IMPORT INSTALL LIST LOAD LOCK MSCK OPTIMIZE PRAGMA PREPARE
    REFRESH REPAIR REPLACE RESET RESTORE REVOKE ROLLBACK SAVEPOINT SET SHOW START TABLE UNCACHE
    UNSET VACUUM
"""


class _Tokenizer(Spark.Tokenizer):
    STRING_ESCAPES = ["\\", "'"]  # noqa: RUF012  \' and '' both stand for a quote


class _Dialect(Spark):
    """Spark with ANSI mode on: a cast or a division that fails is an error."""

    Tokenizer = _Tokenizer
    SAFE_DIVISION = False
    ORIGINAL_NAME_META_KEY = WRITTEN_NAME
    Parser = SparkGrammar


def parse_statement(text: str) -> exp.Expr:
    """The tree of the one statement in the text.

    A positional `?` becomes a parameter named by its number, from 1.  The tree is the caller's
    own: texts that come again are not read anew, but copied from what was read.
    """
    if isinstance(text, str) and len(text) <= _REMEMBERED_LENGTH:
        return _remembered(text).copy()
    return _single_tree(_parse(text, statement=True))


@lru_cache(maxsize=256)
def _remembered(text: str) -> exp.Expr:
    """The tree of a statement, which nobody changes."""
    return _single_tree(_parse(text, statement=True))


def _single_tree(trees: list[exp.Expr | None]) -> exp.Expr:
    found = [tree for tree in trees if tree is not None and not isinstance(tree, exp.Semicolon)]
    if not found:
        raise InvalidData("there is no statement in the text")
    if len(found) > 1:
        raise InvalidData(f"one statement at a time; the text has {len(found)}")
    return found[0]


def parse_condition(text: str) -> exp.Expr:
    """The tree of a condition, as it stands after WHERE."""
    tree = _single_tree(_parse(text))
    if not _is_expression(tree):
        raise InvalidData(f"{_excerpt(text)} is not a condition; write one as after WHERE")
    return tree


def parse_expression(text: str) -> exp.Expr:
    """The tree of an expression, as it stands after SELECT."""
    tree = _single_tree(_parse(text))
    if not _is_expression(tree):
        raise InvalidData(f"{_excerpt(text)} is not an expression; write one as after SELECT")
    return tree


def _is_expression(tree: exp.Expr) -> bool:
    refused = (exp.Query, exp.DML, exp.DDL, exp.Command, exp.Alias, exp.Star)
    return isinstance(tree, exp.Condition) and not isinstance(tree, refused)


def _parse(text: str, statement: bool = False) -> list[exp.Expr | None]:
    if not isinstance(text, str):
        raise InvalidData(f"a statement is text, not {type(text).__name__}")
    dialect = _Dialect()
    try:
        tokens = _number_placeholders(read_strings(text, dialect.tokenize(text)))
        _check_numbers(tokens)
        if statement and tokens:
            _check_beginning(tokens[0])
        trees = list(dialect.parser().parse(tokens, text))
    except ParseError as error:
        raise InvalidData(_error_message(error, text)) from None
    except SqlglotError:
        raise InvalidData(_NOT_CLOSED) from None
    except RecursionError:
        raise InvalidData("the statement is nested too deeply") from None
    except IndexError:
        raise InvalidData(f"the statement cannot be read: {_excerpt(text)}") from None
    for tree in trees:
        _check_size(tree)
        _check_patterns(tree)
        _check_clauses(tree)
    return trees


def _check_size(tree: exp.Expr | None) -> None:
    """`InvalidData` for a tree of too many levels, `Unsupported` for joins that take too long."""
    if tree is None:
        return
    level, levels, joins, is_named = [tree], 0, 0, False
    while level:
        levels += 1
        if levels > _MOST_LEVELS:
            raise InvalidData(
                f"the statement is nested too deeply: it has more than {_MOST_LEVELS:,} levels, "
                "as sums of as many terms have"
            )
        joins += sum(isinstance(node, exp.Join) for node in level)
        is_named = is_named or any(isinstance(node, exp.With) for node in level)
        level = [child for node in level for child in node.iter_expressions()]
    may_be_many = joins > _MOST_JOINS or (is_named and joins)
    if may_be_many and count_joins(tree, _MOST_JOINS) > _MOST_JOINS:
        raise Unsupported(
            f"a query that joins more than {_MOST_JOINS} tables, counted with those of its "
            "subqueries and of what its WITH clauses name"
        )


def _check_patterns(tree: exp.Expr | None) -> None:
    """`InvalidData` for ANY and ALL of nothing, which nobody can write again."""
    for node in tree.find_all(exp.Any, exp.All) if tree is not None else ():
        if isinstance(node.this, exp.Tuple) and not node.this.expressions:
            raise InvalidData(
                f"{node.key.upper()} () needs at least one pattern in its parentheses"
            )


def _check_clauses(tree: exp.Expr | None) -> None:
    """`Unsupported` for clauses that no engine here does anything with, or never ends with."""
    for node in tree.find_all(exp.Lock, exp.LimitOptions, exp.Group) if tree is not None else ():
        if isinstance(node, exp.Lock):
            what = "UPDATE" if node.args.get("update") else "SHARE"
            raise Unsupported(
                f"FOR {what} is not possible: rows are not locked; of two transactions that change "
                "the same rows the one that commits later is told, with "
                "isolation='serializable' also for what it read"
            )
        if isinstance(node, exp.Group):
            if count_sets(node) > MOST_SETS:
                raise Unsupported(f"GROUP BY stands for more than {MOST_SETS:,} sets")
            continue
        if node.args.get("with_ties"):
            raise Unsupported("WITH TIES is not possible; rank() OVER (ORDER BY …) <= n chooses")
        if node.args.get("percent"):
            raise Unsupported(
                "a LIMIT or FETCH in PERCENT is not possible; percent_rank() OVER (ORDER BY …) "
                "<= share chooses"
            )


def _check_beginning(token: Token) -> None:
    """`Unsupported` for statements that are not for SQL here, by their first word."""
    word = token.text.upper()
    if word in _BEGINNINGS or token.token_type == TokenType.SEMICOLON:
        return
    if word in _ELSEWHERE:
        raise Unsupported(f"{word} is not possible; {POSSIBLE}; {_ELSEWHERE[word]}")
    if word in _OTHERS.split():
        raise Unsupported(f"{word} is not possible; {POSSIBLE}")
    column = token.col - len(token.text) + 1
    raise InvalidData(
        f"syntax error at or near {token.text!r} (line {token.line}, column {column}); {POSSIBLE}"
    )


def is_definition(text: str) -> bool:
    """Whether a statement defines something: its first word is CREATE, ALTER or DROP."""
    if isinstance(text, str) and not _MAY_DEFINE.search(text):
        return False
    tokens = tokenize(text)
    return bool(tokens) and tokens[0].text.upper() in ("ALTER", "CREATE", "DROP")


def tokenize(text: str) -> list[Token]:
    """The words and signs of a statement; `InvalidData` if a quote or a comment is not closed."""
    if not isinstance(text, str):
        raise InvalidData(f"a statement is text, not {type(text).__name__}")
    try:
        return read_strings(text, _Dialect().tokenize(text))
    except SqlglotError:
        raise InvalidData(_NOT_CLOSED) from None


def _check_numbers(tokens: list[Token]) -> None:
    """`InvalidData` for a number that no type can hold, before anybody reads it as one."""
    for token in tokens:
        if token.token_type == TokenType.NUMBER and len(token.text) > _MOST_DIGITS:
            shown = f"{token.text[:20]}…"
            raise InvalidData(f"the number {shown} of {len(token.text)} signs fits no type")


def _number_placeholders(tokens: list[Token]) -> list[Token]:
    """The tokens with each `?` as the parameter of its number."""
    out: list[Token] = []
    count = 0
    for token in tokens:
        if token.token_type != TokenType.PLACEHOLDER:
            out.append(token)
            continue
        count += 1
        place = (token.line, token.col, token.start, token.end)
        out.append(Token(TokenType.COLON, ":", *place))
        out.append(Token(TokenType.VAR, str(count), *place))
    return out


def _error_message(error: ParseError, text: str) -> str:
    if not error.errors:
        return f"the statement cannot be read: {_excerpt(text)}"
    first = error.errors[0]
    line, column, word = first.get("line"), first.get("col"), first.get("highlight")
    if not word or not line or not column:
        return "the statement cannot be read: it ends too early"
    start = max(column - len(word) + 1, 1)
    return f"syntax error at or near {word!r} (line {line}, column {start})"


def _excerpt(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")
