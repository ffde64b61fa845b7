"""Connections to web addresses; on request, to public ones alone.

A name is resolved once, and what is looked at is what is connected to: no answer of a name server
in between leads elsewhere.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from typing import Any
from urllib.request import BaseHandler, HTTPHandler, HTTPSHandler, Request

__all__ = ["PrivateAddress", "http_handlers"]


class PrivateAddress(OSError):
    """A host that lies in a private network, on this machine or nowhere in public."""


def http_handlers(public_only: bool) -> Sequence[BaseHandler]:
    """What opens http and https addresses."""
    if not public_only:
        return HTTPHandler(), HTTPSHandler()
    return _PublicHTTP(), _PublicHTTPS()


class _PublicHTTP(HTTPHandler):
    def http_open(self, req: Request) -> HTTPResponse:
        _check_written_host(req)
        return self.do_open(HTTPConnection if req.has_proxy() else _PublicHTTPConnection, req)


class _PublicHTTPS(HTTPSHandler):
    def https_open(self, req: Request) -> HTTPResponse:
        _check_written_host(req)
        # A proxy is one that this process was told to use.
        tunnels = getattr(req, "_tunnel_host", None) is not None
        return self.do_open(HTTPSConnection if tunnels else _PublicHTTPSConnection, req)


class _PublicHTTPConnection(HTTPConnection):
    def __init__(self, *given: Any, **more: Any):
        super().__init__(*given, **more)
        self._create_connection = _connect_to_public


class _PublicHTTPSConnection(HTTPSConnection):
    def __init__(self, *given: Any, **more: Any):
        super().__init__(*given, **more)
        self._create_connection = _connect_to_public


def _check_written_host(request: Request) -> None:
    """An address that stands where a name could is looked at even if a proxy connects to it."""
    from urllib.parse import urlsplit

    host = urlsplit(request.full_url).hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return
    _check_public(host, host)


def _connect_to_public(
    address: tuple[str, int], timeout: float | None = None, source_address: Any = None
) -> socket.socket:
    """A connection to the first address of a host that answers; all of them have to be public."""
    host, port = address
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for *_, place in found:
        _check_public(host, str(place[0]))
    problem: OSError = OSError("no address")
    for *_, place in found:
        try:
            return socket.create_connection((str(place[0]), port), timeout, source_address)
        except OSError as error:
            problem = error
    raise problem


def _check_public(host: str, address: str) -> None:
    found = ip_address(address.partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None) or found
    if not mapped.is_global or mapped.is_multicast:
        raise PrivateAddress(
            f"{host} lies in a private network or on this machine; "
            f"trust=['webhook:{host}'] names it"
        )
