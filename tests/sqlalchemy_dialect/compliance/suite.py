"""SQLAlchemy's own tests of dialects, run by `tests/sqlalchemy_dialect/test_compliance.py`."""

from __future__ import annotations

from sqlalchemy.testing.suite import *  # noqa: F403
