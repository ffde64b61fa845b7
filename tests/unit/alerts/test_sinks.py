"""What sinks are: values that can be written down, without secrets where people look."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livingdb import InvalidData, alert
from livingdb.alerts import sinks

SEVERITIES = st.sampled_from(["info", "warning", "error", "critical"])
COMMON = st.fixed_dictionaries(
    {},
    optional={
        "severity": SEVERITIES,
        "events": st.lists(st.text(min_size=1), min_size=1, max_size=3),
        "cool_down": st.floats(0, 1e6) | st.sampled_from(["0", "1 hour", timedelta(minutes=3)]),
        "attempts": st.integers(1, 1000),
    },
)


@given(
    COMMON,
    st.sampled_from(
        [
            alert.log,
            lambda **more: alert.log("warning", **more),
            lambda **more: alert.webhook("https://example.org/x?y=ü".replace("ü", "u"), **more),
            lambda **more: alert.webhook("http://[::1]:8080/", {"X-Team": "shop"}, 0.5, **more),
            lambda **more: alert.webhook("https://a.b", header_env={"A": "TOKEN"}, **more),
            lambda **more: alert.command("notify-send 'two words' ü", **more),
            lambda **more: alert.command(["sh", "-c", "", "日本"], 1.5, **more),
            lambda **more: alert.callback("shop.alerts:tell", **more),
        ]
    ),
)
def test_a_sink_is_the_same_after_it_was_stored(common: dict[str, Any], make: Any) -> None:
    sink = make(**common)
    again = sinks.from_json(json.loads(json.dumps(sink.to_json())))
    assert again == sink
    assert again.to_json() == sink.to_json()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: alert.webhook("ftp://example.org/"), "https://"),
        (lambda: alert.webhook("file:///etc/passwd"), "https://"),
        (lambda: alert.webhook("https://"), "host"),
        (lambda: alert.webhook("https://user:word@example.org/"), "header_env"),
        (lambda: alert.webhook("https://example.org/a b"), "https://"),
        (lambda: alert.webhook("https://example.org/\r\nX: y"), "ASCII"),
        (lambda: alert.webhook("https://example.org:99999/"), "https://"),
        (lambda: alert.webhook("https://a.b", {"X Y": "z"}), "header"),
        (lambda: alert.webhook("https://a.b", {"X": "a\r\nHost: c"}), "header"),
        (lambda: alert.webhook("https://a.b", header_env={"X": "a-b"}), "variable"),
        (lambda: alert.webhook("https://a.b", timeout_seconds=0), "timeout"),
        (lambda: alert.command(""), "program"),
        (lambda: alert.command([]), "program"),
        (lambda: alert.command("say 'x"), "command"),
        (lambda: alert.command(["a", "b\0c"]), "texts"),
        (lambda: alert.command(3), "command"),  # type: ignore[arg-type]
        (lambda: alert.callback("shop.tell"), "package.module:function"),
        (lambda: alert.callback(print), "cannot be stored"),  # type: ignore[arg-type]
        (lambda: alert.log("loud"), "level"),
        (lambda: alert.log(severity="bad"), "severity"),
        (lambda: alert.log(events=[]), "events"),
        (lambda: alert.log(cool_down="soon"), "cool_down"),
        (lambda: alert.log(cool_down=-1), "cool_down"),
        (lambda: alert.log(attempts=0), "attempts"),
        (lambda: sinks.sinks_to_json([print]), "cannot be stored"),
        (lambda: sinks.sinks_to_json("log"), "list"),
        (lambda: sinks.sinks_to_json([{"sink": "log"}]), "takes no alerts"),
        (lambda: sinks.from_json({"sink": "pigeon"}), "pigeon"),
        (lambda: sinks.from_json({"sink": "log", "color": 3}), "color"),
    ],
)
def test_what_is_no_sink_is_refused(make: Any, words: str) -> None:
    with pytest.raises(InvalidData, match=words):
        make()


@pytest.mark.parametrize(
    ("text", "sink"),
    [
        ("log", alert.log()),
        ("log:warning", alert.log("warning")),
        ("https://a.b/c:d", alert.webhook("https://a.b/c:d")),
        (" webhook:http://a.b:8080/ ", alert.webhook("http://a.b:8080/")),
        ("command:notify-send 'a b:c'", alert.command(["notify-send", "a b:c"])),
        ("callback:shop.alerts:tell", alert.callback("shop.alerts:tell")),
    ],
)
def test_sinks_in_a_word(text: str, sink: sinks.Sink) -> None:
    assert alert.parse(text) == sink


@pytest.mark.parametrize("text", ["", "pigeon", "webhook", "command", "ftp://a.b", "callback:x"])
def test_what_is_no_sink_in_a_word(text: str) -> None:
    with pytest.raises(InvalidData):
        alert.parse(text)


def test_nobody_sees_secrets() -> None:
    sink = alert.webhook("https://hooks.example.org/T0/secret?k=hush", {"Authorization": "hush"})
    for shown in (repr(sink), str(sink), sink.label):
        assert "hush" not in shown
        assert "secret" not in shown
    assert "hooks.example.org" in sink.label


def test_what_runs_is_trusted_exactly() -> None:
    command = alert.command("notify-send hello")
    assert not command.may_run([])
    assert not command.may_run(["notify-send", "shop.*", "command:notify"])
    assert command.may_run(["command:notify-send"])
    assert command.may_run(["command:*"])
    assert not alert.command("/tmp/notify-send hello").may_run(["command:notify-send"])
    callback = alert.callback("shop.alerts:tell")
    assert callback.may_run(["shop.*"])
    assert callback.may_run(["shop.alerts:tell"])
    assert not callback.may_run(["command:*"])
    hook = alert.webhook("https://a.b", header_env={"Authorization": "SHOP_TOKEN"})
    assert not hook.may_run(["SHOP_TOKEN", "shop.*"])
    assert not hook.may_run(["env:SHOP_*"])
    assert not hook.may_run(["webhook:a.b"])
    assert hook.may_run(["env:SHOP_*", "webhook:a.b"])
    assert not alert.webhook("https://a.b").may_run([])
    assert not alert.webhook("https://a.b").may_run(["webhook:a", "webhook:b", "a.b"])
    assert alert.webhook("https://A.B:9/x").may_run(["webhook:*.b"])
    assert alert.log().may_run([])


@given(SEVERITIES, SEVERITIES)
def test_a_sink_wants_what_is_at_least_so_bad(least: str, found: str) -> None:
    order = ["info", "warning", "error", "critical"]
    sink = alert.log(severity=least, events=["lag"])
    assert sink.wants("lag", found) == (order.index(found) >= order.index(least))
    assert not sink.wants("merge", found)
