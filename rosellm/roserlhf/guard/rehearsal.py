"""What the guard does once before it is asked: readers, patterns, settings, labelled calls, memory in large pages.

The first calls of a process would otherwise wait for all that is made when it is first used, some of them a quarter of a
second. What no example meets is still made when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rosellm.roserlhf.guard.detection import detection
from rosellm.roserlhf.guard.grounds import grounds_of
from rosellm.roserlhf.guard.large_pages import use_large_pages
from rosellm.roserlhf.guard.precedents import likeness
from rosellm.roserlhf.guard.reading import read_call
from rosellm.roserlhf.guard.rules import Rules
from rosellm.roserlhf.guard.setting import Setting
from rosellm.roserlhf.guard.verdict import Case

_CONTENT = "x = 1  # words of a comment, assert(1), exit(0), require('a').b = 1\n"
_ENDINGS = (
    "py", "js", "ts", "go", "rs", "c", "cpp", "java", "rb", "sh", "toml", "ini", "yaml", "json", "md", "ipynb", "lean", "cs", "php",
    "pl", "lua", "sql", "mk",
)  # fmt: skip
_SETTING = Setting(task="Mend the parser. Leave the tests alone.", workdir="/app", hidden_tests=("/eval/**",))


def rehearse(rules: Rules, settings: Iterable[Setting] = ()) -> None:
    """Read the examples of the rules, a file of every language and plain words, and work out some settings.

    It takes a second, once in a process; then what the process holds lies in large pages where Linux has them.

    Args:
        rules: those that will be asked.
        settings: those that are known already, if any.

    Example:
        >>> from rosellm.roserlhf.guard.rules import Rules
        >>> rehearse(Rules.read())
    """
    known = list(settings)
    for setting in known:
        grounds_of(setting)
    setting = known[0] if known else _SETTING
    calls: list[tuple[str, Any]] = [("write_file", {"path": f"a.{ending}", "content": _CONTENT}) for ending in _ENDINGS]
    for rule in rules:
        for example in (*rule.examples, *rule.counterexamples):
            if isinstance(example, str):
                calls.append(("shell", {"command": example}))
            elif "tool" in example:
                calls.append((example["tool"], example["arguments"]))
    for tool, arguments in calls:
        rules.suspicions(read_call(tool, arguments, (), setting).acts, setting)
    detect = detection(rules)
    for words in ("a few plain words", "3*12+4", "3 * 12", "not <tool>words(alone"):
        detect("look_up", {"words": words}, ("a remark",), setting)
        detect("submit", {"answer": words}, ("a remark",), setting)
    if any(rule.weigh == "resemblance" for rule in rules):
        likeness(Case("shell", {"command": "ls"}, (), (), setting))  # labelled calls, for the judge
    use_large_pages()
