"""Writes the queries and changes of SQLAlchemy as Spark's SQL."""

from __future__ import annotations

from typing import Any

from sqlalchemy.exc import CompileError
from sqlalchemy.sql.compiler import SQLCompiler

__all__ = ["LivingDBCompiler"]


class LivingDBCompiler(SQLCompiler):
    """What differs from what SQLAlchemy writes for any database."""

    # --- parts of a query ---------------------------------------------------------------------

    def limit_clause(self, select: Any, **kw: Any) -> str:
        """LIMIT and OFFSET, either without the other."""
        return self._limits(select, select._limit_clause, **kw)

    def fetch_clause(self, select: Any, *args: Any, **kw: Any) -> str:
        """FETCH FIRST … ROWS ONLY is another way to write LIMIT."""
        options = select._fetch_clause_options or {}
        for option, words in (("percent", "PERCENT"), ("with_ties", "WITH TIES")):
            if options.get(option):
                raise CompileError(f"FETCH FIRST … {words} is not possible; LIMIT counts rows")
        return self._limits(select, select._fetch_clause, **kw)

    def _limits(self, select: Any, limit: Any, **kw: Any) -> str:
        """Numbers are written out, as a query is portable with those only."""
        text = ""
        for word, clause in (("LIMIT", limit), ("OFFSET", select._offset_clause)):
            if clause is not None:
                if select._simple_int_clause(clause):
                    clause = clause.render_literal_execute()
                text += f"\n {word} {self.process(clause, **kw)}"
        return text

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        """Refused: nobody waits for rows here."""
        raise CompileError(
            "FOR UPDATE is not possible: rows are not locked; of two transactions that change the "
            "same rows the one that commits later is told, with SERIALIZABLE also for what it read"
        )

    def get_select_precolumns(self, select: Any, **kw: Any) -> str:
        """DISTINCT, but not of some columns."""
        if select._distinct_on:
            raise CompileError("DISTINCT ON is not possible; row_number() OVER (…) = 1 chooses")
        return super().get_select_precolumns(select, **kw)

    def visit_empty_set_op_expr(self, type_: Any, expand_op: Any, **kw: Any) -> str:
        """What IN compares with where it is given nothing; several columns need a query."""
        if len(type_) > 1:
            return self.visit_empty_set_expr(type_)
        text: str = super().visit_empty_set_op_expr(type_, expand_op, **kw)  # type: ignore[no-untyped-call]
        return text

    def visit_empty_set_expr(self, element_types: Any, **kw: Any) -> str:
        """A query without rows."""
        return f"SELECT {', '.join(map(self._null_of, element_types or [None]))} WHERE 1 = 0"

    def _null_of(self, type_: Any) -> str:
        if type_ is None or type_._isnull:
            return "NULL"
        return f"CAST(NULL AS {self.dialect.type_compiler_instance.process(type_)})"

    def update_from_clause(self, *args: Any, **kw: Any) -> str:
        """Refused: MERGE joins."""
        raise CompileError("UPDATE … FROM is not possible; a query in SET, or MERGE, reads others")

    def delete_extra_from_clause(self, *args: Any, **kw: Any) -> str:
        """Refused: a query in WHERE reads other tables."""
        raise CompileError("DELETE … USING is not possible; a query in WHERE reads other tables")

    # --- operators and functions --------------------------------------------------------------

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """RLIKE, with flags in front of the pattern."""
        return self._regexp("RLIKE", binary, **kw)

    def visit_not_regexp_match_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """NOT RLIKE, with flags in front of the pattern."""
        return self._regexp("NOT RLIKE", binary, **kw)

    def _regexp(self, word: str, binary: Any, **kw: Any) -> str:
        value, pattern = binary.left._compiler_dispatch(self, **kw), self._pattern(binary, **kw)
        return f"{value} {word} {pattern}"

    def _pattern(self, binary: Any, **kw: Any) -> str:
        pattern: str = binary.right._compiler_dispatch(self, **kw)
        flags = binary.modifiers["flags"]
        return pattern if flags is None else f"concat('(?{flags})', {pattern})"

    def visit_regexp_replace_op_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        """`regexp_replace`, of all places that are like the pattern."""
        value = binary.left._compiler_dispatch(self, **kw)
        pattern, replacement = binary.right.clauses
        written = pattern._compiler_dispatch(self, **kw)
        flags = binary.modifiers["flags"]
        written = written if flags is None else f"concat('(?{flags})', {written})"
        return f"regexp_replace({value}, {written}, {self.process(replacement, **kw)})"

    def visit_char_length_func(self, function: Any, **kw: Any) -> str:
        """`length` counts characters."""
        return "length" + self.function_argspec(function, **kw)

    def visit_random_func(self, function: Any, **kw: Any) -> str:
        """`rand`."""
        return "rand" + self.function_argspec(function, **kw)

    def visit_aggregate_strings_func(
        self, fn: Any, *, use_function_name: str = "listagg", **kw: Any
    ) -> str:
        """`listagg`, with its order after it."""
        order = getattr(fn.clauses, "aggregate_order_by", None)
        value, separator = (self.process(item, **kw) for item in fn.clauses.clauses[:2])
        text = f"{use_function_name}({value}, {separator})"
        if order is None:
            return text
        return f"{text} WITHIN GROUP (ORDER BY {self.process(order, **kw)})"

    def visit_now_func(self, function: Any, **kw: Any) -> str:
        """The moment at which the statement runs."""
        return "current_timestamp()"

    def visit_sequence(self, sequence: Any, **kw: Any) -> str:
        """Refused: identity columns draw numbers."""
        raise CompileError(f"the sequence {sequence.name!r}: there are none; take Identity()")

    def render_literal_value(self, value: Any, type_: Any) -> str:
        """A value in the text of a statement."""
        if isinstance(value, str) and type(type_).__name__ == "NullType":
            from livingdb.sqlalchemy_dialect.values import text_literal

            return text_literal(value)
        return super().render_literal_value(value, type_)
