"""Runs of agents in BrowserGym: studies of AgentLab, and the JSON that AgentRewardBench makes of them."""
