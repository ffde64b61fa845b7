"""Processes of this machine are told apart, also from those that had their numbers before."""

from __future__ import annotations

import os

from livingdb.files.processes import has_ended, process_name


def ended_process() -> str:
    """What a process was called that is gone."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, process_name().encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="ascii") as pipe:
        name = pipe.read()
    os.waitpid(child, 0)
    return name


def test_a_process_that_has_ended() -> None:
    assert not has_ended(process_name())
    assert has_ended(ended_process())
    host, number, start, machine = process_name().split(":")
    assert has_ended(f"{host}:{number}:{int(start) + 1}:{machine}"), "another had the number"


def test_of_others_nothing_is_known() -> None:
    for name in ("", "elsewhere:1:2:3", "nothing", process_name().replace(":", ";")):
        assert not has_ended(name)
