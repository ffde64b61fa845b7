"""Lenses: what carries rows between two schemas, in both directions."""
