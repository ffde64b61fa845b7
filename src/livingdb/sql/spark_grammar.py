"""Where Spark's grammar is not sqlglot's idea of it: how operators bind, what texts say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from sqlglot import exp
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from livingdb.engines.portable.recursive_queries import MOST_LEVELS
from livingdb.engines.spark_types import WITH_PLUS
from livingdb.interruption import check_interruption

__all__ = ["WRITTEN_NAME", "WRITTEN_PLACE", "WRITTEN_UNIT", "SparkGrammar", "read_strings"]

WRITTEN_NAME, WRITTEN_PLACE, WRITTEN_UNIT = "written_name", "written_place", "written_unit"
"""Notes on calls and their arguments: by what name, and in which order they were written."""

_BITS: list[tuple[TokenType, type[exp.Binary]]] = [
    (TokenType.PIPE, exp.BitwiseOr),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.AMP, exp.BitwiseAnd),
]
"""From the operator that binds least; shifts bind more than all of them, sums more than shifts."""
_SHIFTS = [(TokenType.LT, exp.BitwiseLeftShift), (TokenType.GT, exp.BitwiseRightShift)]
_UNITS = {"YEAR", "YYYY", "YY", "QUARTER", "MONTH", "MM", "MON", "WEEK"}
"""What `trunc` knows; of anything else it makes NULL."""


def _grouped(node: exp.Expr | None) -> exp.Expr | None:
    """An operand as every engine reads it, whatever binds more there."""
    is_bits = isinstance(node, (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor))
    is_shift = isinstance(node, (exp.BitwiseLeftShift, exp.BitwiseRightShift, exp.DPipe))
    return exp.Paren(this=node) if is_bits or is_shift else node


def _positive(parser: Any) -> exp.Expr | None:
    """`+ x`: the number it is, which for a text is another thing than the text."""
    operand = parser._parse_unary()
    if not isinstance(operand, exp.Literal) or operand.is_string:
        return exp.Anonymous(this="positive", expressions=[operand])
    operand.meta[WITH_PLUS] = True
    return operand


def _trunc(arguments: list[exp.Expr]) -> exp.Expr:
    unit = arguments[1] if len(arguments) == 2 else None
    if isinstance(unit, exp.Literal) and unit.is_string and unit.name.upper() in _UNITS:
        return cast("exp.Expr", SparkParser.FUNCTIONS["TRUNC"](arguments))
    return exp.Anonymous(this="trunc", expressions=arguments)


def _position(arguments: list[exp.Expr]) -> exp.Expr:
    if len(arguments) == 2:
        return exp.StrPosition.from_arg_list(arguments)
    return exp.Anonymous(this="instr", expressions=arguments)


_IN_WORDS = {"position": "locate", "substr": "substring"}
"""What `position(… IN …)` and `substr(… FROM …)` are calls of."""
_AS_WRITTEN = {"TO_CHAR", "TO_VARCHAR", "LISTAGG", "STRING_AGG", "MAX_BY", "MIN_BY"}
"""Functions that sqlglot takes for others, or for which it forgets an argument."""


def _known(functions: Mapping[str, Any]) -> dict[str, Any]:
    return {name: how for name, how in functions.items() if name not in _AS_WRITTEN}


class SparkGrammar(SparkParser):
    """Spark with ANSI mode on: a cast that fails is an error, and operators bind as Spark's do."""

    STRICT_CAST = True
    _names_query = False
    """Whether the next name is one that WITH gives to a query."""
    UNARY_PARSERS: ClassVar = {**SparkParser.UNARY_PARSERS, TokenType.PLUS: _positive}
    FUNCTIONS: ClassVar = {
        **_known(SparkParser.FUNCTIONS),
        "INSTR": _position,
        "TRUNC": _trunc,
    }
    FUNCTION_PARSERS: ClassVar = _known(SparkParser.FUNCTION_PARSERS)

    def validate_expression(self, expression: Any, args: list[Any] | None = None) -> Any:
        """The call, with a note on each of its arguments of where it was written."""
        for place, argument in enumerate(args or ()):
            if isinstance(argument, exp.Expr):
                argument.meta[WRITTEN_PLACE] = place
        return super().validate_expression(expression, args)

    def _parse_function_call(self, *given: Any, **how: Any) -> exp.Expr | None:
        """A call, with a note of its name also where it has a grammar of its own."""
        start = self._index
        found = super()._parse_function_call(*given, **how)
        call: Any = found
        while isinstance(call, (exp.Filter, exp.Window, exp.IgnoreNulls, exp.RespectNulls)):
            call = call.this
        tokens = self._tokens[start : self._index]
        if call is None or WRITTEN_NAME in call.meta or len(tokens) < 3 or tokens[1].text != "(":
            return found
        if isinstance(call, exp.Extract):
            call.meta[WRITTEN_UNIT] = tokens[2].text
        between = {token.token_type for token in tokens} & {TokenType.FROM, TokenType.IN}
        name = tokens[0].text.lower()
        call.meta[WRITTEN_NAME] = _IN_WORDS.get(name, name) if between else name
        return found

    def _parse_cte(self) -> Any:
        """A named query, with what MAX RECURSION LEVEL says after its name."""
        self._names_query = True
        made: Any = super()._parse_cte()
        alias = None if made is None else made.args.get("alias")
        if alias is not None and MOST_LEVELS in alias.args:
            made.set(MOST_LEVELS, alias.args.pop(MOST_LEVELS))
        return made

    def _parse_table_alias(self, *given: Any, **how: Any) -> Any:
        names_query, self._names_query = self._names_query, False
        alias = super()._parse_table_alias(*given, **how)
        if names_query and alias and self._match_text_seq("MAX", "RECURSION", "LEVEL"):
            level = self._parse_number()
            if level is None or not level.name.isdecimal():
                self.raise_error("Expected a number of levels")
            alias.args[MOST_LEVELS] = level
        return alias

    def _parse_disjunction(self) -> exp.Expr | None:
        return _balanced(super()._parse_disjunction(), exp.Or)

    def _parse_conjunction(self) -> exp.Expr | None:
        return _balanced(super()._parse_conjunction(), exp.And)

    def _parse_bitwise(self) -> exp.Expr | None:
        return self._parse_bits(0)

    def _parse_bits(self, level: int) -> exp.Expr | None:
        if level == len(_BITS):
            return self._parse_shift()
        token, kind = _BITS[level]
        this = self._parse_bits(level + 1)
        while self._match(token):
            other = self._parse_bits(level + 1)
            this = self.expression(kind(this=_grouped(this), expression=_grouped(other)))
        return this

    def _parse_shift(self) -> exp.Expr | None:
        this = self._parse_term()
        while True:
            if self._match_text_seq(">", ">", ">", advance=False):
                self._advance(3)
                operands = [this, self._parse_term()]
                this = exp.Anonymous(this="shiftrightunsigned", expressions=operands)
                continue
            for token, kind in _SHIFTS:
                if self._match_pair(token, token):
                    other = self._parse_term()
                    this = self.expression(kind(this=_grouped(this), expression=_grouped(other)))
                    break
            else:
                return this

    def _parse_factor(self, parse_mod: bool = True) -> exp.Expr | None:
        """Operands: reading thousands of them takes seconds, and can be stopped."""
        check_interruption()
        return super()._parse_factor(parse_mod)

    def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
        """Sums, differences and `||`, which bind alike."""
        this = super()._parse_term(parse_mod)
        while self._match(TokenType.DPIPE):
            is_safe = not self.dialect.STRICT_STRING_CONCAT
            right = self._parse_factor(parse_mod)
            this = self.expression(exp.DPipe(this=this, expression=right, safe=is_safe))
            while self._match_set(self.TERM):
                kind = self.TERM[self._prev.token_type]
                right = self._parse_factor(parse_mod)
                this = self.expression(kind(this=_grouped(this), expression=right))
        return this


