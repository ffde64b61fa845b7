"""What errors advise, in the words of the shell: their own are calls of Python."""

from __future__ import annotations

import re

__all__ = ["shell_advice"]

_NAME = r"""['"](?P<name>[^'"]+)['"]"""
_VERBS = "(?P<verb>detach|reattach|resume|approve)"
_ADVICE = [
    (re.compile(pattern), instead)
    for pattern, instead in (
        (
            rf"db\.sync\({_NAME}\)\.resume\(\) or \.approve\(by=…\)",
            r"livingdb sync \g<name> resume, or approve,",
        ),
        (rf"db\.sync\({_NAME}\)\.{_VERBS}\([^)]*\)", r"livingdb sync \g<name> \g<verb>"),
        (rf"db\.sync\((?P<name>…|name)\)\.{_VERBS}\([^)]*\)", r"livingdb sync NAME \g<verb>"),
        (rf"db\.refresh\({_NAME}\)", r"livingdb refresh \g<name>"),
        (rf"db\.branch\({_NAME}\)", r"livingdb --branch \g<name>"),
        (r"db\.propagate\(\)", "livingdb propagate"),
        (r"db\.tune\(\)", "livingdb tune"),
        (r"db\.set_default_branch\(name\)", "livingdb branch default NAME"),
        (rf"livingdb\.open\(…, trust=\[{_NAME}\]\)", r"--trust '\g<name>'"),
        (r"use `livingdb\.open`", "--db names it"),
        (r"`livingdb\.create`", "`livingdb init`"),
        (r"\bbranch\.sql\(…\)", "livingdb --branch NAME sql"),
        (r"\b(detach|derived|force|replace)=True\b", r"--\1"),
        (r"\b(keep|to)= ", r"--\1 "),
        (r"\b(granularity|policy)=['\"](\w+)['\"]", r"--\1 \2"),
        (r"\bon_(break|conflict)=['\"](\w+)['\"]", r"--on-\1 \2"),
    )
]


def shell_advice(message: str) -> str:
    """The message as somebody at a shell can follow it."""
    for pattern, instead in _ADVICE:
        message = pattern.sub(instead, message)
    return message
