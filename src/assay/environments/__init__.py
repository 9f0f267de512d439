"""Environments in which agents act: sandboxed workspaces and in-process worlds. An environment reports facts and never
judges."""
