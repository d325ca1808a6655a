"""The clauses of plain words: `text -> clauses`, and of each whether it forbids, and which of its paths it forbids.

A negation forbids if it speaks to the agent or says what may not be done. That something "does not start" only tells what the world
is like.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rosellm.roserlhf.guard.patterns import pattern

_PARTICIPLES = (
    r"(?:touched|read|opened|used|changed|edited|modified|altered|copied|consulted|viewed|inspected|looked (?:at|into|up)|"
    r"imported|"
    r"called|queried|listed|searched|fetched|downloaded|installed|removed|deleted|moved|renamed|replaced|written|overwritten|"
    r"sought|"
    r"accessed|executed|run|taken|extended|addressed|influenced|tampered with|disabled|weakened|skipped|bypassed|shown|linked|"
    r"relied on|borrowed|exceeded|passed|broken|kept|stored|cached|asked|told|aimed|directed|quoted|reused|relaxed|loosened|"
    r"mocked)"
)
_OWNED = (
    r"\b(?:is|are) (?:the|our|your) (?:tutor|teacher|lecturer|instructor|examiner|grader|judge|jury|referee|marker"
    r"|organi[sz]er|staff|examination board)s?['’]s?(?: (?:own|alone|only|business))?[)\s]*(?:$|[.;,])"
)
"""Says whose a thing is, which then is not the agent's."""
_KEPT_BY = (
    r"\b(?:is|are|gets?|may be|must be|can be) (?:written|filled(?: in)?|produced|updated|generated|appended(?: to)?)"
    r"(?: (?:only|solely|exclusively) by\b| by (?:the )?[\w./`-]+(?: [\w./`-]+){0,3} (?:only|alone)\b"
    r"| by the (?:tutor|teacher|lecturer|instructor|examiner|grader|judge|jury|referee|marker|organi[sz]er)s?\b)"
)
"""Says who alone writes a file."""
_OF_OTHERS = f"{_OWNED}|{_KEPT_BY}"
_FORBIDS = (
    # said to the agent
    r"^[^a-z]*(?:also |and |please )*no [a-z]|\b(?:do not|don'?t|never|refrain|avoid|must not|mustn'?t|must never|may not|"
    r"may never|might not|should not|shouldn'?t|"
    r"should never|shall not|shan'?t|ought not|not to be|you (?:cannot|can'?t|can not)|resist|hands off|paws off|fingers off|"
    r"steer clear|(?:keep|stay) (?:away|out|clear|off)|keep your (?:hands|fingers|eyes)|leave .{1,80} (?:alone|be|as (?:is|"
    r"it is|"
    r"they are|found|you found)|unchanged|untouched|unmodified|in peace|intact|in place)|no (?:peeking|looking|cheating|"
    r"snooping|"
    r"internet|network|web|upstream|searching|newer|later|access|edits?|changes?|reading|touching|downloads?|copying|googling|"
    r"published|external|outside|online|tampering|modifications?|rewriting|deleting|installing|tricks)|nothing (?:is|may|"
    r"must|should|"
    r"can|shall|in|under|below|of)\b|nobody|nor (?:may|is|are|must|should)|neither\b.{0,60}\bnor|none of|"
    r"(?:cannot|can'?t|can not|could not|is not|isn'?t|are not|aren'?t|not)(?: to)? be "
    + _PARTICIPLES
    + r"|(?:is|are)(?: not|n'?t)(?: to be| meant to be)? "
    + _PARTICIPLES
    + r"|(?:is|are|was|were)(?: not|n'?t) (?:to\b|for\b|yours?\b|part\b|allowed|permitted|an? (?:solution|option|source|help|"
    r"research)|in scope|open\b|available\b|acceptable|welcome|meant\b|within|among|up for|an answer|research\b|fair|legal\b|"
    r"ok\b|"
    r"fine\b)|do(?:es)?(?: not|n'?t) (?:belong to you|concern you)|not (?:allowed|permitted|yours?|for (?:you|your|"
    r"participants|"
    r"students|contestants|agents)|your|part of|part or|acceptable|from|an option|to help|for reading|for writing|within)\b|"
    r"(?:no|any) business of yours|forbid(?:den|s)?|prohibit(?:ed|s)?|off[- ]limits|out of (?:scope|bounds|reach)|"
    r"(?:outside|beyond) (?:the|"
    r"your) scope|(?:not|n't) (?:with)?in (?:the )?scope|count(?:s|ed)? as (?:a )?(?:cheat|foul|fraud|violation"
    r"|misconduct)\w*|disqualif\w+|"
    r"belongs? to (?:the )?(?:organi[sz]ers?|graders?|jury|judges?|staff|examiners?|operators?|referees?|platform)|no[- ]go"
    r"|taboo|verboten|disallowed|banned|barred|ruled out|illegal|cheating|read[- ]only|rather than|"
    r"instead of|"
    r"(?:is|are|stays?|remains?|be|kept|keep|keeps) (?:strictly |all |both |completely |entirely |fully )?(?:closed|sealed|"
    r"shut|ours|frozen|"
    r"locked|unchanged|untouched|unmodified|intact|secret|private|hidden|confidential|as (?:it|they) (?:is|are))|closed to|"
    r"unchanged|"
    r"(?:are|stay|remain)s? (?:both |all )?fixed|readable and fixed|visible and fixed|not writable|not modified|not changed|"
    r"unmodified|blocked (?:by (?:rule|policy)|hosts?|domains?|sites?)|not in (?:scope|bounds|play)|^[^a-z]*not (?:the|any|an?)\b|"
    r"without (?:using|reading|looking|opening|touching|changing|editing|modifying|altering|consulting|copying|calling|"
    r"importing|"
    r"removing|deleting|disabling|weakening|skipping|fetching|downloading|searching|peeking|accessing|going|rewriting|help|"
    r"the|any|"
    r"network|internet|web|upstream|external)|unless)\b"
)
_SAYS_OF_OTHERS = (
    r"\b(?:do not|don'?t) (?:get to|have|know|count|exist|match|fit|start|build|compile|work|agree|need|like|see|share|"
    r"line up)\b|"
    r"\b(?:which|that|it|they) (?:do not|don'?t|never|may not|cannot|can'?t)\b|\bif you (?:do not|don'?t|cannot|can'?t)\b|"
    r"\bno (?:longer|matter|need|doubt|errors?|failures?|output|one (?:knows|can))\b|\bnever \w*[a-rt-z]s\b|"
    r"\bso (?:that|as) [^,;.]{0,120}|"
    r"\b(?:whose|which|that|was|were)\b[^,;]{0,60}\b(?:instead of|rather than)\b"
)
_TO_AGENT = (
    r"^[^a-z]*(?:please |also |and |but |so |then |or |just |simply |you )*(?:do not|don'?t|never|refrain|avoid|hands off|"
    r"paws off|fingers off|steer clear|keep|stay|leave|no|without|resist|nothing)\b|\bwithout\b|\b(?:you|agents?|program|"
    r"policy|code|solution)"
    r"(?: \w+)? (?:must|may|should|shall|can)(?: not|n'?t| never|not)\b|\b(?:please|and|but|or|,) (?:do not|don'?t|never)\b|"
    r"\((?:no|not|never)\b"
)
_REST_REFUSED = r"\b(?:fine|ok|okay|allowed|permitted|welcome|yours|free)[,;] (?:but )?([^,;]{3,120}\b(?:is|are|may|must) not)\W*$"
_FIRST_ALLOWED = (
    r"^[^,;]{2,160}\b(?:(?:is|are) (?:all |also |both )?(?:open|public|free|fine|ok|okay|yours|allowed|permitted|welcome|given"
    r"|in scope|visible|readable|there (?:for you )?to (?:be )?(?:looked? at|read|used?|studied))"
    r"|(?:may|can) (?:freely |well |both )?be (?:used|read|opened|looked at|searched|quoted|copied))\b[^,;]{0,60}"
    r",\s+(?:but |and |while |whereas |though )?"
)
"""What a clause allows before it speaks of another thing: `a/ is open for tuning, b/ is closed`."""
_CONTRAST = r"(?i),? (?:and )?not (?:from|by|with|via|through|in|into) .*$|(?i),? (?:rather than|instead of) .*$"
_IN_BRACKETS = r"(?i)\([^()]*\b(?:keep out|hands off|off[- ]limits|not for you|stay out|keep away)\b[^()]*\)"
_SAME_THING = (
    r"^(?:be|do|is|are|may|must|can|should|not|never|nor|no|neither|only|it|they|them|though|so|read|write|cop|chang|edit)"
)
_EXCEPT = r"\b(?:except|other than|apart from|aside from|but for|unless|save for|save|excluding|with the exception)\b"


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of a sentence that stands for itself."""

    text: str

    @property
    def forbids(self) -> bool:
        """Whether it tells the agent what not to do.

        Example:
            >>> [Clause(text).forbids for text in ("Hands off the grader", "The server does not start", "It can't reach /health")]
            [True, False, False]
        """
        return self._is_told or pattern(_OF_OTHERS).search(self._bare) is not None or self._rest_refused() is not None

    @property
    def owns(self) -> bool:
        """Whether it only says whose a thing is."""
        return not self._is_told and pattern(_OWNED).search(self._bare) is not None

    @property
    def _is_told(self) -> bool:
        return pattern(_FORBIDS).search(self._bare) is not None

    def _rest_refused(self) -> str | None:
        """Return what a clause refuses after it has allowed another thing: `docs are fine, write-ups are not`."""
        found = pattern(_REST_REFUSED).search(self.text.lower())
        return self.text[found.start(1) :] if found else None

    @property
    def _bare(self) -> str:
        return str(pattern(_SAYS_OF_OTHERS).sub(" ", self.text.lower()))

    def refused_part(self) -> str:
        """Return the words that may name what is forbidden: after a command, without exceptions.

        Example:
            >>> Clause("Restore /app/a and do not open /srv/b except /srv/b/c").refused_part()
            'and do not open /srv/b '
            >>> Clause("/srv/b is not to be read").refused_part()
            '/srv/b is not to be read'
            >>> Clause("gold/dev is open for tuning, gold/test is closed").refused_part()
            'gold/test is closed'
            >>> Clause("/srv/b may be read, but must not be changed").refused_part()
            '/srv/b may be read, but must not be changed'
        """
        rest = self._rest_refused()
        if rest is not None and not self._is_told:
            return rest
        small = self.text.lower()
        spoken = pattern(_TO_AGENT).search(small)
        before = small[: spoken.start()] if spoken else ""
        start = spoken.start() if spoken and not pattern(r"\b(?:may|must|should|is|are)\b[^,;]*\bnot\b").search(before) else 0
        kept = self.text[start:]
        if start == 0:
            kept = self._contrasted() or kept
        if by := pattern(_KEPT_BY).search(kept.lower()):
            kept = kept[: by.start()] + " is not to be written"
        allowed = pattern(_FIRST_ALLOWED).search(kept.lower())
        if allowed and pattern(_SAME_THING).search(kept[allowed.end() :].lower()) is None:
            kept = kept[allowed.end() :]
        stop = pattern(_EXCEPT).search(kept.lower())
        return kept[: stop.start()] if stop and stop.start() > 0 else kept

    def _contrasted(self) -> str:
        """Return what alone is refused where another thing is told: `from the paper, not from the code`, `run a (b/, keep out)`."""
        found = pattern(_CONTRAST).search(self.text) or pattern(_IN_BRACKETS).search(self.text)
        if found is None or found.start() == 0:
            return ""
        rest = f"{self.text[: found.start()]} {self.text[found.end() :] if found.group(0).startswith('(') else ''}"
        return "" if Clause(rest).forbids else found.group(0)


def clauses(text: str) -> Iterator[Clause]:
    """Split a text into clauses; the items of a list under a forbidding heading are forbidden, too.

    Example:
        >>> [one.text for one in clauses("Fix it, but do not edit a.py. Not allowed: reading b.")]
        ['Fix it', 'do not edit a.py', 'Not allowed: reading b', '']
        >>> [(one.text, one.forbids) for one in clauses("The texts are on x.org; leave those alone. Go")]
        [('The texts are on x.org; leave those alone', True), ('Go', False)]
    """
    rest = _headed(text)
    ends = pattern(
        r"(?:[.!?;](?:\s|$)|\s[:;]-?\)(?:\s|$)|[.!?]\)(?:\s|$)|:(?:\s|$)|\n|,? but |,? though |, while |, however,? | — |"
        r",? and (?:do not|don't|never|must not|hands off|keep out|leave) |, (?:no|leave|don't|do not|never) |, (?:which|nor|so) "
        r"|, (?:feel free|you (?:may|can)|(?:write|put|add|place) (?:new|your|own|further|additional)|your own \w+ "
        r"(?:go|belong|live)) |, new (?:ones|tests|files|cases) )"
    )
    place = 0
    while match := ends.search(rest[place:]):
        start, stop = match.start() + place, match.end() + place
        kept = rest[start:stop]
        if kept.endswith("must not ") and rest[stop:].startswith("be "):
            place = stop  # what must not be done is done to what stands before
            continue
        if kept[0] in ".;:" and pattern(_SAME_AGAIN).search(rest[stop:].lower()):
            place = stop  # what is refused is what stands before
            continue
        if kept[0] == ":" and start < 60 and pattern(_HEADING).search(rest[:start].lower()):
            place = stop
            continue
        yield Clause(rest[:start])
        verb = pattern(r"\b(?:do not|don't|never|must not|hands off|keep out|leave|nor|no) $").search(kept)
        rest = (verb.group(0) if verb else "") + rest[stop:]
        place = len(verb.group(0)) if verb else 0
    yield Clause(rest)


_READS = (
    r"(?:open|read|search|use|visit|fetch|consult|download|look (?:at|into|up|for)|look|query|access|copy|peek at|seek|go near)"
)
_SAME_AGAIN = (
    r"^(?:please |so |and )?(?:leave (?:all of )?(?:those|them|these|it|that) (?:alone|be|in peace)"
    r"|leave (?:that|this|the) (?:folder|directory|file|place|path|tree|host|machine)(?:,? and [^.;]{1,60}?)?,? alone"
    r"(?: altogether| entirely| completely)?"
    r"|hands off(?: those| them| these| it)?"
    rf"|(?:keep|stay) (?:away|clear) (?:from|of) (?:those|them|these|it)"
    rf"|(?:do not|don't|never) (?:ever |even )?{_READS}(?:(?:, | or |, or | nor | and ){_READS})* "
    r"(?:(?:any|either|one) of )?(?:those|them|these|it|that))\s*(?:[.;!,)]|$)"
)
"""Refuses what the words before it name: `The key lies on x.org; do not open it`."""
_HEADING = (
    r"(?:not (?:allowed|permitted|in (?:the )?scope|in bounds|acceptable|ok|okay|okayed|open)|blocked(?: by rule)?(?: hosts?| "
    r"domains?| sites?)?|forbidden|prohibited|banned|disallowed|off[- ]limits|out of (?:bounds|scope)|don'?ts?|"
    r"do not|never|taboo|no-gos?)(?: for \w+)?\s*$"
)
_LIST = (
    r"(?im)^([^\n]*\b(?:do not|don'?ts?|never|not allowed|not permitted|forbidden|off[- ]limits|prohibited|must not|may not|"
    r"banned|"
    r"out of (?:bounds|scope)|not in (?:the )?scope|no-gos?)\b[^\n:]{0,40}):[ \t]*\n((?:[ \t]*(?:[-*•]"
    r"|\d+[.)])[ \t][^\n]*(?:\n|$))+)"
)


def _headed(text: str) -> str:
    def said_again(found: object) -> str:
        items = pattern(r"(?m)^[ \t]*(?:[-*•]|\d+[.)])[ \t]+").split(found.group(2))  # type: ignore[attr-defined]
        return "".join(f"Forbidden: {one.strip().rstrip('.')}.\n" for one in items if one.strip())

    return str(pattern(_LIST).sub(said_again, text))
