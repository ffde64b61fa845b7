"""Names in statements: quoted by backticks where they have to be."""

from __future__ import annotations

from typing import Any

from sqlalchemy.sql.compiler import RESERVED_WORDS, IdentifierPreparer

__all__ = ["LivingDBIdentifierPreparer"]

_WORDS = """
    add after all alter always and anti any array as asc at authorization between both branch by
    case cast check collate column commit constraint create cross cube current current_date
    current_time current_timestamp current_user database default delete desc describe distinct div
    drop else end escape except exists explain extract false fetch filter first for foreign from
    full function generated global grant group grouping having if ignore in inner insert intersect
    interval into is join key lateral leading left like limit local map merge minus natural not
    null nulls of offset on only or order outer overlaps over partition primary qualify range
    references rename right rlike rollback rollup row rows schema select semi session_user set show
    some start struct sync table tablesample then time timestamp to trailing transform true
    truncate type union unique unknown update use user using values version view when where window
    with within
"""


class LivingDBIdentifierPreparer(IdentifierPreparer):
    """Quotes by backticks; a backtick in a name is written twice."""

    reserved_words = RESERVED_WORDS | set(_WORDS.split())

    def __init__(self, dialect: Any, **options: Any) -> None:
        super().__init__(dialect, initial_quote="`", escape_quote="`", **options)
