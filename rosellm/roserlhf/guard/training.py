"""What a task lets a model learn from, and how exactly it wants numbers worked out: `words of a task -> yes or no, bits`."""

from __future__ import annotations

from functools import lru_cache

from rosellm.roserlhf.guard.patterns import pattern

_NOT = r"(?:not|never|n't|no|nor|without|neither|forbidden|banned|avoid)"
_HELD = (
    r"(?:val(?:id|idation)?\w*|tests?|test[_ -]?(?:set|data|split)|dev|held[- ]?out|hold-?out|eval(?:uation)?|public|private"
    r"|leaderboard)"
)
_APART = (
    rf"\btrain\w*\b[^;]{{0,80}}\btrain(?:ing)?(?:\b|_|\.)[^;.]{{0,32}}\b(?:only|alone|exclusively|solely)\b"
    rf"|\b(?:only|solely|exclusively)\b[^;.]{{0,24}}\b(?:the |on |from |data/)*train(?:ing)?\b"
    rf"|\b(?:train|fit|learn)\w*\b[^;.]{{0,40}}\b(?:only|solely|exclusively)\b[^;.]{{0,16}}\b(?:on|from|with)\b"
    rf"|\b{_NOT}\b[^.;]{{0,60}}\b(?:train\w*|fit\w*|learn\w*|fine-?tun\w+|optimi\w+|pseudo-?label\w*|mix\w*|leak\w*|merge\w*)\b"
    rf"[^.;]{{0,40}}(?:\b|_){_HELD}\b"
    rf"|\w+n't [^.;]{{0,40}}\b(?:train\w*|fit\w*|learn\w*)\b[^.;]{{0,40}}(?:\b|_){_HELD}\b"
    rf"|(?:\b|_){_HELD}\b[^.;]{{0,80}}\b(?:{_NOT}|n't)\b[^.;]{{0,50}}\b(?:train\w*|fit\w*|learn\w*|touch\w*|see|seen|tun\w+)\b"
    rf"|(?:\b|_){_HELD}\b[^.;]{{0,60}}\bonly\b[^.;]{{0,30}}\b(?:eval\w*|scor\w+|final|through|for|once|to)\b"
    rf"|(?:\b|_){_HELD}\b[^.;]{{0,40}}\b(?:may|can|is to|must|is) (?:only )?(?:be used |used |for )[^.;"
    rf"]{{0,30}}\b(?:once|one final)\b"
    rf"|\b(?:only|just)\b[^.;]{{0,20}}\b(?:final )?eval\w*[^.;]{{0,30}}(?:\b|_){_HELD}\b"
    rf"|\btraining (?:on|with) (?:it|them|those|these|that|either|{_HELD}|the {_HELD})\b[^.;]{{0,30}}\b(?:is|are|counts?|means)\b"
    rf"|(?:\b|_){_HELD}\b[^.;]{{0,40}}\b(?:stays?|remains?|kept|keep|is|are) (?:\w+ )?(?:unseen|held out|untouched"
    rf"|separate|apart|blind)\b"
)
_OWN_WEIGHTS = (
    rf"\b{_NOT}\b[^.;]{{0,40}}\bpre-?trained\b|\bpre-?trained\b[^.;]{{0,50}}\b(?:{_NOT}|n't|off[- ]limits|disallowed|cheating)\b"
    r"|\brandom(?:ly)?[- ]?initiali[sz]\w*|\btrain\w*\b[^.;]{0,50}\bfrom scratch\b|\bfrom scratch\b[^.;]{0,50}\btrain\w*"
    rf"|\b{_NOT}\b[^.;]{{0,20}}\b(?:external|outside|other|foreign|downloaded|third[- ]party|public|existing"
    rf"|published)\b[^.;]{{0,30}}"
    r"\b(?:weights?|checkpoints?|models?|embeddings?|backbones?)\b"
    r"|\b(?:external|outside|foreign|downloaded|third[- ]party)\b[^.;]{0,40}\b(?:weights?|checkpoints?|models?|"
    r"embeddings?)\b[^.;]{0,30}"
    r"(?:n't|\bnot\b|\bforbidden\b|\bbanned\b|\boff[- ]limits\b)"
    r"|\b(?:weights?|checkpoints?|parameters)\b[^.;]{0,40}\b(?:must|have to|should|may only)\b[^.;]{0,40}\b(?:from|"
    r"by) (?:your|this|the)"
    r"[^.;]{0,20}\b(?:run|train\w*|script)"
)
_EXACT = {
    64: r"\b(?:double(?:s|[- ]precision)?|float64|fp64|f64|64[- ]bit float\w*|REAL\(?8\)?|1e-1\d relative)\b",
    32: r"\b(?:fp32|float32|f32|single[- ]precision|32[- ]bit float\w*|full precision)\b",
}
_ANY_LOWER = (
    r"\b(?:no|not|without|never|n't)\b[^.;]{0,40}\b(?:lower|reduced|half|mixed|less)[- ]precision\b|\bno (?:half|fp16|bf16|"
    r"tf32|fp8|quanti\w+)"
)
_LIMITED = r"\b(?:time limit|\d+(?:\.\d+)? ?(?:s|secs?|seconds?|ms|minutes?)\b)"
_REFUSED_SQL = {
    "copy": (
        r"materiali[sz]\w+|cop(?:y|ies) of|precomput\w+|creat\w+ (?:new |any )?tables?|summary tables?|new tables?|"
        r"extra tables?|(?:temp\w*|helper|cache) tables?|stored results?"
    ),
    "trigger": r"triggers?",
    "function": r"(?:stored )?(?:functions?|procedures?|routines?)",
    "event": r"events?|scheduled jobs?|cron jobs?",
    "setting": (
        r"(?:server |database |system |global )(?:settings?|variables?)|server (?:configuration|parameters?)|ALTER SYSTEM|"
        r"my\.cnf|postgresql\.conf"
    ),
    "session": r"(?:session |planner |changed )settings?|(?:planner )?hints?|GUCs?|pragmas?|SET commands?|SET LOCAL",
    "index": r"ind(?:ex|exes|ices)",
}


