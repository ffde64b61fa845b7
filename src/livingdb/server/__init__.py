"""The ways in over a network: HTTP, and Arrow Flight SQL beside it.

Nothing is imported until a server is asked for: the libraries are those of the extra `server`.
"""
