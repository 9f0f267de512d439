"""Which attempts are worth learning from, with the reason for each; and what can be learnt from failed ones."""
