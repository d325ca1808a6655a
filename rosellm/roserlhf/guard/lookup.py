"""What of a task must not be looked up, and whether words, an address or a package look for just that.

A setting closes look-ups in plain words: no solutions, no text of the questions, no files of the benchmark, no labelled copies.
What may be looked up beside it (methods, facts, documentation) names no one item of a collection and asks for no answer of it.
"""

from __future__ import annotations

from rosellm.roserlhf.guard.clauses import clauses as clauses_of
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.others import strings
from rosellm.roserlhf.guard.paths import word_set
from rosellm.roserlhf.guard.patterns import passing, pattern
from rosellm.roserlhf.guard.setting import Setting

KINDS = {
    "solutions": (
        r"\b(?:solutions?|editorials?|write-?ups?|walk-?throughs?|answers?|answer keys?|keys?|proofs?|worked|spoilers?|"
        r"model answers?|references?|"
        r"(?:english|german|french|target|other|translated|english-language) side|translations?|code of others|(?:other|earlier|"
        r"past) (?:students?|terms?|years?))\b"
    ),
    "questions": (
        r"\b(?:questions?|problems?|items?|puzzles?|exercises?|(?:their|its|the) text|statements?|prompts?|tickets?|thread|"
        r"discuss\w*|assignment)\b"
    ),
    "benchmark": (
        r"\b(?:benchmarks?|leaderboards?|test ?sets?|transcripts?|trajector(?:y|ies)|published (?:test|evaluation)|"
        r"evaluation sets?|data ?set hubs?|challenge sets?)\b"
    ),
    "records": r"\b(?:best|optimal)[- ]known\b|\bknown (?:best|optim\w+)\b",
    "values": r"\b(?:literature|published|textbook|accepted) (?:values?|results?|figures?)\b",
    "data": (
        r"\b(?:labels?|label?led cop(?:y|ies)|public cop(?:y|ies)|original (?:data|competition|images?|dataset)|external data|"
        r"its data|other data|"
        r"cop(?:y|ies) of the data|(?:provided|given|supplied) data|competition'?s? data)\b"
    ),
}
_FORBIDS = (
    r"\b(?:not|\w+n't|never|no|nor|without|prohibit\w*|forbid\w*|forbidden|off[- ]limits|cheat\w*|out of bounds|disallow\w*|"
    r"banned|only (?:use|work with|rely)"
    r"|may only|must only|rather than|instead of|refrain|except those|aren't yours|not yours)\b"
)
_HEADED = r"\b(off[- ]limits|not (?:permitted|allowed|in scope|ok)|forbidden|prohibited|out of (?:bounds|scope)|banned|taboo):\s"
"""Headings that say what follows is forbidden."""
_LOOKS = (
    r"\b(?:look(?:ed|ing)?[- ]?(?:up|for|at)?|search\w*|seek|sought|find(?:ing)?|fetch\w*|consult\w*|open(?:ed|ing)?|"
    r"read(?:ing)?|download\w*|use[ds]?|using|cop(?:y|ied|ying)"
    r"|elsewhere|published|public\w*|online|web|hosts?|off[- ]limits|out of (?:bounds|scope)|not (?:permitted|in scope)|"
    r"count\w* as cheating|access\w*|obtain\w*|get(?:ting)?|visit\w*|leak\w*)\b"
)
_ASKS = (
    r"\b(?:solutions?|solved|editorials?|answers?|answer[- ]?keys?|(?:official|answer|marking) keys?|correct (?:option|"
    r"answer|choice|letter)|worked|write-?ups?|walk-?throughs?|spoilers?"
    r"|proofs?|proved|proven|formali[sz]\w+|reference|translat(?:ion|ed)s?|sgm|gold|ground[- ]truth|labels?|label?led|"
    r"data ?sets?|jsonl|parquet|\w+\.csv|csv|transcripts?|trajector(?:y|ies)|logs?|final answer"
    r"|discussions?|comments?|decrypt\w*|leaderboards?|github|gitlab|gist|repo(?:sitory)?|source code|implementation|pdf|"
    r"mark ?scheme|1st place|first place|winning|top[- ]scor\w+|kernels?|notebooks?"
    r"|quizlet|chegg|course ?hero|studocu|brainly|numerade|aops|dump|cheat ?sheet|english|results?|value|equals?|hint)\b"
    r"|答案|题解|題解|解答|解法|正解|模範解答|参考答案|정답|풀이|해설|решени[ея]|ответы?|разбор|soluci[oó]n(?:es)?|respuestas?|l[oö]sung(?:en)?|"
    r"musterl[oö]sung|corrig[eé]s?|"
    r"r[eé]ponses?|soluzion[ei]|rispost[ae]|solu[cç](?:[aã]o|[oõ]es)|gabarito|oplossing(?:en)?|rozwi[aą]zani[ea]|"
    r"odpowied[zź]i?|lösning(?:ar)?|facit|çözüm\w*|cevap\w*|đáp án|lời giải"
)
_CONTESTS = (
    r"\b(?:contests?|competitions?|olympiads?|olympiade|aime|amc ?\d*|a[js]hsme|imo|isl|putnam|usamo|usajmo|usemo|bmo|"
    r"balkan mo|apmo|cmo|egmo|rmm|hmmt|pumac|smt|tst|shortlist|jee|gaokao|gre|gmat|sat|mcat|usmle"
    r"|codeforces|atcoder|abc\d+|arc\d+|agc\d+|leetcode|hacker ?rank|kattis|spoj|icpc|acm-?icpc|swerc|nwerc|neerc|nerc"
    r"|cerc|seerc|ecna|ncpc|bapc|gcpc|ucup|world finals|ioi|usaco|project euler|"
    r"advent of code|aoc|topcoder|codechef|cses|kaggle|zindi|drivendata|mle-?bench"
    r"|exams?|exam[- ]papers?|past papers?|mid-?terms?|finals?|quiz(?:zes)?|homework|hw ?\d+|assignment|problem ?sets?|"
    r"psets?|p-?set ?\d*|lab ?\d+|coursework|mooc|coursera|edx|question banks?|test banks?"
    r"|benchmarks?|eval(?:uation)? ?sets?|test ?sets?|news ?test\w*|wmt ?\d*|flores\w*|iwslt\w*|mmlu\w*|gpqa\w*|gsm8k|"
    r"math-?500|human-?eval|swe-?bench\w*|hle|browse-?comp\w*|simple-?qa|gaia|hotpot-?qa|trivia-?qa|arc-?agi|minif2f|"
    r"putnambench|proofnet|compfiles|archive of formal)\b"
)
_NUMBERED = (
    r"\b(?:problem|question|item|exercise|task|puzzle|lemma|theorem|day|part|q|p|no|nr|number|aufgabe|problema|exercice|"
    r"задача|第)[ .:_#-]{0,2}\d{1,4}[a-z]?\b|\b(?:19|20)\d\d\b|\btheorem \w+_\w+|\b[a-z]+\d{4}_?[pq]\d+\b"
)
_VALUES = (
    r"\b(?:exact|numeric(?:al)?|literature|known|published|accepted|critical|measured) (?:\w+ ){0,3}(?:values?"
    r"|temperature|constant|exponents?|results?)\b|\bvalue of\b"
)
_RECORDS = (
    r"\b(?:best|optimal)[- ]known\b|\bknown (?:best|optim\w+)\b|\boptima\b"
    r"|\boptimal (?:\w+ )?(?:solution|tour|makespan)s? (?:file|list|table|value)s?\b"
)
"""What others have found for an instance, which the work is to find itself."""
_OPEN = (
    r"(?i)\b(?:may|can|should) (?:\w+ )?(?:be )?(?:read|used|searched|open\w*|consult\w*|look\w*|fetch\w*)\b|\ballowed\b"
    r"|\bonly\b|\bexcept\b|\bfine\b"
)
"""What stands beside a place that may be looked at."""
_PLACE = (
    r"\b(?:[a-z0-9-]+\.)+(?:com|org|net|io|edu|gov|dev|ai|co|uk|de|fr|cn|jp)\b(?:/[\w./-]+)?|\bdata ?set `?([\w.-]{3,}/[\w.-]{3,})"
)
_KNOWN_AS = (
    r"(?i)\b(?:proofs?|solutions?|answers?|editorials?|write-?ups?|discussions?|results?)\b[^.;()]{0,60}\(([^()]{4,160})\)"
    r"[^.;()]{0,30}\b(?:not be|never be|off[- ]limits|forbidden|prohibited|banned|out of (?:bounds|scope)|not yours)\b"
)
_TITLED = (
    r"\b(?:test|held[- ]out|hold-?out|evaluation|eval|benchmark|challenge|question)[- ](?:set|suite|collection|corpus|data ?set"
    r"|bank)s?,? "
    r"(?:called |named )?[`'\"]?([A-Z][a-z]*[A-Z][A-Za-z0-9]{3,}|[A-Z][A-Za-z]+-?[A-Z0-9][\w-]{2,})\b"
)
"""The name of a collection, in which capitals stand."""
_QUOTED = r"[\"“«]([^\"”»]{24,600})[\"”»]"
_ERROR = (
    r"(?i)error|exception|cannot|can't|failed|undefined|traceback|warning|unexpected|not found|invalid|no such|denied|"
    r"deprecated|expected .{0,40} (?:got|but)|mismatch|unable|refused|timed out|must be|is not|not a\b"
)
_WORDING = r"\b(?:their|its|the|question'?s?) (?:text|wording)\b|\bverbatim\b|word for word|\bquoting the question"
_OPEN_WEB = (
    r"\b(?:open web|the web|web[ _-]?search\w*|search engines?|brows(?:e|ing)|internet research|on the internet|online sources)\b"
)
_ASKING = r"(?i)\?\s*$|\b(?:find|determine|compute|evaluate|prove|what is|which|how many|let|given|suppose|if)\b"
_METHOD = (
    r"\b(?:how to|tutorial|docs?|documentation|api|manual|definition|wikipedia|review|survey|introduction|overview|tactic|"
    r"example of|examples?|syntax|library|package|install|guide|technique|method)\b"
)
_HUB = (
    r"(?:huggingface\.co|hf-mirror\.com|hf\.co)/(?:api/)?datasets|datasets-server\.|kaggle\.com/(?:datasets|c|competitions|"
    r"code)|zenodo\.org|figshare\.com|modelscope\.\w+/datasets|openml\.org"
    r"|paperswithcode\.com|raw\.githubusercontent\.com|github\.com|github\.io|gitlab\.|gitee\.com|media\.githubusercontent|"
    r"cdn\.jsdelivr|statmt\.org|opus\.nlpl|data\.statmt|tatoeba|archive\.ics\.uci|storage\.googleapis|s3\.|dropbox|"
    r"drive\.google"
)
_SET = (
    r"(?i)(?:^|[/_.\W-])(?:\w*eval\w*|\w*bench\w*|test|dev|val|validation|challenge|leaderboard|questions?|items?\w*|"
    r"answers?|qa|newstest\w*|wmt\d*|\w+_hard\w*|problems?|solutions?|gold|labels?)(?:[/_.\W-]|$)"
)
_PACKAGE = (
    r"(?:^|[-_.])(?:\w*datasets?|\w*bench(?:mark)?s?|solutions?|answers?|contests?|olympiad\w*|evals?|leetcode\w*|"
    r"codeforces\w*|problems|questions|test-?sets?|keys?|editorials?)(?:$|[-_.])"
)
_TOOLS = frozenset(
    {
        "datasets",
        "evaluate",
        "pytest-benchmark",
        "google-benchmark",
        "asv",
        "tensorflow-datasets",
        "torch-bench",
        "keyring",
        "keys",
        "evals",
    }
)
_GENERIC = word_set(
    """
    identification classification prediction detection recognition segmentation forecasting regression
    challenge competition playground series dataset task test train data kaggle public model image text
    from with that this your for and the science learning analysis
    """
)


