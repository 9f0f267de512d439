"""State machines with data, as services: screens, transitions and variables, searched and compiled.

`machine` holds the declaration and the rule of one step, `search` what can be reached and by which shortest way,
`compile` makes a service of it, whose pages are the screens.
"""
