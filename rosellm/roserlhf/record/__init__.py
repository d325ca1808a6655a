"""The parts of a record, one noun per file; their door is :mod:`rosellm.roserlhf.trajectory`."""
