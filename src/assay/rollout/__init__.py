"""Plan, schedule, budget, run, resume. The run's only writer to the store."""
