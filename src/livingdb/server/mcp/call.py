"""How a tool is called: as whom, for how long, and how what went wrong is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import cleandoc
from threading import BoundedSemaphore, Timer
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError

from livingdb.engines.embedded.interruption import interruptible
from livingdb.errors import LimitExceeded, LivingDBError
from livingdb.server.mcp.answers import answer_text, cut_text
from livingdb.server.mcp.session import AgentSession

__all__ = ["Answer", "Calls"]

Answer = Mapping[str, Any]
"""What a tool has to tell, by name; what is empty is left out."""

_ERROR_CHARACTERS = 2_000
_NEXT = {
    "not_found": "look with list_branches, list_tables or describe_table at what there is",
    "invalid_data": "describe_table tells the columns, their types and constraints",
    "duplicate_key": "look at the row that is there, and update or upsert it",
    "missing_key": "insert or upsert the row",
    "broken_constraint": "describe_table tells what the table demands",
    "forbidden": "you read everything you are shown and write your own branch alone; what else is "
    "to be done, ask people for, in a merge request or in your answer",
    "read_only_branch": "it follows another one: change what it is made from, on your own branch",
    "merge_conflict": "preview_merge shows the rows; settle them on your branch with catch_up",
    "transaction_conflict": "nothing was changed: look again, and repeat the call",
    "limit_exceeded": "ask for less: fewer columns, a condition on the key, an aggregate, LIMIT",
    "untrusted": "write it with other functions",
    "unsupported": "write it otherwise",
    "locked": "wait a little, and repeat the call",
    "forgotten": "its rows are gone for good: take a newer snapshot",
}
_WITHHELD = {
    "corruption": "stored bytes are damaged; people have to run `livingdb check`",
    "storage_failure": "the storage failed or is full; nothing was changed",
    "locked": "somebody else holds what is needed",
}
"""What is told where an error may name files."""


class Calls:
    """Runs the calls of a session: so many at a time, each for so long."""

    def __init__(self, session: AgentSession):
        self._session = session
        self._turns = BoundedSemaphore(session.limits.calls)

    def tool(self, function: Callable[..., Answer]) -> Callable[..., str]:
        """A function as a tool: its answer as text, its errors as what an agent can act upon."""

        @wraps(function)
        def call(**arguments: Any) -> str:
            answer = self.run(function.__name__, arguments, lambda: function(**arguments))
            return answer_text(answer, self._session.limits)

        call.__doc__ = cleandoc(function.__doc__ or "")
        call.__annotations__ = {**function.__annotations__, "return": "str"}
        return call

    def run(self, name: str, arguments: Mapping[str, Any], act: Callable[[], Answer]) -> Answer:
        """What a call answers; `ToolError` with the code of the error and what to do next."""
        seconds = self._session.limits.seconds
        if not self._turns.acquire(timeout=seconds):
            raise ToolError(self._told(LimitExceeded("too many calls of this session run already")))
        try:
            with interruptible() as interruption:
                said = f"this takes longer than the {seconds:g} s that a call may take"
                timer = Timer(seconds, interruption.stop, [said])
                timer.daemon = True
                timer.start()
                try:
                    return act()
                finally:
                    timer.cancel()
        except LivingDBError as error:
            raise ToolError(self._told(error)) from None
        finally:
            self._turns.release()

    def _told(self, error: LivingDBError) -> str:
        """An error in words that name no file: its code, what was wrong, and what to do next."""
        text = _WITHHELD.get(error.code, str(error))
        text = text.replace(self._session.database.name, "the database")
        text = cut_text(text, _ERROR_CHARACTERS, "the rest is left out")
        instead = _NEXT.get(error.code)
        return f"[{error.code}] {text}" + ("" if instead is None else f"\nNext: {instead}.")
