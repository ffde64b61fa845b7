"""Connections to web addresses; on request, to public ones alone.

A name is resolved once, and what is looked at is what is connected to: no answer of a name server
in between leads elsewhere.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any
from urllib.request import BaseHandler, HTTPHandler, HTTPSHandler, Request

__all__ = ["PrivateAddress", "http_handlers"]

_WITH_IPV4_AT_THE_END = [
    IPv6Network(text) for text in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
]
"""Where translators (NAT64, SIIT) and old forms have an address of version 4."""


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
    from urllib.parse import unquote, urlsplit

    host = unquote(urlsplit(request.full_url).hostname or "").lower().rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        raise _private(host)
    try:
        address = host if ":" in host else socket.inet_ntoa(socket.inet_aton(host))
    except OSError:  # a name, and no address in any of the forms that are read as one: 127.1, 0x7f…
        return
    _check_public(host, address)


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
    inner = [found] if isinstance(found, IPv4Address) else _inner_addresses(found)
    is_site_local = isinstance(found, IPv6Address) and found.is_site_local
    if is_site_local or not all(one.is_global and not one.is_multicast for one in inner):
        raise _private(host)


def _inner_addresses(found: IPv6Address) -> Sequence[IPv4Address | IPv6Address]:
    """The address, or those of version 4 that a translator or a tunnel behind it leads to."""
    if found.ipv4_mapped is not None:
        return [found.ipv4_mapped]
    inner = [found.sixtofour, *(found.teredo or ())]
    if any(found in network for network in _WITH_IPV4_AT_THE_END):
        inner.append(IPv4Address(int(found) & 0xFFFFFFFF))
    return [found, *(one for one in inner if one is not None)]


def _private(host: str) -> PrivateAddress:
    return PrivateAddress(
        f"{host} lies in a private network or on this machine; trust=['webhook:{host}'] names it"
    )
