"""`livingdb mcp`: the database for an agent, over standard input and output."""

from __future__ import annotations

from typing import Annotated

import typer

from livingdb.cli.open_database import EngineName, Settings
from livingdb.errors import Unsupported

__all__ = ["mcp"]


def mcp(
    context: typer.Context,
    agent: Annotated[
        str, typer.Option("--agent", help="What the agent is called: the author of its commits.")
    ] = "agent",
    user: Annotated[
        str | None,
        typer.Option("--user", help="With whose rights.  [default: it reads everything]"),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            "--session",
            help="The name of its branch, agent/SESSION, to go on with it later.  [default: new]",
        ),
    ] = None,
    engine: Annotated[
        EngineName, typer.Option("--engine", help="Who answers its queries.")
    ] = EngineName.embedded,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Rows of an answer at most.")] = 200,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="How long a call may take.")
    ] = 30.0,
    memory: Annotated[
        str, typer.Option("--memory", help="What its queries may take together.")
    ] = "1 GB",
) -> None:
    """Let an agent work with the database, on a branch of its own; a client starts it.

    It speaks the Model Context Protocol over standard input and output, and ends with its input.
    The agent reads everything, or what --user may read, and writes the branch agent/SESSION alone.

    \b
    Example:
      livingdb mcp --db shop.ldb
      livingdb mcp --db shop.ldb --user ann --agent tidy --session names --branch dev
    """
    settings = Settings.of(context)
    place = settings.database_url()
    import livingdb

    try:
        import mcp as _protocol  # noqa: F401
    except ImportError:
        raise Unsupported(
            "the library of the protocol is not installed: pip install 'livingdb[mcp]'"
        ) from None
    from livingdb.server.mcp.limits import Limits
    from livingdb.server.mcp.server import agent_server
    from livingdb.server.mcp.session import AgentSession

    with livingdb.open(place, trust=(), engine=engine.value, memory_limit=memory) as db:
        limits = Limits(rows=rows, seconds=seconds)
        agent_session = AgentSession(
            db, agent, session, person=user, home=settings.branch, limits=limits
        )
        agent_server(agent_session).run("stdio")
