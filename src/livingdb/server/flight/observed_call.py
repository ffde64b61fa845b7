"""What is told of each call when it has ended; never what it asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["ObservedCall", "Observer", "outcome_of", "tell_nobody"]

_CODE = re.compile(r"([a-z_]{1,40}): ")
OK, FAILED = "ok", "failed"


@dataclass(frozen=True)
class ObservedCall:
    """A call: the command it brought or else its method, how it ended, for how long, and whose."""

    operation: str
    outcome: str
    seconds: float
    user: str | None


Observer = Callable[[ObservedCall], None]


def tell_nobody(_call: ObservedCall) -> None:
    """There is nobody to tell."""


def outcome_of(error: BaseException | None) -> str:
    """The code of the error that a client was told; "ok" if there was none."""
    if error is None:
        return OK
    found = _CODE.match(str(error))
    return FAILED if found is None else found[1]
