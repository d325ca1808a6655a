"""How the records of a run hang together: `records -> contexts, rollouts, counts`."""
