"""Disturbances of worlds of services: they change the path to a state, and never how the state is judged.

A disturbance stands between the agent and the service: it may withhold a call, delay it, or show its result in another
way. `interface` has their base, `world` the disturbed world, `follower` the plan that reaches the outcome through it.
"""
