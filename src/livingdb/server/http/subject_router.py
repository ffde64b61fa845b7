"""The routes of one subject."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from fastapi import APIRouter
from starlette.routing import Match
from starlette.types import Scope

from livingdb.server.http.json_body import JsonRoute

__all__ = ["SubjectRouter"]


class SubjectRouter(APIRouter):
    """Routes of one subject: what is asked of others is not compared with each of them.

    There are a hundred and more, and nearly all have a path without parameters.
    """

    def __init__(self, **given: Any):
        super().__init__(route_class=JsonRoute, **given)

    @cached_property
    def _paths(self) -> tuple[frozenset[str], tuple[str, ...]]:
        """The paths that are said in full, and what those with parameters begin with."""
        paths = [str(getattr(route, "path", "")) for route in self.routes]
        whole = frozenset(path for path in paths if "{" not in path)
        return whole, tuple(path.partition("{")[0] for path in paths if "{" in path)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether one of the routes answers."""
        whole, beginnings = self._paths
        path = scope["path"]
        if not scope.get("root_path") and path not in whole and not path.startswith(beginnings):
            return Match.NONE, {}
        return super().matches(scope)
