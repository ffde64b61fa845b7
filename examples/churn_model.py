"""A model that is versioned with the rows it was trained on.

    python examples/churn_model.py

Customers are trained on with Spark ML; the model is a derived object: trained again by
`db.propagate()` when the customers changed, and readable as of any of its versions.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import livingdb


def train(frames: dict[str, Any], folder: Path, max_iter: int = 20) -> dict[str, float]:
    """Train on the customers; the model goes to the folder, the metrics to the edge."""
    from pyspark.ml import Pipeline
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.evaluation import BinaryClassificationEvaluator
    from pyspark.ml.feature import VectorAssembler

    customers = frames["customers"]
    features = VectorAssembler(inputCols=["orders", "age_days"], outputCol="features")
    regression = LogisticRegression(labelCol="churned", maxIter=max_iter)
    model = Pipeline(stages=[features, regression]).fit(customers)
    model.write().overwrite().save(f"file://{folder}/model")
    score = BinaryClassificationEvaluator(labelCol="churned").evaluate(model.transform(customers))
    return {"area_under_roc": score, "customers": customers.count()}


def customers(first: int, count: int) -> pa.Table:
    """Customers of whom the idle ones leave, mostly."""
    chance = np.random.default_rng(first)
    orders, age = chance.integers(0, 30, count), chance.integers(1, 2000, count)
    left = chance.random(count) < 1 / (1 + np.exp(orders / 3 - 2))
    columns = {"id": np.arange(first, first + count), "orders": orders, "age_days": age}
    return pa.table({**columns, "churned": left.astype(np.int32)})


def main(home: str) -> None:
    """Train, add customers, train again, and look at both models."""
    db = livingdb.create(f"{home}/shop.ldb", trust=[__name__])
    branch = db.branch("main")
    branch.create_table("customers", customers(0, 1).schema, key="id")
    branch.insert("customers", customers(0, 2000))
    branch.derive("churn", model=f"{__name__}:train", params={"max_iter": 10})
    print("first model:", db.at("churn").metrics)
    branch.insert("customers", customers(2000, 3000))
    print("behind by:", db.sync("churn").lag)
    for run in db.propagate():
        print(run)
    files = db.at("churn").artifact()
    assert isinstance(files, dict)
    print("second model:", db.at("churn").metrics, f"{len(files)} files")
    print("the one before:", db.at("churn~1").metrics)
    print("trained on:", db.at("churn").sources)
    db.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
