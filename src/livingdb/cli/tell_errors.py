"""What went wrong, on standard error: a sentence for people, an object where JSON is asked for."""

from __future__ import annotations

from typing import Any

import typer

from livingdb.cli.advice import shell_advice
from livingdb.cli.exits import USAGE, exit_code
from livingdb.cli.output import Format
from livingdb.cli.values import json_text

__all__ = ["is_usage_error", "tell_error", "tell_usage", "tell_usage_error"]


def tell_error(error: Exception, form: str) -> None:
    """An error of LivingDB or of a file."""
    text = shell_advice(_error_text(error))
    if form == Format.json:
        _write_json(getattr(error, "code", "file"), text, exit_code(error))
    else:
        typer.echo(f"livingdb: {text}", err=True)


def is_usage_error(error: Exception) -> bool:
    """Whether Typer says that the line was not understood."""
    return hasattr(error, "format_message")


def tell_usage_error(error: Any) -> None:
    """What Typer did not understand, as JSON."""
    path = getattr(getattr(error, "ctx", None), "command_path", "livingdb")
    said = str(error.format_message()).strip().splitlines() or ["the line is not understood"]
    tell_usage(f"{said[0].rstrip('.')}; {path} --help tells what there is")


def tell_usage(text: str) -> None:
    """How something was to be used, as JSON."""
    _write_json("usage", text, USAGE)


def _write_json(code: str, text: str, status: int) -> None:
    told = {"error": code, "message": text, "exit_code": status}
    typer.echo(json_text(told), err=True)


def _error_text(error: Exception) -> str:
    """What went wrong, on one line where it is about a file."""
    if isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f"{error.filename}: "
        return f"{name}{error.strerror}"
    return str(error)
