"""The loop: warm start, collect, credit, update, publish, evaluate, checkpoint; import from its modules (they load torch)."""
