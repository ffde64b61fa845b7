"""A session of an agent as a server of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import ValidationError

from livingdb.server.mcp.call import Answer, Calls
from livingdb.server.mcp.resources import add_prompts, add_resources
from livingdb.server.mcp.session import AgentSession
from livingdb.server.mcp.texts import INSTRUCTIONS
from livingdb.server.mcp.tools.look import LookTools
from livingdb.server.mcp.tools.merge import MergeTools
from livingdb.server.mcp.tools.state import StateTools
from livingdb.server.mcp.tools.trace import TraceTools
from livingdb.server.mcp.tools.work import WorkTools
from livingdb.version import __version__

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context

__all__ = ["agent_server"]


def agent_server(session: AgentSession) -> MCPServer:
    """The server that answers the calls of one agent."""
    calls = Calls(session)
    server: MCPServer = MCPServer(
        "livingdb",
        title="LivingDB",
        instructions=INSTRUCTIONS.format(branch=session.branch_name),
        version=__version__,
        tools=_tools(session, calls),
        log_level="WARNING",
    )
    add_resources(server, session, calls)
    add_prompts(server)
    return server


def _tools(session: AgentSession, calls: Calls) -> list[Tool]:
    look, work, merge = LookTools(session), WorkTools(session), MergeTools(session)
    trace, state = TraceTools(session), StateTools(session)
    reading: list[Callable[..., Answer]] = [
        *(look.list_branches, look.list_tables, look.describe_table, look.query, look.log),
        *(merge.diff, merge.preview_merge, merge.merge_requests),
        *(trace.row_history, trace.blame, trace.lineage, trace.provenance),
        *(state.status, state.alerts),
    ]
    writing: list[Callable[..., Answer]] = [
        *(work.start_work, work.change, work.change_rows, work.undo, work.catch_up),
        *(merge.request_merge, merge.comment_merge_request),
    ]
    return [
        *(_tool(calls, one, is_reading=True) for one in reading),
        *(_tool(calls, one, is_reading=False) for one in writing),
    ]


def _tool(calls: Calls, function: Callable[..., Answer], *, is_reading: bool) -> Tool:
    made = AgentTool.from_function(
        calls.tool(function),
        annotations=ToolAnnotations(
            read_only_hint=is_reading,
            destructive_hint=False,  # of a branch of its own, of which every state stays
            open_world_hint=False,
        ),
        structured_output=False,
    )
    made.parameters["additionalProperties"] = False
    return made


class AgentTool(Tool):
    """A tool that passes over no argument that it does not know."""

    async def run(
        self,
        arguments: dict[str, Any],
        context: Context[Any, Any],
        convert_result: bool = False,
    ) -> Any:
        """See `Tool.run`; an unknown argument is an error that names those there are."""
        known = self.parameters.get("properties", {})
        unknown = sorted({*arguments} - {*known})
        if unknown:
            takes = ", ".join(known) or "no arguments"
            raise ToolError(
                f"[invalid_data] {self.name} has no argument {unknown[0]!r}; it takes {takes}"
            )
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            wrong = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
            raise ToolError(f"[invalid_data] {self.name}: {'; '.join(wrong)}") from None
        return await super().run(arguments, context, convert_result)
