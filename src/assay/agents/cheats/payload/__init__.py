"""Scripts that cheats run inside a sandbox, sent as text: each is self-contained, uses the standard library alone, and
takes JSON as its one argument."""
