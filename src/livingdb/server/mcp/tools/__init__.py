"""What an agent can do, a file for each subject; each method of a class is a tool.

Docstrings and the descriptions of parameters are written for agents: they are told them.
"""
