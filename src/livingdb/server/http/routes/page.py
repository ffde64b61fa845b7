"""The page: one document, its program and its styles; all it shows it asks the API for.

Anybody may load it, since it says nothing: who looks at it has to log in.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.resources import files

from fastapi import Request
from starlette.responses import Response

from livingdb.errors import NotFound
from livingdb.server.http.subject_router import SubjectRouter

__all__ = ["PAGE_PATHS", "router"]

router = SubjectRouter(include_in_schema=False)

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_KINDS = {"app.js": "text/javascript", "app.css": "text/css", "palette.css": "text/css"}
PAGE_PATHS = ("/", *(f"/page/{name}" for name in _KINDS))
_DOCUMENT = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>LivingDB</title>
<link rel="stylesheet" href="/page/palette.css">
<link rel="stylesheet" href="/page/app.css">
<script src="/page/app.js" defer></script>
</head>
<body><div id="page"><noscript>This page needs JavaScript.</noscript></div></body>
</html>
"""


@router.get("/")
def get_page() -> Response:
    """The document."""
    return Response(_DOCUMENT, media_type="text/html", headers={"Content-Security-Policy": _POLICY})


@router.get("/page/{name}")
def get_part(name: str, request: Request) -> Response:
    """A part that the document names."""
    if name not in _KINDS:
        raise NotFound(f"the page has no part {name!r}")
    content, mark = _part(name)
    headers = {"ETag": mark, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == mark:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_KINDS[name], headers=headers)


@cache
def _part(name: str) -> tuple[bytes, str]:
    content = _palette() if name == "palette.css" else _built(name)
    return content, f'"{sha256(content).hexdigest()[:32]}"'


def _built(name: str) -> bytes:
    try:
        return (files("livingdb.server.page") / "built" / name).read_bytes()
    except FileNotFoundError:
        raise NotFound(
            "the page was not built: `make setup` does it in a checkout, and wheels have it"
        ) from None


def _palette() -> bytes:
    from livingdb.render.palette import DARK, LIGHT

    own = "--link:var(--lane0);--edge:color-mix(in srgb,var(--soft) 70%,var(--paper))"
    light, dark = f":root{{{LIGHT.to_css()};{own}}}", f":root{{{DARK.to_css()};{own}}}"
    return f"{light}@media(prefers-color-scheme:dark){{{dark}}}".encode()
