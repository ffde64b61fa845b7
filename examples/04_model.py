"""A model is a derived object: trained again when its rows changed, each version kept.

    python examples/04_model.py

`churn_model.py` does the same with Spark ML.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

import livingdb


def train(tables: Mapping[str, pa.Table], degree: int = 1) -> tuple[bytes, dict[str, float]]:
    """Fit a curve through the orders; the bytes are the model, the dict its metrics."""
    orders = tables["orders"]
    quantity, price = (orders.column(name).to_numpy() for name in ("quantity", "price"))
    weights = np.polyfit(quantity, price, degree)
    error = float(np.sqrt(np.mean((np.polyval(weights, quantity) - price) ** 2)))
    return json.dumps(weights.tolist()).encode(), {"rmse": round(error, 3), "rows": len(price)}


def orders(first: int, count: int) -> pa.Table:
    """Orders whose price depends on their quantity, and a little on chance."""
    chance = np.random.default_rng(first)
    quantity = chance.integers(1, 20, count)
    price = 30 + 12 * quantity + chance.normal(0, 5, count)
    return pa.table({"id": np.arange(first, first + count), "quantity": quantity, "price": price})


def main(home: str) -> None:
    """Train, let orders come in, train again; guard against a model that got worse."""
    db = livingdb.create(f"{home}/shop.ldb", trust=[__name__])
    branch = db.branch("main")
    branch.create_table("orders", orders(0, 1).schema, key="id")
    branch.insert("orders", orders(0, 500))
    guard = livingdb.condition.score("rmse") <= 6
    branch.derive("price_model", model=f"{__name__}:train", conditions=[guard])
    branch.insert("orders", orders(500, 500))
    print(db.propagate())
    for ref in ("price_model~1", "price_model"):
        made = db.at(ref)
        print(f"{ref:14}", made.metrics, made.artifact(), "from", made.sources["main"][:8])

    branch.sql("UPDATE orders SET price = 0 WHERE id % 3 = 0", message="a mistake")
    print(db.propagate())
    print("still the good one:", db.at("price_model").metrics, db.sync("price_model").state)
    db.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
