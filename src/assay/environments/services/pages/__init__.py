"""Pages of a world of services: the tools as a web site, rendered on the server, for people and browser agents.

`site` answers requests, `catalog` says which pages there are, `fields` reads and writes forms, `results` shows what a
call returned, `theme` draws the looks from a seed.
"""
