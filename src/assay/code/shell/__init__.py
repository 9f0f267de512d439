"""Analysis of shell scripts: where may text that the script does not write itself be evaluated?

`syntax` parses, `words` expands words symbolically, `commands` holds the rules of commands, `analysis` walks a script.
"""
