"""Tuning: what was observed, what it costs, what would cost less, and doing that."""