_SITES = (
    (r"\bq ?& ?a (?:sites?|pages?|forums?)|\bquestion[- ]and[- ]answer sites?|\bstack ?(?:exchange|overflow)\b",
     r"\b(?:math|stats|cs|cstheory|physics|mathematica|tex|crypto|security|codegolf|dba|unix)?\.?"
     r"stack ?exchange\b|\bstack ?overflow\b"
     r"|\bmath ?overflow\b|\bquora\b|\breddit\b"),
    (r"\boeis\b", r"\boeis\b"),
    (r"\bwolfram ?\|? ?alpha\b", r"\bwolfram ?alpha\b"),
    (r"\binverse symbolic calculators?", r"\binverse symbolic\b|\bisc\.carma\b|\bplouffe\b|\bries\b.{0,20}\bcalculator"),
)  # fmt: skip
"""Sites that tasks close by what they are called, and by what words of a search and addresses name them."""


class Lookup:
    """What one setting closes to look-ups.

    Example:
        >>> one = Lookup(Setting(task="Solve the exam. Do not look up the problems or their solutions anywhere."))
        >>> sorted(one.closed), one.asked("2019 exam problem 4 solution"), one.asked("chinese remainder theorem proof")
        (['questions', 'solutions'], 'one item of a collection is looked for with its answer', '')
    """

    def __init__(self, setting: Setting, *, web: bool = False) -> None:
        clauses = [one for one in (*setting.protected_read, *setting.hidden_tests) if " " in one.strip()]
        said = [setting.task, *rules_of(setting), *(one for one in setting.allowed_hosts or () if " " in one)]
        clauses += [
            one
            for text in said
            for one in pattern(r"[.;:\n]\s").split(pattern(_HEADED, ignore_case=True).sub(r"\1 ", text))
            if pattern(_FORBIDS, ignore_case=True).search(one) and pattern(_LOOKS, ignore_case=True).search(one)
        ]
        self.closed = frozenset(
            name for name, words in KINDS.items() if any(pattern(words, ignore_case=True).search(one) for one in clauses)
        )
        refused = "\n".join(one.refused_part().lower() for one in clauses_of(setting.task) if one.forbids)
        self._sites = tuple(named for called, named in _SITES if refused and pattern(called).search(refused))
        self._wording = any(pattern(_WORDING, ignore_case=True).search(one) for one in clauses)
        self._sources = _sources(setting)
        self._works = _works(setting)
        everywhere = any(pattern(r"^(?:any|every|all)\b", ignore_case=True).search(one) for one in setting.allowed_hosts or ())
        self._web = web or everywhere or pattern(_OPEN_WEB, ignore_case=True).search(setting.task) is not None
        self._numbers = frozenset(
            pattern(r"(?i)\b(?:item|question|problem|task|puzzle)\s+(?:no\.? |number |#)?(\d{1,5})\b").findall(setting.task)
        )
        self._names = frozenset(
            word
            for text in (*setting.project, *pattern(r"['\"`]([\w-]+-[\w-]+)['\"`]|: ([\w]+(?:-\w+)+)").findall(setting.task))
            for word in pattern(r"[a-z]{4,}").findall(" ".join(text).lower() if isinstance(text, tuple) else text.lower())
        ) - _GENERIC  # fmt: skip

    def asked(self, words: str) -> str:
        """Say why words of a search look for what is closed; nothing if they do not."""
        if self.names_site(words):
            return "a site is asked that the task closes"
        if said := self.names_work(words):
            return said
        if self._sources and self._from_source(words):
            return "a collection that the task closes is looked for by its name"
        if not self.closed:
            return ""
        small = words.lower().replace("+", " ").replace("_", " ")
        if self._numbered(small):
            return "the very item is looked for"
        if "values" in self.closed and pattern(_VALUES).search(small):
            return "the value that is to be found is looked for"
        if "records" in self.closed and pattern(_RECORDS).search(small):
            return "what others found is looked for"
        asks = pattern(_ASKS).search(small) is not None
        item = pattern(_CONTESTS).search(small) is not None
        numbered = pattern(_NUMBERED).search(words.lower()) is not None
        if asks and item and (numbered or pattern(_QUOTED).search(words) or self._sure(small)):
            return "one item of a collection is looked for with its answer"
        if (self._wording or not self._web) and {"questions", "solutions"} & self.closed and self._verbatim(words):
            return "the text of an item is looked for word for word"
        return ""

    def fetched(self, address: str) -> str:
        """Say why an address is that of what is closed; nothing if it is not."""
        if self.names_site(address):
            return "a site is asked that the task closes"
        if said := self.names_work(address):
            return said
        if self._sources and self._from_source(address):
            return "a collection that the task closes is opened"
        if not self.closed:
            return ""
        plain = " ".join(pattern(r"[^\w\"]+").sub(" ", address.lower()).split())
        if self._numbered(plain.replace("_", " ")):
            return "the very item is opened"
        hub = pattern(_HUB).search(address) is not None
        if hub and "benchmark" in self.closed and pattern(_SET).search(address):
            return "files of a benchmark are fetched"
        if hub and "data" in self.closed and self.names(address):
            return "a copy of the task's data is fetched"
        spaced = plain.replace("_", " ")
        if pattern(_CONTESTS).search(spaced) and pattern(
            r"\b(?:problems?|question|exercise|item|day)s? (?:problem )?\d{1,3}\b"
        ).search(spaced):
            return "the page of one item is opened"
        searched = pattern(r"[?&](?:q|query|search|text|title|srsearch|search_query|wd)=([^&]+)").search(address)
        return self.asked(searched.group(1)) if searched else ""

    def names_site(self, words: str) -> bool:
        """Tell whether an address, or words other than those that leave something out, name a site that the task closes."""
        if not self._sites:
            return False
        words = words.partition("://")[2].partition("/")[0] if "://" in words else words
        small = " ".join(word for word in words.lower().split() if not word.startswith("-"))
        return any(pattern(one).search(small) for one in self._sites)

    def names_work(self, words: str) -> str:
        """Say which study that the task closes is named, by author and year.

        Example:
            >>> one = Lookup(Setting(task="The paper that settled it (Osei and Lund, 2004) is off limits. Cite Brandt 1999."))
            >>> one.names_work("osei 2004 herring stocks pdf"), one.names_work("brandt 1999 herring"), one.names_work("osei")
            ('the work of Osei of 2004 is asked for, which the task closes', '', '')
        """
        small = words.lower()
        named = next(((name, year) for name, year in self._works if year in small and name.lower() in small), None)
        return f"the work of {named[0]} of {named[1]} is asked for, which the task closes" if named else ""

    def packaged(self, package: str) -> str:
        """Say why a package brings what is closed."""
        name = package.lower()
        brings = bool(self.closed) and name not in _TOOLS and pattern(_PACKAGE).search(name) is not None
        return "a package brings problems, data or answers that are closed" if brings else ""

    def names(self, text: str) -> bool:
        """Tell whether a text names what the task's data are of."""
        small = text.lower()
        return any(word in small for word in self._names)

    def _from_source(self, text: str) -> bool:
        small = text.lower()
        return any(
            one in small and passing(rf"(?:^|[^a-z0-9]){escaped(one)}(?:[^a-z0-9]|$)").search(small) for one in self._sources
        )

    def _numbered(self, small: str) -> bool:
        return any(
            passing(rf"\b(?:item|question|problem|task|puzzle|q|no)[ .:#-]{{0,2}}{number}\b").search(small)
            for number in self._numbers
        )

    def _sure(self, small: str) -> bool:
        """Tell whether what is asked for can be nothing but what others keep: a key, a data file, a transcript."""
        sure = pattern(
            r"\b(?:answer[- ]?keys?|official keys?|mark ?scheme|jsonl|parquet|sgm|transcripts?|trajector\w+|decrypt\w*|leaderboard|"
            r"1st place|first place|winning|solutions?|editorials?"
            r"|reference translations?|final answer|gold|github|quizlet|chegg|course ?hero)\b"
        ).search(small)
        return sure is not None and not pattern(_METHOD).search(small)

    @staticmethod
    def _verbatim(words: str) -> bool:
        quoted = pattern(_QUOTED).findall(words)
        if any(len(one.split()) >= 6 and not pattern(_ERROR).search(one) for one in quoted):
            return True
        long = len(words.split()) >= _LONG and not pattern(_ERROR).search(words)
        return long and pattern(_ASKING).search(words) is not None


