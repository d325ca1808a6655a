"""Messages ↔ token ids: the only place where a mask is born. What was sampled is never tokenised again."""
