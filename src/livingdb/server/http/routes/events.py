"""Server-sent events: what changes, as it happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import Header, Query, Request
from starlette.responses import StreamingResponse

from livingdb.database.changes import Change
from livingdb.errors import LivingDBError
from livingdb.server.http.context import Asking, Context, Server
from livingdb.server.http.doorkeeper import Caller
from livingdb.server.http.events import Batch, Listener, visible_changes
from livingdb.server.http.json_values import json_bytes, plain_value
from livingdb.server.http.subject_router import SubjectRouter

__all__ = ["router"]

router = SubjectRouter(prefix="/v1", tags=["events"])
_KEEP_ALIVE_SECONDS = 15.0

LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", description="The id of the last event that was heard."),
]
After = Annotated[
    str | None,
    Query(description="Where to begin without a last event: a `position`, or the id of an event."),
]


@router.get(
    "/events",
    operation_id="listen_to_events",
    summary="What changes, as it happens",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def listen_to_events(
    request: Request,
    server: Server,
    asking: Asking,
    last_event_id: LastEventId = None,
    after: After = None,
) -> StreamingResponse:
    """Commits, branches that move, syncs, alerts, merge requests, and the jobs of who asks.

    Only what who asks may read is told.  Who comes back with `Last-Event-ID`, or begins `after` a
    position, is told what it missed, whichever process did it; some of it maybe twice.
    """
    listener = Listener(asking.key, asyncio.get_running_loop())
    try:
        missed = await run_sync(server.events.listen, listener, last_event_id or after)
    except BaseException:
        server.events.leave(listener)
        raise
    lines = _lines(server, listener, missed, request.state.still_known)
    return StreamingResponse(lines, media_type="text/event-stream")


async def _lines(
    server: Context, listener: Listener, missed: Batch, still_known: Callable[[], Caller]
) -> AsyncIterator[bytes]:
    """What is sent, until who listens goes, is no longer known, or the server ends."""
    try:
        batch: Batch | None = missed
        while batch is not None:
            shown = await run_sync(_seen_now, server, still_known, batch.changes)
            if shown or batch is missed:
                yield _text(shown, batch.position)
            batch = None
            while batch is None:
                try:
                    batch = await asyncio.wait_for(listener.queue.get(), _KEEP_ALIVE_SECONDS)
                except TimeoutError:
                    await run_sync(still_known)
                    yield b": \n\n"
                    continue
                if batch is None:
                    return
    except LivingDBError:
        return
    finally:
        server.events.leave(listener)


def _seen_now(
    server: Context, still_known: Callable[[], Caller], changes: Sequence[Change]
) -> list[Change]:
    """What who listens may know of by now; `Forbidden` if they are known no more."""
    with server.keeper.acting_as(still_known()):
        return visible_changes(server.db, changes)


def _text(changes: Sequence[Change], position: str | None) -> bytes:
    """Events as a browser reads them; the position comes after those it stands for."""
    parts = [
        b"event: %s\ndata: %s\n\n"
        % (one.kind.encode(), json_bytes({"subject": one.subject, **plain_value(one.details)}))
        for one in changes
    ]
    if position is not None:
        parts.append(f"id: {position}\n\n".encode())
    return b"".join(parts)