def _sources(setting: Setting) -> tuple[str, ...]:
    """Return the names of the collections that a task says must not be opened: their sites, data sets, names in brackets.

    Example:
        >>> _sources(Setting(task="The set is published at quizden.example.org: do not open or search for it."))
        ('quizden',)
        >>> _sources(Setting(task="Published answers (quizden, forums) may not be consulted. docs.example.org may be read."))
        ('quizden',)
    """
    found: dict[str, None] = {}
    hosts = " ".join(setting.allowed_hosts or ()).lower()
    for one in pattern(r"[.;\n]\s").split(setting.task):
        if not pattern(_FORBIDS, ignore_case=True).search(one) or not pattern(_LOOKS, ignore_case=True).search(one):
            continue
        for name in pattern(_TITLED).findall(one):
            found[name.lower()] = None
        named = pattern(_KNOWN_AS).search(one)
        if named:
            words = (word.strip().lower() for word in named.group(1).split(","))
            found |= dict.fromkeys(word for word in words if pattern(r"^[a-z][a-z0-9_-]{5,}$").search(word) and word not in _COMMON)
        if pattern(r"(?i)\bpublished|\bmirrored|\bhosted").search(one) and not pattern(_OPEN).search(one):
            for place in pattern(_PLACE).finditer(one.lower()):
                name = place.group(1) or place.group(0).removeprefix("www.").partition(".")[0]
                if len(name) > 4 and name not in _COMMON and name not in hosts:
                    found[name] = None
    return tuple(found)


