"""The plan compiler: from a view's query to the stages that maintain it."""
