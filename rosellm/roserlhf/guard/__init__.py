"""The guard: calls → acts → rules (recall) → judge (precision) → policy; what is confirmed never runs, the episode goes on."""
