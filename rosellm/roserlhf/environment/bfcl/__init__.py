"""The Berkeley function-calling leaderboard's multi-turn tasks: `files → task → world of stateful tools → exact state verifier`.

Tasks, tool documents, tool classes and ground truth are read from the package `bfcl-eval`; its own evaluation, which runs calls
with `eval` and keeps instances in module globals, is not used.
"""
