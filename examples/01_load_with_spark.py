"""Text becomes a table, through Spark; Spark reads it again, and writes to it.

python examples/01_load_with_spark.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import livingdb
import livingdb.spark

TEXT = "id,city,price\n" + "".join(
    f"{number}, {city},{number % 90 + 10}.50\n"
    for number, city in enumerate(["OSLO", "BERGEN", "BODØ"] * 2000)
)


def main(home: str) -> None:
    """Load, ask, and write back."""
    file = Path(home, "orders.csv")
    file.write_text(TEXT, encoding="utf-8")
    spark = livingdb.spark.session()
    db = livingdb.create(f"{home}/shop.ldb")

    raw = spark.read.option("header", True).csv(str(file))
    orders = raw.selectExpr(
        "CAST(id AS BIGINT) AS id", "initcap(trim(city)) AS city", "CAST(price AS DOUBLE) AS price"
    )
    loaded = livingdb.spark.load(db, "main", "orders", orders, key="id", message="first orders")
    print(f"{len(loaded.table('orders')):,} orders in snapshot {loaded.id[:8]}")

    query = "SELECT city, percentile_approx(price, 0.5) AS median FROM orders GROUP BY city"
    livingdb.spark.sql(db, "main", query).orderBy("city").show()

    late = spark.createDataFrame([(9001, "Oslo", 12.0)], "id bigint, city string, price double")
    writer = late.write.format("livingdb").mode("append").option("table", "orders")
    writer.option("operation", "upsert").save(f"{home}/shop.ldb")
    print("written by Spark:", db.branch("main").table("orders").get(9001))

    before = spark.read.format("livingdb").option("table", "orders")
    count = before.option("versionAsOf", "main~1").load(f"{home}/shop.ldb").count()
    print(f"one snapshot ago there were {count:,}")
    db.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
