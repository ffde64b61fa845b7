"""Views: how derived tables follow the tables they are made of."""

from livingdb.derivation.plan import (
    WEIGHT,
    Ask,
    Input,
    NeedsFull,
    Plan,
    Relations,
    Stage,
    plan,
)

__all__ = ["WEIGHT", "Ask", "Input", "NeedsFull", "Plan", "Relations", "Stage", "plan"]
