"""New databases in the PostgreSQL server of the tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, make_url, text

__all__ = ["new_postgres"]


@contextmanager
def new_postgres(server: str, folder: Path) -> Iterator[str]:
    """The URL of a database with its catalog there and its data in a folder; gone afterwards."""
    name = f"livingdb_{uuid.uuid4().hex[:12]}"
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        url = make_url(server).set(drivername="postgresql", database=name)
        url = url.update_query_dict({"data": str(folder / "data")})
        yield url.render_as_string(hide_password=False)
        with engine.connect() as connection:
            connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    finally:
        engine.dispose()
