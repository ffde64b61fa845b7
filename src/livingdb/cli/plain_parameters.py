"""Parameters whose values are taken as they are typed.

Typer builds a validator for every parameter, and imports pydantic to do so: more than opening a
database costs.  What is a text, a flag, a word of a list or not there at all needs none.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from typer import BadParameter
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

__all__ = ["PlainCommand", "PlainGroup"]


class _PlainOption(TyperOption):
    def process_value(self, ctx: Any, value: Any) -> Any:
        """The value as it was typed, if it needs no more."""
        is_plain, found = _plain_value(self, value)
        with _plain_words():
            return _finish(self, ctx, found) if is_plain else super().process_value(ctx, value)


class _PlainArgument(TyperArgument):
    def process_value(self, ctx: Any, value: Any) -> Any:
        """The value as it was typed, if it needs no more."""
        is_plain, found = _plain_value(self, value)
        with _plain_words():
            return _finish(self, ctx, found) if is_plain else super().process_value(ctx, value)


class PlainCommand(TyperCommand):
    """A command with such parameters."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, and the one for help."""
        return [_plain(each) for each in super().get_params(ctx)]


class PlainGroup(TyperGroup):
    """A group of commands with such parameters."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters, and the one for help."""
        return [_plain(each) for each in super().get_params(ctx)]


def _plain(parameter: Any) -> Any:
    kinds: dict[type, type] = {TyperOption: _PlainOption, TyperArgument: _PlainArgument}
    kind = kinds.get(type(parameter))
    if kind is None:
        return parameter
    made = copy.copy(parameter)
    made.__class__ = kind
    return made


def _plain_value(parameter: Any, value: Any) -> tuple[bool, Any]:
    """Whether a value is what the command gets without more ado, and which it is."""
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    takes_many = parameter.multiple or parameter.nargs == -1
    if value is None and kind is not None and not parameter.required:
        return True, () if takes_many else None
    if takes_many or not isinstance(kind, type):
        return False, None
    if isinstance(value, kind):
        return True, value
    if issubclass(kind, Enum) and any(value == each.value for each in kind):
        return True, kind(value)
    return False, None


@contextmanager
def _plain_words() -> Iterator[None]:
    """What is wrong with a value, without the words that the validator puts before it."""
    try:
        yield
    except BadParameter as error:
        error.message = error.message.removeprefix("Value error, ").rstrip(".")
        raise


def _finish(parameter: Any, context: Any, value: Any) -> Any:
    return value if parameter.callback is None else parameter.callback(context, parameter, value)
