"""Conversations of agent libraries and command-line agents: each format yields turns, which one builder adds."""
