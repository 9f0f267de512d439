"""Which attempts come next, and running them."""
