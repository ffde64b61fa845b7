"""`livingdb graph`: the snapshots of all branches as a picture."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from livingdb.cli.open_database import Settings

__all__ = ["graph"]


class Picture(StrEnum):
    """What the picture is made of."""

    text = "text"
    mermaid = "mermaid"
    svg = "svg"
    html = "html"


def graph(
    context: typer.Context,
    form: Annotated[Picture, typer.Option("--format", help="What it is drawn in.")] = Picture.text,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Of the newest snapshots only.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="A file to write.  [default: standard output]")
    ] = None,
) -> None:
    """Draw branches, snapshots, merges, schema changes and syncs; of one --branch, if it is named.

    \b
    Example:
      livingdb graph
      livingdb graph --branch dev --limit 20
      livingdb graph --format html --out shop.html
    """
    settings = Settings.of(context)
    output = settings.output()
    with settings.open() as db:
        chosen = None if settings.branch is None else [settings.branch]
        picture = str(getattr(db.graph(chosen, limit), f"to_{form.value}")())
    if out is not None:
        out.write_text(picture, encoding="utf-8")
        told = {"format": form.value, "file": str(out), "characters": len(picture)}
        output.write_record(told, f"wrote {out}")
    elif output.is_text:
        typer.echo(picture.rstrip("\n"))
    else:
        output.write_record({"format": form.value, "picture": picture})
