"""Statements that no grammar of Spark has, read word by word from the parser's tokens."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from livingdb.sql.parse import tokenize

__all__ = ["TokenReader"]

_ENDS = (TokenType.COMMA, TokenType.EQ, TokenType.L_PAREN, TokenType.R_PAREN)
_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING)


class TokenReader:
    """Goes through a statement from left to right; a `;` at its end does not count."""

    def __init__(self, text: str):
        tokens = tokenize(text)
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


def _word(token: Token) -> str:
    return "" if token.token_type in _QUOTED else str(token.text).upper()
