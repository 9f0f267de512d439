"""Sessions and event streams of Codex."""
