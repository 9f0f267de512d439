"""Programs that admission starts inside a sandbox. Standard library alone; they import nothing of ours.

`program_calls.py`: runs a program in the place of itself and records what each call of it left.
"""
