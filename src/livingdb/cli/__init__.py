"""The command line.  Commands are imported when they are called, so that help is instant."""

from __future__ import annotations

from livingdb.cli.app import main

__all__ = ["main"]
