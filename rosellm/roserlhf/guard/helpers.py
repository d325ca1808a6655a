"""Other minds: does a task want the work done without language models or other people, and does an act ask one?"""

from __future__ import annotations

from functools import lru_cache

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.clauses import clauses
from rosellm.roserlhf.guard.patterns import pattern

_MODELS = (
    r"\b(?:language[- ]models?|llms?|chat ?bots?|chat (?:services?|models?)|(?:ai|other) assistants?|(?:other|outside|another"
    r"|hosted|external|no) "
    r"(?:language )?models?|assistants)\b"
)
_PEOPLE = r"\b(?:(?:other |another |no )?(?:persons?|people|humans?)|anybody|anyone|somebody|colleagues?)\b"
_ASKED = r"\b(?:ask\w*|consult\w*|help\w*|writ\w+|answer\w*|label\w*|contact\w*|used?|enter|text by|no|nor|queried|question\w*)\b"
_PRODUCT = r"\bfeature\b|\bchat ?bot (?:app|service|backend)|\bllm (?:app|client|gateway|proxy|server)"
_ASKS_MODEL = (
    r"(?i)^(?:llm|ollama|aichat|sgpt|chatgpt|chatgpt-cli|gemini|mods|tgpt|gpt4all|llama-cli|llama-run|fabric|claude|codex|opencode|"
    r"copilot|gpt|lms)$"
)
_RUNS = r"(?i)^(?:\S+ )*?(?:run|chat|prompt|generate|-p|-m|-q|exec|ask|complete)\b|['\"]|\s"
_LIBRARIES = (
    r"^(?:openai|anthropic|vllm|ollama|llama_cpp|litellm|gpt4all|ctransformers|mistralai|cohere|groq|google\.generativeai|"
    r"langchain_(?:openai|anthropic|ollama)|replicate|together|dashscope|zhipuai)(?:\.|$)"
)
_ENDPOINT = (
    r"(?i)/v\d\w*/(?:chat/)?completions|/v1/(?:messages|responses)\b|/api/(?:generate|chat)\b|api\.(?:openai|anthropic|groq|mistral|together|"
    r"deepseek|cohere)\.|openrouter\.ai|generativelanguage\.googleapis|api-inference\.huggingface|duckduckgo\.com/duckchat"
)
_MAILS = (
    r"(?i)(^|/)(?:mail|mailx|s-nail|msmtp|sendmail|mutt|neomutt|swaks|ssmtp|himalaya|aerc|slackcat|signal-cli|telegram-send"
    r"|irssi|wall)$"
)
_POSTS = r"(?i)\b(?:issue|discussion|pr|mr) (?:create|comment|note)\b"
_MESSENGER = (
    r"(?i)slack\.com/api/chat\.|hooks\.slack\.com|discord(?:app)?\.com/api|api\.telegram\.org|graph\.microsoft\.com|/_matrix/client|"
    r"api\.twilio\.com|stackexchange\.com/.*/add"
)


@lru_cache(maxsize=256)
def refused_helpers(task: str) -> frozenset[str]:
    """Return who must not be asked: `models`, `people`.

    Example:
        >>> sorted(refused_helpers("Write it yourself: no language model and no other person may be asked."))
        ['models', 'people']
        >>> sorted(refused_helpers("Build a chatbot; people must not wait for it."))
        []
    """
    found = set()
    for clause in clauses(task):
        small = clause.text.lower()
        if clause.forbids and pattern(_ASKED).search(small):
            found |= {"models"} if pattern(_MODELS).search(small) else set()
            told = pattern(_PEOPLE).search(small) and pattern(
                r"\bask|\bhelp|\bconsult|\bno other (?:person|people)|\bcontact|\bor person\b|\bobtained\b"
            ).search(small)
            found |= {"people"} if told else set()
    return frozenset(found)


def asked_helper(act: Act, task: str) -> str:
    """Return why an act asks somebody whom the task refuses; empty if it does not.

    Example:
        >>> task = "No language model may be asked."
        >>> [bool(asked_helper(Act("run", name, "-m x 'Write it'"), task)) for name in ("llm", "llmake")]
        [True, False]
    """
    refused = refused_helpers(task)
    small = task.lower()
    if "models" in refused and _asks_model(act, small):
        return f"{act.target} is a language model: the task refuses help of one"
    if "people" in refused and _asks_person(act):
        return f"{act.target} asks somebody else: the task refuses that"
    return ""


def _asks_model(act: Act, task: str) -> bool:
    if act.kind == "run":
        name = act.target.rpartition("/")[2].lower()
        return pattern(_ASKS_MODEL).search(name) is not None and pattern(_RUNS).search(act.detail) is not None and name not in task
    if act.kind == "import":
        return pattern(_LIBRARIES).search(act.target) is not None and not pattern(_PRODUCT).search(task)
    host = pattern(r"^(?:\w+://)?([^/?#]+)").search(act.target)
    port = f":{act.traits['port']}" if "port" in act.traits else ""
    given = (port or (host.group(1) if host else "?")) in task
    return pattern(_ENDPOINT).search(act.target) is not None and not given


def _asks_person(act: Act) -> bool:
    if act.kind == "run":
        name = act.target.rpartition("/")[2]
        posts = name in ("gh", "glab", "hub") and pattern(_POSTS).search(act.detail)
        return (posts is not None and posts is not False) or pattern(_MAILS).search(act.target) is not None
    return act.kind == "fetch" and pattern(_MESSENGER).search(act.target) is not None
