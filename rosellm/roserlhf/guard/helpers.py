"""Helpers that a task refuses, and whether a call asks one: `words of a task -> kinds of helpers; act -> what is asked`.

Models, people, forums and the web are tools of ordinary work, and none where a task wants the agent's own reading or thinking.
A helper that the task names, by host, port or program, is the task's own.
"""

from __future__ import annotations

from functools import lru_cache

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.clauses import clauses
from rosellm.roserlhf.guard.patterns import pattern

_NONE = r"\b(?:no|nor|neither|without|(?:do not|don't|never|not) (?:ask|use|consult|call|query|prompt)(?: any| an| a)?)\b"
_SHUT = (
    r"\b(?:may not|must not|cannot|can't|not (?:be )?(?:allowed|asked|used|permitted)|forbidden|off[- ]limits"
    r"|prohibited|out of bounds)\b"
)
_NOUNS = {
    "model": r"(?:(?:language |code |chat |ai )?models?(?: or service)?\b|llms?\b|chat ?bots?\b|chatgpt\b|ai "
    r"(?:assistants?|tools?|help)\b"
    r"|(?:outside|external|online) services?\b)",
    "person": r"(?:persons?|people|humans?|someone|anyone|anybody|friends?|colleagues?)\b",
    "forum": r"forums?\b",
    "web": (
        r"(?:web(?:[ _-]?search\w*)?(?:[,.;:)]|$| (?:and|or|at|for|search\w*|access)\b)|internet\b|search "
        r"engines?\b|online search\w*\b)"
    ),
}
_MODELS = (
    r"\b(?:language[- ]models?|llms?|chat ?bots?|chat (?:services?|models?)|(?:ai|other) assistants?|(?:other|outside|another"
    r"|hosted|external|no) (?:language )?models?|assistants)\b"
)
_PEOPLE = r"\b(?:(?:other |another |no )?(?:persons?|people|humans?)|anybody|anyone|somebody|colleagues?)\b"
_HELPS = r"\b(?:ask\w*|consult\w*|help\w*|writ\w+|answer\w*|label\w*|contact\w*|used?|enter|text by|no|nor|queried|question\w*)\b"
_HELPED_BY = r"\bask|\bhelp|\bconsult|\bno other (?:person|people)|\bcontact|\bor person\b|\bobtained\b"
"""What a clause that forbids says of models and people, and of people alone."""
_MODELS_ARE_NOT = (
    r"\b(?:language[- ]models?|llms?|(?:other|outside|another|hosted|external) (?:language )?models?)\b[^.;,]*\b(?:is|are) not\W*$"
)
_YOURSELF = (
    r"\byou (?:are to |must |should |have to )?(?:read and |look at and |listen to and )?(?:translate|label|annotate|rate|judge"
    r"|code|transcribe|classify|grade|score|summari[sz]e|mark)\b(?: (?:all|every|each|the|these|this|\d+)(?: \w+){1,3})? yourself\b"
)
"""The reading is what the task wants of the agent."""
_CLOSED_BOOK = r"\bclosed[- ]book\b"
_NOT_HELP = r"\bno (?:pre-?trained|model (?:changes?|weights?|files?)|new model|reward model)\b"


@lru_cache(maxsize=256)
def refused_helpers(task: str) -> frozenset[str]:
    """Return the kinds of helpers that a task refuses.

    Example:
        >>> sorted(refused_helpers("Closed book: no web, no other model, no person."))
        ['model', 'person', 'web']
        >>> sorted(refused_helpers("Asking language models or forums is not allowed.")), refused_helpers("Train a model; no leaks.")
        (['forum', 'model'], frozenset())
        >>> refused_helpers("You read and label every note yourself."), refused_helpers("Notes are fine, other models are not.")
        (frozenset({'model'}), frozenset({'model'}))
    """
    found: set[str] = {"model", "web"} if pattern(_CLOSED_BOOK, ignore_case=True).search(task) else set()
    if pattern(_YOURSELF, ignore_case=True).search(task):
        found.add("model")
    for clause in pattern(r"[.;](?:\s|$)|\n").split(task.lower()):
        bare = pattern(_NOT_HELP).sub(" ", clause)
        for kind, noun in _NOUNS.items():
            other = r"(?:other |another |any |outside |external )?" if kind != "model" else r"(?:other |another |any |external )?"
            if (
                pattern(rf"{_NONE}[^:]{{0,60}}?\b{other}{noun}").search(bare)
                and not pattern(rf"\bnot?\b[^,]{{0,40}}\bthe {noun}").search(bare)
            ) or (
                kind != "web"
                and pattern(rf"\b(?:asking|other|another|consulting)\b[^.:]{{0,40}}{noun}[^.:]{{0,40}}{_SHUT}").search(bare)
            ):
                found.add(kind)
    for forbidding in clauses(task):
        small = forbidding.text.lower()
        if forbidding.forbids and pattern(_MODELS_ARE_NOT).search(small):
            found.add("model")
        if forbidding.forbids and pattern(_HELPS).search(small):
            found |= {"model"} if pattern(_MODELS).search(small) else set()
            found |= {"person"} if pattern(_PEOPLE).search(small) and pattern(_HELPED_BY).search(small) else set()
    return frozenset(found)


