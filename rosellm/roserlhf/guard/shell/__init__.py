"""Shell commands -> acts: parsed with tree-sitter's bash grammar, evaluated as far as that goes without running anything.

The door is `acts_of_shell`. Words are expanded (`words`, `parameter`, `text`), statements are followed with the shell's state
(`statements`, `state`), programs do what the tables in `programs/*.toml` say of their arguments (`program`) or what a reader
of their own finds (`builtins`, `interpreters`, `filters`, ...).
"""

from __future__ import annotations

from rosellm.roserlhf.guard.shell.door import acts_of_shell as acts_of_shell

__all__ = ["acts_of_shell"]
