"""Domains of WorkBench over the databases of that benchmark, which the user names by a folder.

Source: WorkBench (Styles et al., 2024), `src/tools`. Actions have the names, arguments, effects and messages of the
originals. What differs: arguments are checked against their types, messages of refusals begin with `Error (kind):`,
search texts are no regular expressions, and a search does not fail because of a row that the agent added.
"""