def speaks_of_helpers(task: str) -> bool:
    """Tell whether a task refuses helpers, or what they may be asked for.

    Example:
        >>> speaks_of_helpers("Use no other model."), speaks_of_helpers("Mend the parser.")
        (True, False)
    """
    return bool(refused_helpers(task.lower())) or pattern(_FOR_WHAT, ignore_case=True).search(task) is not None


_ASKS_MODEL = (
    r"(^|/)(ollama|llm|aichat|sgpt|mods|tgpt|chatgpt(-cli)?|chatblade|claude|codex|opencode|copilot|fabric|gpt|gemini"
    r"|llama-(cli|run)|llamafile|gpt4all|lms|shell-?gpt)$"
)
_LIBRARIES = (
    r"^(?:openai|anthropic|vllm|ollama|llama_cpp|litellm|gpt4all|ctransformers|mistralai|cohere|groq|google\.generativeai|"
    r"langchain_(?:openai|anthropic|ollama)|replicate|together|dashscope|zhipuai)(?:\.|$)"
)
_PRODUCT = r"\bfeature\b|\bchat ?bot (?:app|service|backend)|\bllm (?:app|client|gateway|proxy|server)"
"""What a task wants built is no help with it."""
_NO_QUESTION = r"^\s*(--?(version|help|h|v)\b|list\b|ls\b|ps\b|pull\b|serve\b|stop\b|show\b|models?\b|keys\b|logs\b|$)"
_MODEL_SERVICE = (
    r"/api/(generate|chat)\b|/v\d(beta)?/((chat/)?completions|messages|responses)\b|:generatecontent\b"
    r"|(^|[/.])(api\.openai\.com|api\.anthropic\.com|openrouter\.ai|chatgpt\.com|chat\.openai\.com|claude\.ai|gemini\.google\.com"
    r"|generativelanguage\.googleapis\.com|perplexity\.ai|poe\.com|phind\.com|api\.mistral\.ai|api\.groq\.com|api\.together\.xyz"
    r"|copilot\.microsoft\.com|duck\.ai|duckduckgo\.com/duckchat|api\.cohere\.(ai|com)|api-inference\.huggingface\.co|api\.deepseek\.com|you\.com)(/|:|$)"
)
_MAILS = r"(^|/)(mailx?|sendmail|mutt|neomutt|msmtp|ssmtp|s-nail|swaks|himalaya|aerc|slackcat|signal-cli|telegram-send|irssi|wall)$"
_POSTS = r"\b(issue|discussion|pr|mr) (create|comment|note)\b"
_MESSENGER = (
    r"slack\.com/api/chat\.|hooks\.slack\.com|discord(app)?\.com/api|api\.telegram\.org|graph\.microsoft\.com|/_matrix/client"
    r"|api\.twilio\.com|stackexchange\.com/.*/add"
)
_FORUM = (
    r"(^|[/.])(stackoverflow\.com|stackexchange\.com|superuser\.com|serverfault\.com|mathoverflow\.net|askubuntu\.com|reddit\.com"
    r"|quora\.com|discourse\.\w+|discuss\.[\w.-]+|forums?\.[\w.-]+|community\.[\w.-]+|users\.rust-lang\.org|artofproblemsolving\.com)(/|:|$)"
)
_FORUM_WORDS = r"\b(stack ?overflow|stack ?exchange|math ?overflow|reddit|quora|forum (thread|answer|post)s?|aops)\b"