def _within_sentence(words: str) -> str:
    """Let dots of names of files pass, which end no sentence."""
    return words.replace("[^.;]", r"(?:[^.;]|\.\w)")


@lru_cache(maxsize=256)
def trains_apart(task: str) -> bool:
    """Tell whether a task keeps held-out data out of training.

    Example:
        >>> trains_apart("Train on data/train.bin only."), trains_apart("Never fit anything on the test split.")
        (True, True)
        >>> trains_apart("Train a classifier; report the accuracy on test.csv.")
        False
    """
    return pattern(_within_sentence(_APART), ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def wants_own_weights(task: str) -> bool:
    """Tell whether a model must learn its weights in the run that is judged.

    Example:
        >>> wants_own_weights("No pre-trained weights."), wants_own_weights("Fine-tune a pretrained BERT.")
        (True, False)
    """
    return pattern(_within_sentence(_OWN_WEIGHTS), ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def exact_bits(task: str) -> int:
    """Return how many bits the numbers of a task must have at least; 0 if it does not say.

    Example:
        >>> exact_bits("CSR times vector, double"), exact_bits("Computation in fp32; inputs are fp16."), exact_bits("Make it fast.")
        (64, 32, 0)
    """
    for bits, words in _EXACT.items():
        if pattern(words, ignore_case=True).search(task):
            return bits
    return 32 if pattern(_ANY_LOWER, ignore_case=True).search(task) else 0


@lru_cache(maxsize=256)
def limits_time(task: str) -> bool:
    """Tell whether a task names how long a solution may take."""
    return pattern(_LIMITED, ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def refused_sql(task: str) -> frozenset[str]:
    """Return what a task does not want a database to be given: the names of `_REFUSED_SQL`.

    Example:
        >>> sorted(refused_sql("Materialised copies and triggers are not allowed. You may add two indexes."))
        ['copy', 'trigger']
    """
    found: set[str] = set()
    for sentence in pattern(r"[.;]\s|\n").split(task):
        if pattern(rf"\b(?:{_NOT}|n't|only|off[- ]limits|disallowed|prohibited)\b|n't\b", ignore_case=True).search(sentence):
            allows = pattern(r"\bmay\b", ignore_case=True).search(sentence) and not pattern(
                r"\bmay not\b|\bnot\b|\bno\b", ignore_case=True
            ).search(sentence)
            for name, words in _REFUSED_SQL.items():
                if not allows and pattern(rf"\b(?:{words})\b", ignore_case=True).search(sentence):
                    found.add(name)
    return frozenset(found)
