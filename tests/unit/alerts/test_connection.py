"""A pattern that trusts any host lets no alert reach this machine or a private network."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from tests.unit.alerts.conftest import Receiver

from livingdb import alert
from livingdb.alerts.connection import _check_public
from livingdb.alerts.delivery import NotSent

MESSAGE = {"key": "k", "event": "detached"}
PLACES = [
    "127.0.0.1",
    "127.9.9.9",
    "10.1.2.3",
    "192.168.0.1",
    "172.16.0.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "::1",
    "fe80::1",
    "fd00::1",
    "::ffff:127.0.0.1",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::10.1.2.3",
    "2002:7f00:1::1",
    "fec0::1",
]
OTHER_FORMS = [
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "127.1",
    "10.1",
    "localhost",
    "a.localhost.",
    "127.0.0.1.",
    "%31%32%37.0.0.1",
    "169.254.169%2E254",
    "localhos%74",
]


@pytest.mark.parametrize("place", PLACES)
def test_written_addresses(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    host = f"[{place}]" if ":" in place else place
    with pytest.raises(NotSent, match="private network"):
        alert.webhook(f"http://{host}:9/x").send(MESSAGE, ["webhook:*"])


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", ""])
@pytest.mark.parametrize("host", OTHER_FORMS)
def test_addresses_in_other_forms(host: str, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would read them as the addresses that they are."""
    monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(NotSent, match="private network"):
        alert.webhook(f"http://{host}:9/x").send(MESSAGE, ["webhook:*"])


@pytest.mark.parametrize("place", ["93.184.216.34", "2606:4700::1111", "64:ff9b::93.184.216.34"])
def test_public_addresses(place: str) -> None:
    _check_public("hooks.example.org", place)


@pytest.mark.parametrize("place", PLACES)
def test_names_that_lead_there(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family = socket.AF_INET6 if ":" in place else socket.AF_INET
    public = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 443))

    def resolve(*_: Any, **__: Any) -> list[Any]:
        return [public, (family, socket.SOCK_STREAM, 6, "", (place, 443))]

    def connect(*_: Any) -> Any:
        raise AssertionError("connected")

    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    for scheme in ("http", "https"):
        with pytest.raises(NotSent, match=r"trust=\['webhook:hooks\.example\.org'\]"):
            alert.webhook(f"{scheme}://hooks.example.org/x").send(MESSAGE, ["webhook:*"])


def test_a_host_that_is_named(receiver: Receiver) -> None:
    receiver.sink().send(MESSAGE, ["webhook:127.0.0.1"])
    assert receiver.requests[0].body == MESSAGE
    with pytest.raises(NotSent, match="private network"):
        receiver.sink().send(MESSAGE, ["webhook:127.*"])
    assert len(receiver.requests) == 1
