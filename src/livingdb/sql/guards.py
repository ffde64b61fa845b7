"""WHEN … ELSE at the end of a statement that makes a sync: what has to hold, and what if not.

ALTER TABLE orders ADD COLUMN vat DOUBLE SYNC FORWARD TO next WHEN changed_share <= 0.2 ELSE HOLD
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

__all__ = ["without_guard"]

_MAY_HAVE = re.compile(r"\s*(ALTER|CREATE)\b.*\bWHEN\b.*\bELSE\b", re.IGNORECASE | re.DOTALL)


def without_guard(text: str) -> tuple[str, dict[str, Any]]:
    """The statement without its WHEN … ELSE, and the conditions that says."""
    if not isinstance(text, str) or not _MAY_HAVE.match(text):
        return text, {}
    rest, conditions = import_module("livingdb.sync.conditions.parse").when_else(text)
    return rest, {"conditions": conditions} if conditions else {}
