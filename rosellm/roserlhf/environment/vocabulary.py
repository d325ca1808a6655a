"""Pieces of text that several environments want kept whole by the built-in tokenizer."""

DIGIT_PAIRS = tuple(f"{pair:02d}" for pair in range(100))
"""Numbers are read two digits at a time, as large tokenizers read three: copying 1121 digit by digit invites 1111."""
