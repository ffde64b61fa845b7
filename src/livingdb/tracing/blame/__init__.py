"""Blame and history: which edits gave rows the values they have and have had."""
