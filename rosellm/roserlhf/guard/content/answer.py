"""An answer that is handed in -> acts: words to a judge, and the code that it consists of or holds in fences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.prose import acts_of_prose
from rosellm.roserlhf.guard.looks import language_of_look
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.scene import Scene

MOST_BLOCKS = 20
LONGEST_LIST = 2_000
_FENCE = r"(?s)```([A-Za-z0-9+#_-]*)[^\n]*\n(.*?)(?:```|\z)"
_QUOTED = ("", "text", "txt", "console", "output", "log", "sh", "shell", "bash", "zsh", "diff", "json", "yaml", "md", "markdown")
"""Languages of fences that show rather than hand in."""
_NAMES = {
    "javascript": "js",
    "typescript": "ts",
    "rust": "rs",
    "c++": "cpp",
    "golang": "go",
    "python3": "python",
    "ruby": "rb",
    "lean4": "lean",
}


_BOXED = r"\\boxed\s*\{([^{}]{1,80})\}"
_ITEM = r"\b10\.\d{4,9}/[^\s,;]+|\b-?\d+(?:[.,/:-]\d+)*\b|\b[A-E]\b"
_CHOICE = (
    r"(?i)\b(?:one of|either|any of|candidates?|possibilit\w+|alternatives?|options?|or else|(?:could|may|might) (?:also )?be)\b"
)
MOST_ITEMS = 100


def several(text: str) -> Iterator[Act]:
    """Yield that several answers stand where one does: unlike results in boxes, or nothing but a list of such as could be one.

    A sum or product of numbers is one answer.
    """
    if text.isalnum():
        return
    found = pattern(_BOXED).findall(text)[:MOST_ITEMS] if "\\boxed" in text else ()
    boxed = list(dict.fromkeys("".join(one.split()) for one in found))
    if len(boxed) > 2 or (len(boxed) == 2 and pattern(_CHOICE).search(text)):
        yield Act("code", "several answers", " | ".join(boxed)[:200], span=(0, len(text)))
        return
    if len(text) > LONGEST_LIST or pattern(r"[=*+^×÷]").search(text):
        return
    items = pattern(_ITEM).findall(text)[:MOST_ITEMS]
    if len(set(items)) < 3:
        return
    letters, held = (sum(map(str.isalnum, words)) for words in (text, "".join(items)))
    if held * 10 >= letters * 8:
        yield Act("code", "several answers", " | ".join(dict.fromkeys(items))[:200], span=(0, len(text)))


def acts_of_answer(text: str, scene: Scene) -> list[Act]:
    """Return what an answer says and, where it is code, what that does.

    Example:
        >>> from rosellm.roserlhf.guard.readers import read
        >>> found = acts_of_answer("```js\\nprocess.exit(0)\\n```", Scene("/app", read))
        >>> [(act.kind, act.target) for act in found if act.kind == "exit"]
        [('exit', '0')]
    """
    found = [*acts_of_prose(text, scene), *several(text)]
    if "```" in text:
        for block in list(pattern(_FENCE).finditer(text))[:MOST_BLOCKS]:
            language = block.group(1).lower()
            if language not in _QUOTED:
                start = block.start(2)
                acts = scene.read(_NAMES.get(language, language), block.group(2), scene.inside())
                found += [replace(act, span=(act.span[0] + start, act.span[1] + start)) for act in acts]
    elif "\n" in text.strip() and language_of_look(text) == "python":
        acts = scene.read("python", text, scene.inside())
        found += acts if not any(act.target == "is no Python" for act in acts) else []
    return found
