"""Rows as answers: as JSON, or as a stream in Arrow's format, never held as a whole."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import anyio
import pyarrow as pa
from anyio.to_thread import run_sync
from fastapi import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from livingdb.errors import InvalidData
from livingdb.server.http.json_values import columns_of, json_bytes, plain_value, rows_of

__all__ = [
    "ARROW",
    "arrow_answer",
    "json_answer",
    "read_arrow",
    "read_body",
    "rows_answer",
    "rows_responses",
    "wants_arrow",
]

ARROW = "application/vnd.apache.arrow.stream"
_BATCH_ROWS = 65_536
_SENT_BYTES = 1 << 20
"""So much is handed on to be sent in one go: what sends it holds some copies of that."""


def wants_arrow(request: Request) -> bool:
    """Whether the client asks for Arrow."""
    return ARROW in request.headers.get("accept", "")


def json_answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A report as JSON."""
    return _Json(json_bytes(plain_value(value)), status, headers, "application/json")


def rows_answer(
    request: Request, table: pa.Table, facts: dict[str, Any], headers: dict[str, str] | None = None
) -> Response:
    """Rows that are there, as the client wants them; `facts` are beside them in JSON."""
    if wants_arrow(request):
        return arrow_answer(table.schema, table.to_batches(_BATCH_ROWS), headers)
    told = {"columns": columns_of(table.schema), "rows": rows_of(table), **plain_value(facts)}
    return _Json(json_bytes(told), 200, headers, "application/json")


class _Json(Response):
    """A text that is sent in parts, of the length that is said before."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all of it."""
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        for part in _slices(memoryview(self.body)):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _slices(whole: memoryview) -> Iterator[bytes]:
    for at in range(0, len(whole), _SENT_BYTES):
        yield bytes(whole[at : at + _SENT_BYTES])


def arrow_answer(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], headers: dict[str, str] | None = None
) -> Response:
    """Rows as they come, in Arrow's stream format; what is wrong at once is told as such."""
    parts = _arrow_parts(schema, iter(batches))
    first = next(parts)
    return _Stream(chain([first], parts), parts, headers)


def _arrow_parts(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            with sink.getbuffer() as written:
                yield from _slices(written)
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()


class _Stream(StreamingResponse):
    """Sends parts, and lets go of what they are read from however it ends."""

    def __init__(
        self, content: Iterable[bytes], source: Any, headers: dict[str, str] | None
    ) -> None:
        super().__init__(content, 200, headers, ARROW)
        self._source = source

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send all of it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            with anyio.CancelScope(shield=True):
                await run_sync(self._source.close)


async def read_body(request: Request) -> bytearray:
    """The body of a request, of which nothing else is kept."""
    found = bytearray()
    async for part in request.stream():
        found += part
    return found


def read_arrow(body: bytes | bytearray) -> pa.Table:
    """The rows of a request in Arrow's stream format; `InvalidData` if it is none."""
    try:
        with pa.ipc.open_stream(body) as reader:
            found = reader.read_all()
            found.validate(full=True)
            return found
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidData(f"the body is no stream of Arrow: {error}") from None


def rows_responses(model: type) -> dict[int | str, dict[str, Any]]:
    """How the document tells that rows come in two forms."""
    return {
        200: {
            "model": model,
            "description": "The rows, as JSON or as Arrow, as the header Accept asks for.",
            "content": {ARROW: {"schema": {"type": "string", "format": "binary"}}},
        }
    }
