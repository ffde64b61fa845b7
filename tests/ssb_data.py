"""The Star Schema Benchmark: tables made by chance from fixed seeds, its queries, and commits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import livingdb

Commit = Callable[[], object]
COMMIT_ROWS = 200

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    *("ALGERIA", "ETHIOPIA", "KENYA", "MOROCCO", "MOZAMBIQUE"),
    *("ARGENTINA", "BRAZIL", "CANADA", "PERU", "UNITED STATES"),
    *("CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"),
    *("FRANCE", "GERMANY", "ROMANIA", "RUSSIA", "UNITED KINGDOM"),
    *("EGYPT", "IRAN", "IRAQ", "JORDAN", "SAUDI ARABIA"),
)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECI", "5-LOW")
MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")

_FLIGHT_1 = (
    "SELECT sum(lo_extendedprice * lo_discount) AS revenue FROM lineorder, date "
    "WHERE lo_orderdate = d_datekey AND {}"
)
_FLIGHT_2 = (
    "SELECT sum(lo_revenue) AS revenue, d_year, p_brand1 FROM lineorder, date, part, supplier "
    "WHERE lo_orderdate = d_datekey AND lo_partkey = p_partkey AND lo_suppkey = s_suppkey AND {} "
    "GROUP BY d_year, p_brand1"
)
_FLIGHT_3 = (
    "SELECT c_{0}, s_{0}, d_year, sum(lo_revenue) AS revenue "
    "FROM customer, lineorder, supplier, date "
    "WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey AND {1} "
    "GROUP BY c_{0}, s_{0}, d_year"
)
_FLIGHT_4 = (
    "SELECT {0}, sum(lo_revenue - lo_supplycost) AS profit "
    "FROM date, customer, supplier, part, lineorder "
    "WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey "
    "AND lo_orderdate = d_datekey AND {1} GROUP BY {0}"
)
_MAKERS = "(p_mfgr = 'MFGR#1' OR p_mfgr = 'MFGR#2')"
_AMERICA = "c_region = 'AMERICA' AND s_region = 'AMERICA'"
_CITIES = "('UNITED KI1', 'UNITED KI5')"
QUERIES = {
    "q11": _FLIGHT_1.format("d_year = 1993 AND lo_discount BETWEEN 1 AND 3 AND lo_quantity < 25"),
    "q12": _FLIGHT_1.format(
        "d_yearmonthnum = 199401 AND lo_discount BETWEEN 4 AND 6 AND lo_quantity BETWEEN 26 AND 35"
    ),
    "q13": _FLIGHT_1.format(
        "d_weeknuminyear = 6 AND d_year = 1994 AND lo_discount BETWEEN 5 AND 7 "
        "AND lo_quantity BETWEEN 26 AND 35"
    ),
    "q21": _FLIGHT_2.format("p_category = 'MFGR#12' AND s_region = 'AMERICA'"),
    "q22": _FLIGHT_2.format("p_brand1 BETWEEN 'MFGR#2221' AND 'MFGR#2228' AND s_region = 'ASIA'"),
    "q23": _FLIGHT_2.format("p_brand1 = 'MFGR#2239' AND s_region = 'EUROPE'"),
    "q31": _FLIGHT_3.format(
        "nation", "c_region = 'ASIA' AND s_region = 'ASIA' AND d_year >= 1992 AND d_year <= 1997"
    ),
    "q32": _FLIGHT_3.format(
        "city",
        "c_nation = 'UNITED STATES' AND s_nation = 'UNITED STATES' "
        "AND d_year >= 1992 AND d_year <= 1997",
    ),
    "q33": _FLIGHT_3.format(
        "city", f"c_city IN {_CITIES} AND s_city IN {_CITIES} AND d_year >= 1992 AND d_year <= 1997"
    ),
    "q34": _FLIGHT_3.format(
        "city", f"c_city IN {_CITIES} AND s_city IN {_CITIES} AND d_yearmonth = 'Dec1997'"
    ),
    "q41": _FLIGHT_4.format("d_year, c_nation", f"{_AMERICA} AND {_MAKERS}"),
    "q42": _FLIGHT_4.format(
        "d_year, s_nation, p_category",
        f"{_AMERICA} AND (d_year = 1997 OR d_year = 1998) AND {_MAKERS}",
    ),
    "q43": _FLIGHT_4.format(
        "d_year, s_city, p_brand1",
        "c_region = 'AMERICA' AND s_nation = 'UNITED STATES' AND (d_year = 1997 OR d_year = 1998) "
        "AND p_category = 'MFGR#14'",
    ),
}
KEYS = {
    "date": "d_datekey",
    "customer": "c_custkey",
    "supplier": "s_suppkey",
    "part": "p_partkey",
    "lineorder": ("lo_orderkey", "lo_linenumber"),
}


def dates() -> pa.Table:
    """The seven years of the benchmark."""
    days = np.arange(np.datetime64("1992-01-01"), np.datetime64("1999-01-01"))
    year = days.astype("datetime64[Y]").astype(int) + 1970
    month = days.astype("datetime64[M]").astype(int) % 12 + 1
    first = days.astype("datetime64[Y]").astype(days.dtype)
    day = (days - days.astype("datetime64[M]").astype(days.dtype)).astype(int) + 1
    months = np.array(MONTHS)[month - 1]
    return pa.table(
        {
            "d_datekey": year * 10_000 + month * 100 + day,
            "d_month": months,
            "d_year": year,
            "d_yearmonthnum": year * 100 + month,
            "d_yearmonth": np.char.add(months, year.astype(str)),
            "d_weeknuminyear": (days - first).astype(int) // 7 + 1,
        }
    )


def _places(prefix: str, count: int, chance: np.random.Generator) -> dict[str, np.ndarray]:
    """Where customers and suppliers are."""
    nation = chance.integers(0, len(NATIONS), count)
    names = np.array(NATIONS)[nation]
    stems = np.char.ljust(names.astype("U9"), 9)
    return {
        f"{prefix}_city": np.char.add(stems, chance.integers(0, 10, count).astype(str)),
        f"{prefix}_nation": names,
        f"{prefix}_region": np.array(REGIONS)[nation // 5],
    }


def people(prefix: str, name: str, count: int, seed: int) -> pa.Table:
    """Customers or suppliers."""
    numbers = np.arange(1, count + 1)
    chance = np.random.default_rng(seed)
    titles = np.char.add(f"{name}#", np.char.zfill(numbers.astype(str), 9))
    key = f"{prefix}_{name[:4].lower()}key"
    return pa.table({key: numbers, f"{prefix}_name": titles, **_places(prefix, count, chance)})


def parts(count: int) -> pa.Table:
    """Parts, of five makers with five categories of forty brands each."""
    chance = np.random.default_rng(3)
    maker, category = chance.integers(1, 6, count), chance.integers(1, 6, count)
    makers = np.char.add("MFGR#", maker.astype(str))
    categories = np.char.add(makers, category.astype(str))
    return pa.table(
        {
            "p_partkey": np.arange(1, count + 1),
            "p_mfgr": makers,
            "p_category": categories,
            "p_brand1": np.char.add(categories, chance.integers(1, 41, count).astype(str)),
            "p_size": chance.integers(1, 51, count),
        }
    )


def dimensions(rows: int) -> dict[str, pa.Table]:
    """The dimensions that go with so many rows of `lineorder`."""
    return {
        "date": dates(),
        "customer": people("c", "Customer", max(300, rows // 200), 1),
        "supplier": people("s", "Supplier", max(100, rows // 3000), 2),
        "part": parts(max(500, rows // 30)),
    }


def lines(first: int, count: int, known: dict[str, pa.Table]) -> pa.Table:
    """Rows of `lineorder` from a number on, four to an order."""
    chance = np.random.default_rng([first, count])
    number = np.arange(first, first + count)
    quantity, discount = chance.integers(1, 51, count), chance.integers(0, 11, count)
    price = quantity * chance.integers(90_000, 200_000, count) // 100
    days = known["date"].column("d_datekey").to_numpy()
    made: dict[str, object] = {"lo_orderkey": number // 4, "lo_linenumber": number % 4 + 1}
    for name, dimension in (("cust", "customer"), ("part", "part"), ("supp", "supplier")):
        made[f"lo_{name}key"] = chance.integers(1, known[dimension].num_rows + 1, count)
    return pa.table(
        {
            **made,
            "lo_orderdate": chance.choice(days, count),
            "lo_orderpriority": chance.choice(np.array(PRIORITIES), count),
            "lo_quantity": quantity,
            "lo_extendedprice": price,
            "lo_discount": discount,
            "lo_revenue": price * (100 - discount) // 100,
            "lo_supplycost": price * 6 // 10,
            "lo_tax": chance.integers(0, 9, count),
            "lo_shipmode": chance.choice(np.array(MODES), count),
        }
    )


def warehouse(home: Path, rows: int) -> tuple[livingdb.Database, dict[str, pa.Table]]:
    """A database with so many rows of `lineorder`, and its dimensions."""
    known = dimensions(rows)
    db = livingdb.create(home, engine="embedded")
    main = db.branch("main")
    for name, table in {**known, "lineorder": lines(0, rows, known)}.items():
        main.create_table(name, table.schema, key=KEYS[name])
        main.insert(name, table)
        main.table(name).root()
    return db, known


def new_rows(branch: livingdb.Branch, rows: int, turn: int, known: dict[str, pa.Table]) -> Commit:
    """A commit of new rows."""
    fresh = lines(rows + turn * COMMIT_ROWS, COMMIT_ROWS, known)
    return lambda: branch.insert("lineorder", fresh)


def mixed_rows(branch: livingdb.Branch, rows: int, turn: int, known: dict[str, pa.Table]) -> Commit:
    """A commit in which rows come, go, and become others."""
    third = COMMIT_ROWS // 3
    first = 3 * turn * third
    fresh = lines(10 * rows + turn * COMMIT_ROWS, third, known)
    other = lines(first, third, known)
    revenue = pa.array(np.arange(third) + turn)
    other = other.set_column(other.column_names.index("lo_revenue"), "lo_revenue", revenue)
    gone = lines(first + third, third, known).select(["lo_orderkey", "lo_linenumber"])

    def commit() -> None:
        with branch.transaction() as work:
            work.insert("lineorder", fresh)
            work.upsert("lineorder", other)
            work.delete("lineorder", gone)

    return commit
