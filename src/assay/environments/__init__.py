"""Where agents act: workspaces (sandboxed files and a shell). An environment reports facts; it never judges."""