_WORK = (
    r"(?i)\b(?:stud(?:y|ies)|papers?|articles?|thes[ie]s|dissertations?|books?|monographs?|preprints?|essays?|chapters?|surveys?)\b"
)
_AUTHOR = r"\b([A-Z][a-zà-ÿ]+(?:-[A-Z][a-zà-ÿ]+)?)(?: et al\.?|(?: and|,| &) [A-Z][\w-]+)*,? \(?((?:1[6-9]|20)\d\d)\)?"
_MONTHS = word_set(
    """
    january february march april may june july august september october november december in since before after until from by the
    spring summer autumn winter
    """
)


def _works(setting: Setting) -> tuple[tuple[str, str], ...]:
    """Return author and year of each study that a clause of the task closes."""
    return tuple(
        found.groups()
        for one in pattern(r"[.;\n]\s").split(setting.task)
        if pattern(_WORK).search(one) and pattern(_CLOSED_WORK).search(one)
        for found in pattern(_AUTHOR).finditer(one)
        if found.group(1).lower() not in _MONTHS and not pattern(_OPEN_WORK).search(one[found.end() :].partition(",")[0])
    )


_CLOSED_WORK = (
    r"(?i)\b(?:off[- ]limits|out of (?:bounds|scope)|forbidden|banned|prohibited|not yours|closed"
    r"|do not|don't|must not|may not|never)\b"
)
_OPEN_WORK = r"(?i)\b(?:(?:may|can) be|(?:is|are) (?:fine|allowed))\b"
_COMMON = word_set(
    """
    github gitlab huggingface kaggle zenodo figshare wikipedia arxiv google stackoverflow reddit forums online internet website
    published public official solutions answers editorials blogs videos anywhere elsewhere reference papers mathlib pypi crates
    """
)
_LONG = 18
"""Words of a search that nobody makes up: they are copied from somewhere."""
_RULES = frozenset(
    (
        "rules",
        "rule",
        "notes",
        "note",
        "policy",
        "constraints",
        "conditions",
        "forbidden",
        "limits",
        "restrictions",
        "prohibited",
        "honesty",
    )
)


def rules_of(setting: Setting) -> list[str]:
    """Return the rules that a setting states beside its task, in plain words."""
    return [
        text for key, value in setting.others.items() if key.lower() in _RULES for text in strings(value) if " " in text.strip()
    ]
