"""A small model: how likely an order comes back, by its price and quantity."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["FEATURES", "chance_of_return", "train"]

FEATURES = ("one", "price", "quantity")
_HELD_BACK = 5
"""Each so manieth order is not trained on, but judged by."""

Numbers = npt.NDArray[np.float64]


def train(tables: Mapping[str, pa.Table], steps: int = 8) -> tuple[bytes, dict[str, float]]:
    """A logistic regression by Newton's method: its weights as JSON, and how good it is."""
    orders = tables["orders"]
    features = _features(orders)
    came_back = pc.equal(orders.column("status"), "returned").to_numpy().astype(np.float64)
    is_held = orders.column("id").to_numpy() % _HELD_BACK == 0
    weights = _fit_weights(features[~is_held], came_back[~is_held], steps)
    score = _area_under_roc(features[is_held] @ weights, came_back[is_held] > 0)
    artefact = json.dumps(dict(zip(FEATURES, weights.tolist(), strict=True))).encode()
    return artefact, {"auc": round(score, 6), "orders": orders.num_rows}


def chance_of_return(artefact: bytes, price: float, quantity: int) -> float:
    """What a trained model says of an order."""
    weights = json.loads(artefact)
    known = {"one": 1.0, "price": price / 100, "quantity": quantity}
    return float(1 / (1 + np.exp(-sum(weights[name] * known[name] for name in FEATURES))))


def _features(orders: pa.Table) -> Numbers:
    price = orders.column("price").cast(pa.float64()).to_numpy() / 100
    quantity = orders.column("quantity").to_numpy()
    return np.column_stack([np.ones(len(price)), price, quantity])


def _fit_weights(features: Numbers, wanted: Numbers, steps: int) -> Numbers:
    weights = np.zeros(features.shape[1])
    for _ in range(steps):
        chance = 1 / (1 + np.exp(-np.clip(features @ weights, -30, 30)))
        slope = features.T @ (wanted - chance)
        bend = (features * (chance * (1 - chance))[:, None]).T @ features
        weights = weights + np.linalg.lstsq(bend, slope, rcond=None)[0]
    return weights


def _area_under_roc(scores: Numbers, is_wanted: npt.NDArray[np.bool_]) -> float:
    """How often one that is wanted has a higher score than one that is not; ties count half."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[places]
    wanted, others = int(is_wanted.sum()), int((~is_wanted).sum())
    if not wanted or not others:
        return 0.5
    return float((rank[is_wanted].sum() - wanted * (wanted + 1) / 2) / (wanted * others))
