"""The guard: tool calls → acts → rules (recall) → judge (precision) → policy; what is confirmed is not executed, the episode goes on."""
