"""The keys of masks: which one a mask goes by, and where this process finds it.

Records name a key by a fingerprint and by where it comes from, and never hold it.  A key that was
given as text is held by this process alone; one in the environment, or one that a trusted function
gives, is asked for whenever it is needed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from livingdb.derivation.trusted_functions import load_function
from livingdb.errors import InvalidData, LivingDBError, MaskKeyMissing

__all__ = ["MaskKey", "hold_keys"]

_TEXT = "text"
_ENVIRONMENT = "env:"
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")

_held: dict[str, str] = {}
"""The keys that this process was given, by their fingerprints."""


@dataclass(frozen=True)
class MaskKey:
    """A key by where it comes from and its fingerprint; the key itself is not in it.

    source        "text", "env:NAME", "package.module:function", or "" for no key at all
    fingerprint   tells the key from others; "" until the mask is made
    recorded      the key of a mask of earlier formats, which had it in the record
    """

    source: str = ""
    fingerprint: str = ""
    recorded: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, given: object) -> MaskKey:
        """The key that a user names; a text is held by this process from now on."""
        if isinstance(given, MaskKey):
            return given
        if not isinstance(given, str):
            raise InvalidData("a key is text: the key itself, 'env:NAME' or 'module:function'")
        if not given:
            return cls()
        if not given.isascii() and any("\ud800" <= sign <= "\udfff" for sign in given):
            raise InvalidData("a key is Unicode text; this one holds half a character")
        if given.startswith(_ENVIRONMENT):
            if not _VARIABLE.fullmatch(given.removeprefix(_ENVIRONMENT)):
                raise InvalidData(f"{given!r} names no variable; write 'env:NAME'")
            return cls(given)
        if _FUNCTION.fullmatch(given):
            return cls(given)
        hold_keys([given])
        return cls(_TEXT, _fingerprint(given))

    @classmethod
    def of_record(cls, found: str | MaskKey) -> MaskKey:
        """The key that a record names, or, of earlier formats, holds."""
        if isinstance(found, MaskKey):
            return found
        return cls(recorded=found) if found else cls()

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> MaskKey:
        """The inverse of `to_json`, of a key that is not in the record."""
        return cls(str(data["source"]), str(data["fingerprint"]))

    def to_json(self) -> str | dict[str, Any]:
        """The key as records name it."""
        if self.recorded is not None or not self.source:
            return self.recorded or ""
        assert self.fingerprint, "the mask is not made yet"
        return {"$key": {"source": self.source, "fingerprint": self.fingerprint}}

    def sealed(self, trust: Sequence[str] = ()) -> MaskKey:
        """The key as it is now: a mask that is made goes by this one and no other."""
        if self.fingerprint or not self.source:
            return self
        text = self._ask(trust)
        hold_keys([text] if not self._is_in_environment else [])
        return replace(self, fingerprint=_fingerprint(text))

    def find(self, trust: Sequence[str] = ()) -> str:
        """The key itself; `MaskKeyMissing` if this process does not have it.

        A function that gives it has to be trusted once; then this process holds the key.
        """
        if self.recorded is not None or not self.source:
            return self.recorded or ""
        held = _held.get(self.fingerprint)
        if held is not None:
            return held
        try:
            text = self._ask(trust)
        except MaskKeyMissing:
            raise
        except LivingDBError as error:
            raise MaskKeyMissing(f"{self}: {error}") from None
        if self.fingerprint and _fingerprint(text) != self.fingerprint:
            raise MaskKeyMissing(
                f"{self}: {self.source} has another key here ({_fingerprint(text)}); a mask by "
                "another key is another definition: clone(…, replace=True)"
            )
        if not self._is_in_environment:
            hold_keys([text])
        return text

    def is_here(self, trust: Sequence[str] = ()) -> bool:
        """Whether this process has the key."""
        try:
            self.find(trust)
        except MaskKeyMissing:
            return False
        return True

    def __str__(self) -> str:
        shown = f" with the fingerprint {self.fingerprint}" if self.fingerprint else ""
        where = "" if self.source == _TEXT else f" {self.source}"
        return f"the mask's key{where}{shown} is not known to this process"

    @property
    def _is_in_environment(self) -> bool:
        return self.source.startswith(_ENVIRONMENT)

    def _ask(self, trust: Sequence[str]) -> str:
        """The key from where it comes from."""
        if self.source == _TEXT:
            raise MaskKeyMissing(f"{self}: livingdb.open(…, mask_keys=[…]) hands it over")
        if self._is_in_environment:
            name = self.source.removeprefix(_ENVIRONMENT)
            found = os.environ.get(name, "")
            if not found:
                raise MaskKeyMissing(f"{self}: the environment has no {name}")
            return found
        function = load_function(self.source, trust)
        try:
            text = function()
        except Exception as error:  # what it says may hold the key
            raise MaskKeyMissing(f"{self}: the function raised {type(error).__name__}") from None
        if not isinstance(text, str) or not text:
            raise MaskKeyMissing(f"{self}: the function gave no text")
        return text


def hold_keys(keys: Iterable[str]) -> None:
    """Let this process have keys, for masks that were made with them here or elsewhere."""
    if isinstance(keys, (str, bytes)):
        raise InvalidData("mask_keys is a list of keys")
    for key in keys:
        if not isinstance(key, str) or not key:
            raise InvalidData("a key of a mask is a text that is not empty")
        _held[_fingerprint(key)] = key


@lru_cache(maxsize=256)
def _fingerprint(key: str) -> str:
    """What tells a key from others; finding a key by trying is slow."""
    return hashlib.scrypt(
        key.encode(), salt=b"livingdb mask key", n=1 << 14, r=8, p=1, dklen=8
    ).hex()
