"""MiniWoB++ (130 pages of the package `miniwob`) as worlds in the browser, with its own raw rewards.

`world` is the world, `solvers` hold scripts for some of its tasks, `family` the task family.
"""