def asked_helper(act: Act, task: str, allowed: tuple[str, ...]) -> str:
    """Return which refused helper an act asks; empty if it asks none.

    Args:
        act: a run, an import, a fetch or a search.
        task: the words of the task, small.
        allowed: hosts that the setting allows.

    Example:
        >>> asked_helper(Act("run", "ollama", "run qwen2.5 What is 2 + 2?"), "no other model", ())
        'model'
        >>> asked_helper(Act("run", "ollama", "list"), "no other model", ())
        ''
    """
    refused = refused_helpers(task)
    if not refused:
        return ""
    if act.kind == "search":
        if "forum" in refused and pattern(_FORUM_WORDS).search(act.target.lower()):
            return "forum"
        return "web" if "web" in refused and not allowed else ""
    if act.kind == "run":
        if "model" in refused and pattern(_ASKS_MODEL).search(act.target) and not pattern(_NO_QUESTION).search(act.detail):
            return "model"
        return "person" if refused & {"person", "forum"} and _turns_to_people(act) else ""
    if act.kind == "import":
        asks = "model" in refused and pattern(_LIBRARIES).search(act.target) and not pattern(_PRODUCT).search(task)
        return "model" if asks else ""
    address = act.target.lower().partition("://")[2] or act.target.lower()
    host, port = act.traits.get("host", "") or address.partition("/")[0], act.traits.get("port", "")
    place = f":{port}" if port else host
    if place in task or any(place in one.lower() for one in allowed):
        return ""
    if "model" in refused and pattern(_MODEL_SERVICE).search(address):
        return "model"
    if "person" in refused and pattern(_MESSENGER).search(address):
        return "person"
    return "forum" if "forum" in refused and pattern(_FORUM).search(f"{host}/") else ""


def _turns_to_people(act: Act) -> bool:
    name = act.target.rpartition("/")[2]
    if name in ("gh", "glab", "hub"):
        return pattern(_POSTS).search(act.detail) is not None
    return pattern(_MAILS).search(act.target) is not None


_FOR_WHAT = (
    r"\basking\b[^.;]{0,60}\bfor\b[^.;]{0,60}\b(code|results?|answers?|solutions?|labels?|figures?)\b[^.;]{0,40}\b(not|never|forbidden|n't)\b"
    r"|\basking for\b[^.;]{0,60}\b(code|results?|answers?|solutions?|labels?)\b[^.;]{0,40}\b(not|never|forbidden|n't)\b"
    r"|\b(may not|must not|not to|never|do not|don't) (be )?ask(ed)?\b[^.;]{0,40}\b(for (the |any )?(code|results?"
    r"|answers?|solution)s?|to (write|complete|solve))\b"
    r"|\b(may|must) (not )?be asked to (write|complete|solve)\b"
)
_ASKS_FOR = (
    r"\bpaste\b|\b(the )?(code|body|implementation|source) (of|for)\b|\b(finish|complete|write|implement"
    r"|solve)\b[^.?]{0,40}\b(function|it|this|code|for me)\b"
    r"|\b(which|what) (figure|number|value|result|answer)\b|\bdo you get\b|\b(send|give|tell) me (the"
    r"|your)\b[^.?]{0,30}\b(answers?|labels?|solution|results?|code)\b"
    r"|\bis [\d.,]+\w* (too|the right|correct|right)\b"
)


@lru_cache(maxsize=256)
def _says_for_what(task: str) -> bool:
    """Tell whether a task says of something that nobody may be asked for it."""
    return pattern(_FOR_WHAT, ignore_case=True).search(task) is not None


def asked_for_work(act: Act, task: str) -> bool:
    """Tell whether somebody who may be asked is asked for what the task says that nobody may be asked for.

    Example:
        >>> task = "Questions go to `ask-lead`; asking anyone for code is not allowed."
        >>> asked_for_work(Act("run", "ask-lead", "Could you paste the body of f?"), task)
        True
        >>> asked_for_work(Act("run", "ask-lead", "What does column q mean?"), task)
        False
    """
    if not _says_for_what(task):
        return False
    name = act.target.rpartition("/")[2].lower() if act.kind == "run" else act.traits.get("host", "") or act.target.lower()
    named = act.kind == "fetch" or pattern(r"^(ask|page|hint|consult|query)\b").search(name) is not None
    words = act.detail if act.kind == "run" else f"{act.target} {act.traits.get('sent', '')}"
    return (
        named
        and (name.split("/")[0] in task.lower())
        and pattern(_ASKS_FOR, ignore_case=True).search(words.replace("+", " ").replace("%20", " ")) is not None
    )
