"""Runs attempts on many machines: a coordinator leases them to node agents, which commit results to an object store.

The object store decides which attempts are finished; every object in it is created once and never changed. Coordinator
and agents keep everything else in memory and may die at any moment. No engine is imported here: Ray, a batch system or
plain processes place the agents and carry the messages.
"""