def _balanced(tree: exp.Expr | None, kind: type[exp.Connector]) -> exp.Expr | None:
    """Conditions joined by AND or OR as a tree that is as flat as Spark makes it.

    So a thousand of them are ten levels deep, and no part that walks down the tree meets an end.
    """
    parts: list[exp.Expr] = []
    top = tree
    while type(tree) is kind:
        parts.append(tree.expression)
        tree = tree.this
    if tree is None or len(parts) < 3:  # three conditions are the same tree either way
        return top
    parts.append(tree)
    return _joined(parts[::-1], kind)


def _joined(parts: Sequence[exp.Expr], kind: type[exp.Connector]) -> exp.Expr:
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) - 1) // 2 + 1
    return kind(this=_joined(parts[:middle], kind), expression=_joined(parts[middle:], kind))


# --- texts --------------------------------------------------------------------------------------

_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\([01][0-7]{2})|\\(.)", re.DOTALL)


def read_strings(text: str, tokens: list[Token]) -> list[Token]:
    """The tokens with each string as Spark reads it: a quote in it is written twice."""
    out: list[Token] = []
    for token in tokens:
        quote = text[token.start : token.start + 1]
        is_hex = token.token_type == TokenType.STRING and out and out[-1].text in ("X", "x")
        if is_hex and out[-1].token_type == TokenType.VAR:
            before = out.pop()
            place = (before.line, before.col, before.start, token.end)
            out.append(Token(TokenType.HEX_STRING, token.text, *place, comments=token.comments))
            continue
        if token.token_type != TokenType.STRING or quote not in ("'", '"'):
            out.append(token)
            continue
        start = token.start
        last = out[-1] if out else None
        is_next = last is not None and last.token_type == TokenType.STRING
        if last is not None and is_next and last.end + 1 == start and text[last.end] == quote:
            start = out.pop().start
        value = _value(text[start : token.end + 1])
        place = (token.line, token.col, start, token.end)
        out.append(Token(TokenType.STRING, value, *place, comments=token.comments))
    return out


def _value(written: str) -> str:
    quote, inner = written[0], written[1:-1]
    if "\\" not in inner:
        return inner.replace(quote * 2, quote)
    parts, at = [], 0
    for found in _ESCAPED.finditer(inner):
        parts += [inner[at : found.start()].replace(quote * 2, quote), _unescaped(found)]
        at = found.end()
    return "".join([*parts, inner[at:].replace(quote * 2, quote)])


def _unescaped(found: re.Match[str]) -> str:
    for digits, base in ((found[1] or found[2], 16), (found[3], 8)):
        if digits:
            return chr(int(digits, base))
    sign = found[4]
    return found[0] if sign in "%_" else _ESCAPES.get(sign, sign)
