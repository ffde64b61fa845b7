"""Advisors: each looks at the evidence for one thing that might cost less."""
