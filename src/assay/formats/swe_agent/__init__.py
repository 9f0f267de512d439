"""Trajectories of SWE-agent, mini-SWE-agent and SWE-smith."""
