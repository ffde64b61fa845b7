"""How an alert gets out: a line in the log, a request, or a program that is run."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from livingdb.errors import LivingDBError

__all__ = ["NotSent", "post", "run", "write_line"]

_KEY = "Idempotency-Key"
_SHOWN = 500
_VARIABLES = ("id", "key", "time", "database", "sync", "event", "severity", "message")
_VARIABLE_LENGTH = 8_000
_log = logging.getLogger("livingdb.alert")


class NotSent(LivingDBError):
    """An alert did not get through; it says why, without secrets."""

    code = "not_sent"


def write_line(message: Mapping[str, Any], level: str | None) -> None:
    """Log an alert, at a level or at that of its severity."""
    number = logging.getLevelName((level or message["severity"]).upper())
    about = f" of {message['sync']}" if message["sync"] else ""
    _log.log(number, "%s%s: %s", message["event"], about, message["message"])


def post(
    message: Mapping[str, Any],
    url: str,
    headers: Mapping[str, str],
    header_env: Mapping[str, str],
    timeout_seconds: float,
    *,
    public_only: bool,
) -> None:
    """Post an alert; redirects are not followed.

    With `public_only` no address of this machine or of a private network is connected to,
    whatever name leads there.
    """
    from http.client import HTTPException
    from urllib import request

    from livingdb.alerts.connection import http_handlers

    given = {"Content-Type": "application/json", "User-Agent": "livingdb", **headers}
    for name, variable in header_env.items():
        if variable not in os.environ:
            raise NotSent(f"the environment variable {variable} for {name} is not set")
        given[name] = os.environ[variable]
    opener = request.OpenerDirector()
    for handler in (request.ProxyHandler(), *http_handlers(public_only)):
        opener.add_handler(handler)
    body = json.dumps(message).encode()
    try:
        asked = request.Request(url, body, {**given, _KEY: message["key"]}, method="POST")
        with opener.open(asked, timeout=timeout_seconds) as answer:
            status = answer.status
    except TimeoutError:
        raise NotSent(f"no answer within {timeout_seconds:g} seconds") from None
    except OSError as error:
        raise NotSent(f"no connection: {getattr(error, 'reason', error)}") from None
    except (HTTPException, ValueError) as error:
        # Their words may hold the address or a header.
        raise NotSent(f"no answer that can be read: {type(error).__name__}") from None
    if 300 <= status < 400:
        raise NotSent(f"answered {status}: redirects are not followed, give the final address")
    if not 200 <= status < 300:
        raise NotSent(f"answered {status}")


def run(message: Mapping[str, Any], arguments: Sequence[str], timeout_seconds: float) -> None:
    """Run a program with an alert on its input; it and what it started end with its time."""
    variables = {
        f"LIVINGDB_ALERT_{name.upper()}": str(message[name])[:_VARIABLE_LENGTH].replace("\0", "")
        for name in _VARIABLES
    }
    try:
        spool = tempfile.TemporaryFile()  # noqa: SIM115
    except OSError as error:
        raise NotSent(f"what {arguments[0]} says has no place: {error.strerror}") from None
    with spool as errors:
        try:
            child = subprocess.Popen(
                list(arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **variables},
                start_new_session=True,
            )
        except OSError as error:
            raise NotSent(f"{arguments[0]} cannot be run: {error.strerror}") from None
        try:
            child.communicate(json.dumps(message).encode(), timeout_seconds)
        except subprocess.TimeoutExpired:
            raise NotSent(
                f"{arguments[0]} did not end within {timeout_seconds:g} seconds"
            ) from None
        finally:
            _terminate(child)
        if child.returncode != 0:
            errors.seek(0)
            words = errors.read(_SHOWN).decode(errors="replace").strip()
            raise NotSent(f"{arguments[0]} ended with {child.returncode}: {words}".rstrip(": "))


def _terminate(child: subprocess.Popen[bytes]) -> None:
    """Let nothing of a program go on that has not ended."""
    if child.poll() is None:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            child.kill()
        child.wait()
