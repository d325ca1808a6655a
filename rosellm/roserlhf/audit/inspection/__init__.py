"""The inspection of a run folder: every file against its own hashes and laws, then against the others."""
