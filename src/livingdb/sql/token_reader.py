"""Statements that no grammar of Spark has, read word by word from the parser's tokens."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from sqlglot.tokenizer_core import Token, TokenType

from livingdb.sql.parse import tokenize

__all__ = ["TokenReader"]

_ENDS = (TokenType.COMMA, TokenType.EQ, TokenType.L_PAREN, TokenType.R_PAREN)
_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)
_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)
_TEXTS = tuple(kind for kind in TokenType if kind.name.endswith("STRING"))
_WORD = re.compile(r"\w+")
_WORDS = re.compile(r"\w+(?:\s+\w+)+")


class TokenReader:
    """Goes through a statement from left to right; a `;` at its end does not count."""

    def __init__(self, text: str):
        tokens = list(_single_words(tokenize(text), text))
        while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
            tokens.pop()
        self.text = text[: tokens[-1].end + 1] if tokens else ""
        self._tokens = tokens
        self._at = 0

    @property
    def is_done(self) -> bool:
        """Whether nothing is left."""
        return self._at >= len(self._tokens)

    @property
    def has_statements(self) -> bool:
        """Whether there is more than one statement."""
        return any(token.token_type == TokenType.SEMICOLON for token in self._tokens)

    @property
    def rest(self) -> str:
        """What is left, as it is written."""
        return "" if self.is_done else self.text[self._tokens[self._at].start :]

    def take(self, *words: str) -> bool:
        """Whether these words come next, in any case and not in quotes; then they are passed."""
        following = self._tokens[self._at : self._at + len(words)]
        if [_word(token) for token in following] != list(words):
            return False
        self._at += len(words)
        return True

    def is_next(self, *words: str) -> bool:
        """Whether one of these words comes next, in any case and not in quotes."""
        return not self.is_done and _word(self._tokens[self._at]) in words

    def word_at(self, offset: int) -> str:
        """A word that comes later, in upper case: 0 is the next; empty if there is none."""
        at = self._at + offset
        return _word(self._tokens[at]) if at < len(self._tokens) else ""

    def ends_at(self, offset: int) -> bool:
        """Whether there are no more words and signs than that."""
        return self._at + offset >= len(self._tokens)

    def take_one(self, *words: str) -> str | None:
        """Which of these words comes next, if one does; then it is passed."""
        return next((word for word in words if self.take(word)), None)

    def take_value(self) -> str | None:
        """A name or a value: what is in quotes, or what stands together up to a blank or a sign.

        None if there is none.
        """
        if self.is_done or self._tokens[self._at].token_type in _ENDS:
            return None
        first = self._tokens[self._at]
        self._at += 1
        if first.token_type in _QUOTED:
            return str(first.text)
        last = first
        while not self.is_done:
            token = self._tokens[self._at]
            if token.start != last.end + 1 or token.token_type in _ENDS:
                break
            last = token
            self._at += 1
        return self.text[first.start : last.end + 1]

    def take_name(self) -> str | None:
        """The name of one thing: in quotes, or without a dot.  None if there is none."""
        at = self._at
        is_quoted = not self.is_done and self._tokens[at].token_type in _QUOTED
        name = self.take_value()
        if name is None or is_quoted or "." not in name:
            return name
        self._at = at
        return None

    def take_identifier(self) -> str | None:
        """A name as one word, or in backticks or double quotes.  None if there is none."""
        if self.is_done:
            return None
        token = self._tokens[self._at]
        is_name = token.token_type == TokenType.IDENTIFIER or (
            self.text[token.start] == '"' and token.token_type == TokenType.STRING
        )
        written = self.text[token.start : token.end + 1]
        if not is_name and (token.token_type == TokenType.NUMBER or not _WORD.fullmatch(written)):
            return None
        self._at += 1
        return str(token.text)

    def take_parenthesized(self) -> str | None:
        """What stands in parentheses, as it is written.  None if they do not come next, or end."""
        start = self._at
        if not self.take("("):
            return None
        first = self._at
        while not self.is_done:
            if self.take(")"):
                closing = self._tokens[self._at - 1]
                return self.text[self._tokens[first - 1].end + 1 : closing.start].strip()
            self._skip_group()
        self._at = start
        return None

    def take_until(self, words: Collection[str]) -> str:
        """All up to a comma, a closing sign or one of the words, outside parentheses, as written.

        The first word or sign is taken whatever it is, unless it is such a sign.
        """
        start = self._at
        while not self.is_done:
            token = self._tokens[self._at]
            is_end = token.token_type in (TokenType.COMMA, *_CLOSING)
            if is_end or (self._at > start and _word(token) in words):
                break
            self._skip_group()
        if self._at == start:
            return ""
        return self.text[self._tokens[start].start : self._tokens[self._at - 1].end + 1]

    def _skip_group(self) -> None:
        """Pass one word or sign, or what stands in parentheses or brackets."""
        depth = 0
        while not self.is_done:
            kind = self._tokens[self._at].token_type
            depth += (kind in _OPENING) - (kind in _CLOSING)
            self._at += 1
            if depth <= 0:
                return

    def seek_last(self, *words: str) -> bool:
        """Go to the last place where one of these words stands; False if none does."""
        for at in range(len(self._tokens) - 1, -1, -1):
            if _word(self._tokens[at]) in words:
                self._at = at
                return True
        return False

    @property
    def text_before(self) -> str:
        """What came before, as it is written."""
        return self.text if self.is_done else self.text[: self._tokens[self._at].start].rstrip()


def _single_words(tokens: list[Token], text: str) -> Iterator[Token]:
    """The tokens with those of several words (PRIMARY KEY) taken apart."""
    for token in tokens:
        written = text[token.start : token.end + 1]
        if token.token_type == TokenType.IDENTIFIER or not _WORDS.fullmatch(written):
            yield token
            continue
        for found in _WORD.finditer(written):
            place = token.start + found.start(), token.start + found.end() - 1
            yield Token(TokenType.VAR, found.group(), token.line, token.col, *place)


def _word(token: Token) -> str:
    is_quoted = token.token_type == TokenType.IDENTIFIER or token.token_type in _TEXTS
    return "" if is_quoted else str(token.text).upper()
