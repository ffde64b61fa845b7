"""What pytest needs to run SQLAlchemy's compliance suite: `pytest -p` this module."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: F403
from sqlalchemy.testing.plugin.pytestplugin import pytest_collection_modifyitems as _modify
from tests.sqlalchemy_dialect.compliance.requirements import LEFT_OUT

import livingdb.sqlalchemy_dialect  # noqa: F401 (makes the dialect known)


def pytest_collection_modifyitems(session, config, items):
    """Leave out what no requirement speaks of, each test with its reason."""
    _modify(session, config, items)
    for item in items:
        name = f"{re.sub('_livingdb.*', '', item.parent.name)}.{item.name}"
        for pattern, reason in LEFT_OUT.items():
            if fnmatchcase(name, pattern.replace("[", "[[]")):
                item.add_marker(pytest.mark.skip(reason=reason))
