"""Scripts that cheats run inside a sandbox: each is whole, needs the standard library alone, and gets JSON as its one
argument. They are sent as text."""
