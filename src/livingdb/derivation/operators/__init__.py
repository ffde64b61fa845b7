"""The operators of a plan: each is able to say what changed in its rows."""
