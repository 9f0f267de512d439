"""The eight tool classes of BFCL's multi-turn tasks (Berkeley Function-Calling Leaderboard) as services.

Tools have the names, arguments, results and error texts of the originals (`bfcl-eval` 2026.3.23, Apache-2.0), whose
prices, cities and initial values are part of that behaviour. A result is the text that the original's runner makes of
it. What differs from the originals:

- Arguments are checked against their types before a tool runs; a refused call changes nothing and has no result.
- Tools share nothing between tasks: there, cards of the long context and default lists of tweets leak into later tasks.
- A traveller's age is counted to the date of the world's clock, and texts that list a set list it in order.
- Numbers, directories and results that would exhaust memory are refused.
"""
