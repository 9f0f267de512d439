"""Tasks on sites that are compiled from state machines.

`domains` holds the words of ten sites, `drawing` draws a machine of a domain, `family` makes tasks by breadth-first
search.
"""
