"""JSON as requests bring it: what an object says twice is refused by name, and not half ignored."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.responses import Response

from livingdb.server.http.failures import Refusal

__all__ = ["JsonRoute", "read_json"]

_SHOWN = 80


def read_json(body: bytes | bytearray) -> Any:
    """The value of a body; `ValueError` if it is no JSON, a `Refusal` if it says a name twice."""
    return json.loads(body, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    raise Refusal(400, "bad_request", f"the body says {twice[:_SHOWN]!r} twice in one object")


class _JsonRequest(Request):
    """A request whose body is read so."""

    async def json(self) -> Any:
        """The value of the body."""
        if not hasattr(self, "_json"):
            self._json = read_json(await self.body())
        return self._json


class JsonRoute(APIRoute):
    """A route that reads bodies so."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            return await handle(_JsonRequest(request.scope, request.receive))

        return answer
