"""What the server is and can do, by the numbers that Flight SQL gives to such facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from livingdb.version import __version__

if TYPE_CHECKING:
    from livingdb.database.database import Database

__all__ = ["sql_info", "sql_info_schema"]

Value = str | bool | int | tuple[int] | list[str]
_INSENSITIVE, _NULLS_LOW = 1, 1
_TRANSACTIONS_ONLY = 1
_SERIALIZABLE, _REPEATABLE_READ = 4, 3

_KINDS = [
    pa.field("string_value", pa.string()),
    pa.field("bool_value", pa.bool_()),
    pa.field("bigint_value", pa.int64()),
    pa.field("int32_bitmask", pa.int32()),
    pa.field("string_list", pa.list_(pa.field("string_data", pa.string()))),
    pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
]
_TEXT, _YES_OR_NO, _NUMBER, _MASK, _TEXTS, _ = range(len(_KINDS))


def _facts(database: Database) -> dict[int, tuple[int, object]]:
    """Each fact with its kind; masks have a bit for each of the values that they mean."""
    return {
        0: (_TEXT, "LivingDB"),
        1: (_TEXT, __version__),
        2: (_TEXT, pa.__version__),
        3: (_YES_OR_NO, database.read_only is not None),
        4: (_YES_OR_NO, True),  # SQL
        5: (_YES_OR_NO, False),  # Substrait
        8: (_MASK, _TRANSACTIONS_ONLY),
        9: (_YES_OR_NO, True),  # queries can be cancelled
        10: (_YES_OR_NO, True),  # bulk ingestion
        11: (_YES_OR_NO, True),  # in transactions
        500: (_YES_OR_NO, True),  # CREATE and DROP of catalogs: branches
        501: (_YES_OR_NO, False),  # of schemas
        502: (_YES_OR_NO, True),  # of tables
        503: (_MASK, _INSENSITIVE),  # names
        504: (_TEXT, "`"),
        505: (_MASK, _INSENSITIVE),  # quoted names
        506: (_YES_OR_NO, True),  # all tables can be selected from
        507: (_MASK, _NULLS_LOW),
        513: (_TEXT, "\\"),  # before % and _ in patterns
        514: (_TEXT, ""),  # further characters of names that are not quoted
        515: (_YES_OR_NO, True),  # AS for columns
        516: (_YES_OR_NO, True),  # NULL || 'a' IS NULL
        518: (_YES_OR_NO, True),  # AS for tables
        519: (_YES_OR_NO, False),  # which may be as the tables are called
        520: (_YES_OR_NO, True),  # expressions in ORDER BY
        521: (_YES_OR_NO, True),  # ORDER BY of what is not selected
        522: (_MASK, 0b11),  # GROUP BY: unrelated, beyond select
        523: (_YES_OR_NO, True),  # LIKE … ESCAPE
        524: (_YES_OR_NO, True),  # NOT NULL
        528: (_MASK, 2),  # outer joins: all
        529: (_TEXT, "schema"),
        530: (_TEXT, "procedure"),
        531: (_TEXT, "branch"),
        532: (_YES_OR_NO, True),  # the catalog stands before the table
        536: (_YES_OR_NO, False),  # SELECT … FOR UPDATE
        537: (_YES_OR_NO, False),  # procedures
        538: (_MASK, 0b0111),  # subqueries in comparisons, EXISTS, IN
        539: (_YES_OR_NO, True),  # correlated ones
        540: (_MASK, 0b11),  # UNION, UNION ALL
        562: (_MASK, _REPEATABLE_READ),  # by default a transaction reads one snapshot
        563: (_YES_OR_NO, True),  # transactions
        564: (_MASK, 1 << _REPEATABLE_READ | 1 << _SERIALIZABLE),
        565: (_YES_OR_NO, False),  # a definition does not commit what waits: it is refused
        566: (_YES_OR_NO, False),  # nor is it ignored
        572: (_YES_OR_NO, True),  # several sets of parameters
        573: (_YES_OR_NO, False),  # savepoints
        574: (_YES_OR_NO, True),  # named parameters
    }


def sql_info_schema() -> pa.Schema:
    """A number and what it stands for, of one of several types."""
    return pa.schema(
        [
            pa.field("info_name", pa.uint32(), False),
            pa.field("value", pa.dense_union(_KINDS), False),
        ]
    )


def sql_info(database: Database, wanted: Sequence[int]) -> pa.Table:
    """The facts that are asked for, or all of them; of what is not known nothing is said."""
    facts = _facts(database)
    numbers = [number for number in (wanted or facts) if number in facts]
    kinds = [facts[number][0] for number in numbers]
    values: list[list[object]] = [[] for _ in _KINDS]
    places = []
    for number in numbers:
        kind, value = facts[number]
        places.append(len(values[kind]))
        values[kind].append(value)
    union = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()),
        pa.array(places, pa.int32()),
        [pa.array(given, field.type) for given, field in zip(values, _KINDS, strict=True)],
        [field.name for field in _KINDS],
    )
    return pa.Table.from_arrays([pa.array(numbers, pa.uint32()), union], schema=sql_info_schema())
