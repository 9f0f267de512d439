"""Combinators: agents that let other agents try a task several times, and hand in one result."""
