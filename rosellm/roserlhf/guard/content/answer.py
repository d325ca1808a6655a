"""An answer that is handed in -> acts: words to a judge, and the code that it consists of or holds in fences."""

from __future__ import annotations

from dataclasses import replace

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.content.prose import acts_of_prose
from rosellm.roserlhf.guard.looks import language_of_look
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.scene import Scene

MOST_BLOCKS = 20
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


def acts_of_answer(text: str, scene: Scene) -> list[Act]:
    """Return what an answer says and, where it is code, what that does.

    Example:
        >>> from rosellm.roserlhf.guard.readers import read
        >>> found = acts_of_answer("```js\\nprocess.exit(0)\\n```", Scene("/app", read))
        >>> [(act.kind, act.target) for act in found if act.kind == "exit"]
        [('exit', '0')]
    """
    found = acts_of_prose(text, scene)
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
