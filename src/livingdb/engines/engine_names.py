"""The engines there are, by their names."""

from __future__ import annotations

from livingdb.errors import InvalidData

__all__ = ["ENGINES", "check_engine"]

ENGINES = ("auto", "embedded", "spark")


def check_engine(name: object) -> None:
    """`InvalidData` if no engine has the name; None stands for the default of the place."""
    if name is not None and name not in ENGINES:
        raise InvalidData(f"engine {name!r}: choose one of {', '.join(ENGINES)}")
