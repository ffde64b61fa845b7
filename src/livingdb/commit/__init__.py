"""Commits: how a change is made, carried along every sync it reaches, and stored."""
