"""The command line: `livingdb COMMAND`."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line; ends the process with one of the codes in `exits`."""
    from livingdb.cli.app import run

    raise SystemExit(run())
