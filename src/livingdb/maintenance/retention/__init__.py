"""Retention at work: what keeps what, what goes, and how it goes."""
