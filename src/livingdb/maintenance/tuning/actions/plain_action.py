"""What actions share that are written down field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

__all__ = ["PlainAction"]


class PlainAction:
    """An action, a dataclass, whose fields are plain values already."""

    def to_json(self) -> dict[str, Any]:
        """See `Action.to_json`."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """See `Action.from_json`."""
        return cls(**data)
