"""What ends or refuses what an attempt does: budgets, contracts, early stops."""
