"""Functions that alerts are sent to."""

from __future__ import annotations

import threading
from typing import Any

got: list[dict[str, Any]] = []
stop = threading.Event()
arrived = threading.Event()


def forget() -> None:
    got.clear()
    stop.clear()
    arrived.clear()


def take(message: dict[str, Any]) -> None:
    got.append(message)
    arrived.set()


def refuse(message: dict[str, Any]) -> None:
    got.append(message)
    raise ValueError("not today")


def leave(message: dict[str, Any]) -> None:
    raise SystemExit(3)


def hang(message: dict[str, Any]) -> None:
    arrived.set()
    stop.wait(240)
