"""How a tool is called: as whom, for how long, and how what went wrong is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import cleandoc
from threading import BoundedSemaphore, Timer
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError

from livingdb.access.audit import DONE, REFUSED
from livingdb.errors import LimitExceeded, LivingDBError, Refused
from livingdb.interruption import interruptible
from livingdb.server.mcp.answers import answer_text, cut_text
from livingdb.server.mcp.session import AgentSession

__all__ = ["Answer", "Calls"]

Answer = Mapping[str, Any]
"""What a tool has to tell, by name; what is empty is left out."""

FAILED = "failed"
_NAMES = (
    *("table", "view", "ref", "source", "before", "after", "into", "snapshot", "number"),
    *("operation", "on_conflict"),
)
"""Arguments that are written down as they are; of others it is how many values they have."""
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
        outcome, details = DONE, _noted(arguments)
        try:
            return self._act(act)
        except LivingDBError as error:
            outcome = REFUSED if isinstance(error, Refused) else FAILED
            details["error"] = error.code
            raise ToolError(self._told(error)) from None
        except Exception:
            outcome = FAILED
            raise
        finally:
            self._record(name, outcome, details)

    def _act(self, act: Callable[[], Answer]) -> Answer:
        """Do it as the agent, in its turn and in time."""
        session, seconds = self._session, self._session.limits.seconds
        if not self._turns.acquire(timeout=seconds):
            raise LimitExceeded("too many calls of this session run already")
        try:
            with interruptible() as interruption, session.database.acting_as(session.identity()):
                said = f"this takes longer than the {seconds:g} s that a call may take"
                timer = Timer(seconds, interruption.stop, [said])
                timer.daemon = True
                timer.start()
                try:
                    return act()
                finally:
                    timer.cancel()
        finally:
            self._turns.release()

    def _record(self, name: str, outcome: str, details: Mapping[str, Any]) -> None:
        """Write the call down, without the values that were asked for or written."""
        session = self._session
        if session.database.read_only is None:
            people = session.database.people
            people.record(
                f"mcp {name}", session.branch_name, outcome, details, person=session.author
            )

    def _told(self, error: LivingDBError) -> str:
        """An error in words that name no file: its code, what was wrong, and what to do next."""
        text = _WITHHELD.get(error.code, str(error))
        text = text.replace(self._session.database.name, "the database")
        text = cut_text(text, _ERROR_CHARACTERS, "the rest is left out")
        instead = _NEXT.get(error.code)
        return f"[{error.code}] {text}" + ("" if instead is None else f"\nNext: {instead}.")


def _noted(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What is written down of a call: the names in it, and never a value of a row."""
    names = {name: str(arguments[name])[:200] for name in _NAMES if arguments.get(name) is not None}
    lists = {name: len(value) for name, value in arguments.items() if isinstance(value, list)}
    return {**names, **{name: count for name, count in lists.items() if name != "key"}}
