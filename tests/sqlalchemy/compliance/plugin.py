"""What pytest needs to run SQLAlchemy's compliance suite: `pytest -p` this module."""

from __future__ import annotations

import pytest
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: F403

import livingdb.sqlalchemy_dialect  # noqa: F401 (makes the dialect known)

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")
