"""Which method a call takes: prices, attempts, and the strategy that meets the requested error at the least cost."""
