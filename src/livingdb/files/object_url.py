"""URLs of object stores: taken apart once, so that their secrets go nowhere else."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from livingdb.errors import InvalidName
from livingdb.files.paths import check_folder

__all__ = ["SCHEMES", "ObjectURL"]

SCHEMES = {
    "gs": ("endpoint_override", "project_id", "retry_limit_seconds", "scheme"),
    "s3": ("endpoint_override", "region", "scheme", "tls_ca_file_path"),
}
"""The schemes of object stores, and the options each takes in a URL's query."""

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ENDPOINT = re.compile(r"[A-Za-z0-9._-]+(:[0-9]+)?|\[[0-9a-fA-F:]+\](:[0-9]+)?")
_NOT_SECRET = ("", "anonymous")


@dataclass(frozen=True, slots=True)
class ObjectURL:
    """`scheme://[key:secret@]bucket/prefix?options`; only `safe` is fit to be shown."""

    scheme: str
    bucket: str
    prefix: str
    options: tuple[tuple[str, str], ...]
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @classmethod
    def parse(cls, url: str) -> Self:
        """Take the URL apart; what is wrong with it is said without repeating any of it."""
        try:
            parts = urlsplit(url)
            options = tuple(sorted(parse_qsl(parts.query, strict_parsing=bool(parts.query))))
        except ValueError:
            raise InvalidName("this object store URL cannot be read") from None
        userinfo, _, bucket = parts.netloc.rpartition("@")
        user, _, password = userinfo.partition(":")
        if not _BUCKET.fullmatch(bucket) or "@" in parts.path or parts.fragment:
            raise InvalidName(
                "an object store URL is scheme://bucket/prefix?options, where '/', '@', '#' and "
                "'?' in a key or secret before the bucket are percent-encoded"
            )
        if parts.scheme == "gs" and userinfo not in _NOT_SECRET:
            raise InvalidName("a gs:// URL takes no key; credentials come from the environment")
        _check_options(parts.scheme, dict(options))
        prefix = check_folder(unquote(parts.path).strip("/"))
        return cls(parts.scheme, bucket, prefix, options, unquote(user), unquote(password))

    @property
    def root(self) -> str:
        """The bucket and, below it, the prefix."""
        return f"{self.bucket}/{self.prefix}" if self.prefix else self.bucket

    @property
    def safe(self) -> str:
        """The URL without its secrets; opening it takes them from the environment."""
        userinfo = "anonymous@" if self.user == "anonymous" else ""
        return self._assemble(userinfo, self.options)

    def secret(self, **more_options: str) -> str:
        """The whole URL, for the library that opens it and for nobody else."""
        userinfo = quote(self.user, safe="") if self.user else ""
        if self.password:
            userinfo += ":" + quote(self.password, safe="")
        merged = tuple({**dict(self.options), **more_options}.items())
        return self._assemble(userinfo and userinfo + "@", merged)

    def scrub(self, text: str) -> str:
        """The text with everything secret in this URL struck out."""
        for word in sorted({self.user, self.password}, key=len, reverse=True):
            if word not in _NOT_SECRET:
                for form in (word, quote(word, safe=""), quote(word)):
                    text = text.replace(form, "***")
        return text

    def _assemble(self, userinfo: str, options: tuple[tuple[str, str], ...]) -> str:
        path = "/" + quote(self.prefix) if self.prefix else ""
        query = "?" + urlencode(options) if options else ""
        return f"{self.scheme}://{userinfo}{self.bucket}{path}{query}"


def _check_options(scheme: str, options: dict[str, str]) -> None:
    allowed = SCHEMES[scheme]
    if not options.keys() <= set(allowed):
        raise InvalidName(f"a {scheme}:// URL takes these options only: {', '.join(allowed)}")
    if "scheme" in options and options["scheme"] not in ("http", "https"):
        raise InvalidName("the option scheme is http or https")
    if "endpoint_override" in options and not _ENDPOINT.fullmatch(options["endpoint_override"]):
        raise InvalidName("the option endpoint_override is a host, or host:port")
