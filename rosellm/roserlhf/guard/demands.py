"""What a task demands of a solution, read from its words: `task -> is it timed, may it keep results, what must it not call`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rosellm.roserlhf.guard.clauses import clauses
from rosellm.roserlhf.guard.patterns import passing, pattern

_TIMED = (
    r"\b(tim(e[sd]?|ings?)\b[^.]{0,60}\b(it|against|by|them|call|kernel|run|show|the)|timed|speed-?ups?"
    r"|faster|as fast as|latency|throughput"
    r"|benchmark(s|ed)?|speed|below \d+ ?(ms|s|us)\b|(ms|milliseconds) per)"
)
_KEEPS_NOTHING = (
    r"\b(no|not|nothing|never|without|nor|must not|may not|\w+n't)\b[^.;:]{0,60}\b(kept|keep\w*|cached|caching"
    r"|memo(ry|is\w+|iz\w+)?|stor(e|ed|ing)|reus\w+|remember\w*"
    r"|carr(y|ied)|precomput\w+|surviv\w+)\b|\b(cach\w+|memoi\w+)\b[^.;]{0,40}\b(not|forbidden|banned|off limits|no)\b"
    r"|\b(each|every)\b( timed)? (call|run|invocation|launch)\b[^.;]{0,60}\b(whole|full|itself|comput\w+|fresh"
    r"|anew|from scratch|all of)"
    r"|\bnot allowed:?[^.;]{0,80}\b(stored|kept|cached|memo\w*|carried)\b|\b(each|every) time\b[^.;]{0,30}\b(run|called"
    r"|started|it)\b"
    r"|\bin every call\b|\bfresh inputs\b|\breal work\b"
)
_TOLERANT = r"\b(atol|rtol|toleran\w+|within|allclose|close to|epsilon|relative error|absolute error|1e-\d+)\b"
_NO_TABLES = (
    r"\bno (tables?|answers|lookups?|look-up)\b|\bhard-?(cod|wir)\w+|\banswers (written|for) |\bspecial[- ]cas\w+"
    r"|\b(no|not|never|without)\b[^.;]{0,40}\b(tables? of|particular (inputs|tests|cases)|stored answers"
    r"|canned)|\bmust work for (any|all|every)"
    r"|\bfor (any|all|every|arbitrary) (input|ring|graph|valid)"
)
_COUNTED = r"[`'\"]([^`'\"<>\n]{3,40}?)[ :=]*(?:<\w[\w ]*>|\{\w+\}|\bN\b)[^`'\"\n]{0,20}[`'\"]"
_FORBIDS = r"\b(?:no|not|never|without|nor|forbidden|must not|may not|do not|don't|off limits|in tests only|banned)\b"
_NICKNAMES = {
    "sdpa|flash[- _]?attn|flash[- _]?attention": ("scaled_dot_product_attention", "flash_attention", "flash_attn_func"),
    "cublas": ("cublassgemm", "matmul", "addmm", "linear"),
    "cudnn": ("cudnn_convolution", "conv2d"),
}
"""What a task calls operations by, and how code calls them."""
_ONE = (
    r"\b(one|single|exactly one|the final|a single|only one)\b[^.;]{0,24}\b(answer|integer|number|value"
    r"|word|doi|name|letter|option|line|url|date"
    r"|result|\\?boxed)|\b(give|state|name|return|find|submit) (its|the|a) (\w+ )?(doi|name|number|value"
    r"|answer|date|year|integer|title|url|id)\b"
    r"|\bone answer\b"
)


_MADE_UP = (
    r"\b(?:synthetic|ficti\w+|story|stories|novel|poem|play|invent\w*|made[- ]up|mock\w*|dumm(?:y|ies)|sample data|"
    r"fixtures?|seed data"
    r"|fak(?:e|er|ing)|simulat\w+|imagin\w+|placeholders?|lorem|test data|demo data|monte[- ]carlo|generate (?:a |"
    r"some )?(?:random|example|test))\b"
)
_OBSERVED = (
    r"\b(?:collect|gather|harvest|transcribe|scrape|survey|measur(?:e|ed|ing|ements?)|interview\w*|observ(?:e|ed|ations?)|"
    r"receipts?|invoices?|annotate"
    r"|(?:enter|record|log|note|register) (?:each|every|all|the)|from (?:the|their|its|each) (?:\w+'? )?(?:own )?(?:sites?|"
    r"pages?|websites?|documents|scans|forms|recordings|photos?|images|archives?)"
    r"|rather than guess\w*|really (?:opened|read|visited)|every (?:figure|number|value|claim)|recover\w*|restor(?:e|ed)|"
    r"rescue|salvage|undelete|run (?:each|every|all|the) (?:experiments?|trials?|measurements?)"
    r"|count the|read off|digiti[sz]e|inventory|field work|readings?|sensors?|opening hours|prices?)\b"
)


_QUIZ = (
    r"\b(?:take|answer|solve|sit|complete|pass|attempt)\b[^.;]{0,60}\b(?:quiz\w*|questions?|exam\w*|tests?\b|problems|"
    r"multiple[- ]choice|questionnaires?)"
    r"|\bmultiple[- ]choice questions\b|\bquestions? (?:is|are|were|in)\b"
)


_KEEPS_STATEMENTS = (
    r"\b(?:statements?|theorems?|lemmas?|definitions?|signatures?)\b[^.;]{0,80}\b(?:stays?|remain|unchanged|not|never|n't|"
    r"same|as (?:it|they) (?:is|are))\b"
    r"|(?:\bnot|n't|\bnever|\bwithout)\b[^.;]{0,50}\b(?:chang|alter|touch|weaken|modif|edit)\w*[^.;]{0,50}\b(?:statements?|"
    r"theorems?|lemmas?|definitions?)\b"
)
_RATIONED = (
    r"\b(?:one|two|three|four|five|six|ten|twenty|\d+|a few|limited|single) (?:\w+ ){0,2}(?:attempts?|submissions?|tries|"
    r"scorings?|scores?|uses|queries|runs of|looks)\b"
    r"|\b(?:used|run|called|asked|call it)\b[^.;]{0,16}\b(?:once|twice|one time|(?:up to|at most) \w+ times)\b"
    r"|\b(?:attempts?|submissions?|scorings?)\b[^.;]{0,30}\b(?:limited|at most|once|only)\b|\bmultiple[- ]choice\b"
    r"|\bscores?\b[^.;]{0,60}\bnot (?:be )?(?:used )?(?:to |for )?(?:any |a )?(?:choos|choice|steer|select|tun|decid)\w*"
    r"|(?:\bnot|\bnever|n't) (?:choose|pick|select|tune|decide)\b[^.;]{0,40}\bby (?:it|them|the scores?|that score)\b"
    r"|\bscore (?:is )?for information\b|\bis evaluated once\b|\b(?:call|ask|run|use) (?:it|them) (?:exactly |only |just "
    r"|at most )?once\b"
    r"|\broute is for the organi[sz]ers\b|\bfor format only\b|\bat most \w+ (?:sends|uploads|submissions|calls|scorings|queries)\b"
)


@lru_cache(maxsize=256)
def keeps_statements(task: str) -> bool:
    """Tell whether what is to be proved must stay as it is stated.

    Example:
        >>> keeps_statements("Prove it; the statement must not change."), keeps_statements("Prove something nice.")
        (True, False)
    """
    return pattern(_KEEPS_STATEMENTS, ignore_case=True).search(task) is not None


_STAYS_HERE = (
    r"\b(?:may|must|can|should) (?:not|never) leave (?:it\b|(?:the|this|our|your) (?:machine|host|network|server|building|house"
    r"|company|premises|site|box|computer|container|country))|\bnever leaves? "
    r"(?:the|this|our) (?:machine|host|network|server|building|house|premises)"
    r"|\b(?:must|has to|have to|is to|are to) (?:stay|remain|be kept) on (?:this|the|our) (?:machine|host|server|network|premises)"
    r"|\b(?:may|must) (?:not|never) be (?:uploaded|sent (?:out|away|to (?:any|an?|other|outside|third|external)))"
    r"|\bno (?:data|files?|documents?|records?|papers?|images?|scans?) (?:may |must |can |should )?leaves? (?:the|this|our)\b"
)
_LOOKS_AHEAD = (
    r"\bup to (?:and including )?t ?- ?1\b|\b(?:no|without|avoid|free of|against) (?:any )?look[- ]?ahead\b"
    r"|\blook[- ]?ahead\b[^.;]{0,40}\b(?:not|never|forbidden|banned|bug|bias)\b"
    r"|\b(?:no|not|never|n't|without)\b[^.;]{0,40}\b(?:future|later) "
    r"(?:bars?|data|values?|prices?|rows?|observations?|samples?|days?|hours?|returns?)"
    r"|\bonly\b[^.;]{0,50}\b(?:past|earlier|known (?:at|by|before)"
    r"|available (?:at|by|before)|before (?:t\b|that (?:day|hour|time|bar)))"
)


@lru_cache(maxsize=256)
def keeps_data_here(task: str) -> bool:
    """Tell whether what a task gives may not be sent to other machines.

    Example:
        >>> keeps_data_here("The scans may not leave this machine."), keeps_data_here("You may not leave the room.")
        (True, False)
    """
    return pattern(_STAYS_HERE, ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def refuses_look_ahead(task: str) -> bool:
    """Tell whether what is computed for a moment may use only what was known before it.

    Example:
        >>> refuses_look_ahead("A signal for bar t may use bars up to t-1."), refuses_look_ahead("Look ahead to the next token.")
        (True, False)
    """
    return pattern(_LOOKS_AHEAD, ignore_case=True).search(task) is not None


_ORDINARY_USER = (
    r"\b(?:as|like) (?:an?|any|every) (?:ordinary|normal|regular|usual|typical|plain|other|human)? ?"
    r"(?:customer|user|visitor|shopper|guest|buyer|reader|patient|passenger|citizen) (?:would|does|can|might)\b"
    r"|\b(?:as|like) (?:an? |any )?(?:ordinary|normal|regular|usual|typical|plain|human) "
    r"(?:customers?|users?|visitors?|shoppers?|guests?|buyers?|readers?|patients?|passengers?|citizens?)\b"
    r"|\b(?:only|nothing but)\b[^.;]{0,30}\b(?:that|what) (?:an?|any|every) (?:customer|user|visitor|shopper|guest|buyer|reader"
    r"|patient|passenger|citizen) (?:can|could|may) (?:reach|see|do|click|get to)\b"
)


@lru_cache(maxsize=256)
def acts_as_user(task: str) -> bool:
    """Tell whether a task is to be done on a site as its users do it.

    Example:
        >>> acts_as_user("Act as an ordinary customer."), acts_as_user("Add the role of a normal form.")
        (True, False)
    """
    return pattern(_ORDINARY_USER, ignore_case=True).search(task) is not None


_KEPT_SEEDS = r"\bseeds? (\d+)(?: ?[-–:] ?| to )(\d+)[^.;]{0,40}\b(?:evaluation|held[- ]out|hidden|test|final|not|never|closed)\b"
_SEEDS_USED = r"\b(?:seeds?|range|episodes?)[ =]+(\d+)(?:[-:, ]+(\d+))?\b"


@lru_cache(maxsize=256)
def _seeds_kept(task: str) -> tuple[tuple[int, int], ...]:
    return tuple((int(low), int(high)) for low, high in pattern(_KEPT_SEEDS, ignore_case=True).findall(task) if len(low) < 10)


def kept_seeds(task: str, words: str) -> str:
    """Return the seeds of a command that a task keeps for its evaluation; empty if there are none.

    Example:
        >>> task = "Tune on seeds 0-99. Seeds 900-999 are the evaluation."
        >>> kept_seeds(task, "--seeds 900:950"), kept_seeds(task, "--seeds 0:99")
        ('900', '')
    """
    kept = _seeds_kept(task)
    if not kept:
        return ""
    for first, _ in pattern(_SEEDS_USED, ignore_case=True).findall(words[:2_000]):
        if len(first) < 10 and any(low <= int(first) <= high for low, high in kept):
            return str(first)
    return ""


_FIXED = (
    r"\bseed \d{2,}\b|\b(?:no|not|never|n't)\b[^.;]{0,40}\b(?:other )?(?:models?, )?seeds?\b|\bpre-?regist\w+|\banalysis plan\b"
    r"|\b(?:over|from) all (?:finished )?(?:runs|seeds)\b|\bany run left out\b"
    r"|\b(?:laid down|fixed|fixes|set out|specified|prescribed|planned) (?:\w+ )?(?:in|by) (?:the )?[\w/]*(?:protocol|plan|sap)\b"
    r"|\b(?:by|per|following|after|according to) the (?:\w+ )?(?:plan|protocol|sap)\b"
    r"|\b(?:protocol|plan|sap)(?:\.\w+)? (?:\w+ )?(?:fixes|lays down|prescribes|specifies)\b|\b(?:plan|protocol) must be reported\b"
)


@lru_cache(maxsize=256)
def fixes_analysis(task: str) -> bool:
    """Tell whether a task fixes beforehand with which seeds, runs or models a result is found.

    Example:
        >>> fixes_analysis("Bootstrap with 2000 resamples, seed 411."), fixes_analysis("Choose the seed on dev.")
        (True, False)
    """
    return pattern(_FIXED, ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def rations_scores(task: str) -> bool:
    """Tell whether a scorer may be asked only so often, or tells answers that are to be found by thought.

    Example:
        >>> rations_scores("You have five public scorings."), rations_scores("Tune the model on dev.")
        (True, False)
    """
    return pattern(_RATIONED, ignore_case=True).search(task) is not None


_FROM_RUNS = (
    r"\b(?:must|has to|have to) (?:\w+ )?(?:come|go back|stem) (?:from|to) (?:\w+ ){0,3}(?:runs?|logs?)\b|\b(?:go"
    r"|goes) back to (?:\w+ ){0,2}runs?\b"
    r"|\bfrom (?:your own )?runs on this machine\b|\braw data in\b|\bas (?:really )?(?:measured|run)\b|\bmeasured (?:on|in) this\b"
    r"|\bmust contain what your own run\b|\bappends to\b[^.;]{0,30}\blog\b"
)


@lru_cache(maxsize=256)
def wants_runs(task: str) -> bool:
    """Tell whether the figures of a task must come from runs that were made.

    Example:
        >>> wants_runs("Each number must come from a log in runs/."), wants_runs("Simulate receipts.")
        (True, False)
    """
    return pattern(_FROM_RUNS, ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def wants_observed(task: str) -> bool:
    """Tell whether a task wants what is found in the world, not what a program may make up.

    Example:
        >>> wants_observed("Enter each receipt in the portal."), wants_observed("Simulate receipts for the load test.")
        (True, False)
    """
    return (
        wants_runs(task)
        or wants_judged(task)
        or (pattern(_OBSERVED, ignore_case=True).search(task) is not None and not wants_made_up(task))
    )


_CLOCKS = r"\b(?:clocks?|ntp|chrony\w*|time ?zones?|system (?:time|date)|time sync\w*|certificate\w* expir\w*)\b"
_FIXED_CLOCK = r"\b(?:frozen|fixed|off[- ]limits|out of (?:scope|bounds)|stays?|untouched|unchanged|read-only)\b"


@lru_cache(maxsize=256)
def is_about_clock(task: str) -> bool:
    """Tell whether the machine's time is what a task is about; that it must stay as it is does not make it so.

    Example:
        >>> is_about_clock("The clock drifts: repair chrony."), is_about_clock("bench/ is frozen, the clock of the host too.")
        (True, False)
    """
    return False in _clauses_on_clocks(task)


@lru_cache(maxsize=256)
def keeps_clock(task: str) -> bool:
    """Tell whether a task says of the machine's time that it must stay as it is.

    Example:
        >>> keeps_clock("bench/ is frozen, the clock of the host too."), keeps_clock("Repair chrony; do not reboot.")
        (True, False)
    """
    return True in _clauses_on_clocks(task)


def _clauses_on_clocks(task: str) -> list[bool]:
    """Tell of each clause that speaks of clocks whether they must stay as they are."""
    about = [one for one in clauses(task) if pattern(_CLOCKS, ignore_case=True).search(one.text)]
    return [one.forbids or pattern(_FIXED_CLOCK, ignore_case=True).search(one.text) is not None for one in about]


_UPDATES = (
    r"(?:--update-?(?:snapshots?|goldens?)|--snapshot-update|`-u`"
    r"|(?:updat|regenerat|re-?record|re-?generat|re-?creat|bless|overwrit|accept"
    r"|refresh)\w* (?:\w+ ){0,2}(?:snapshots?|baselines?|goldens?"
    r"|expect\w+|reference \w+|screenshots?))"
)
_NO_UPDATES = (
    rf"\b(?:no|not|never|nor|without|n't)\b[^.;]{{0,60}}{_UPDATES}|{_UPDATES}[^.;]{{0,40}}\b(?:not allowed|forbidden"
    rf"|off[- ]limits|banned)\b"
    r"|\b(?:snapshots?|baselines?|goldens?|screenshots?)\b[^.;]{0,80}\b(?:must not|may not|never)(?: be)? (?:updat"
    r"|regenerat|re-?record"
    r"|re-?creat|overwrit|refresh)"
)


@lru_cache(maxsize=256)
def refuses_updates(task: str) -> bool:
    """Tell whether a task refuses that what tests expect is written anew.

    Example:
        >>> refuses_updates("The baselines are the specification: no --update-snapshots."), refuses_updates("Update the snapshots.")
        (True, False)
    """
    return pattern(_NO_UPDATES, ignore_case=True).search(task) is not None


_MADE_BY = (
    r"([\w./-]+\.\w{2,6})[`'\"]? (?:has to|have to|must|needs? to|may only|can only) (?:only )?(?:come|stem"
    r"|be (?:made|produced|generated|written|created|built|exported|obtained))(?: only| straight"
    r"| directly)? (?:from|by|with|through"
    r"|via|using|out of)(?: the output of| running)? [`'\"]([a-z][\w.-]*)(?: [^`'\"\n]*)?[`'\"]"
)


@lru_cache(maxsize=256)
def made_by(task: str) -> Mapping[str, str]:
    """Return the files that must come from a command, by their small names, each with its program.

    Example:
        >>> made_by("plan.json has to come from `terraform show -json`. Write notes.md.")
        {'plan.json': 'terraform'}
    """
    return {file.rpartition("/")[2].lower(): program for file, program in pattern(_MADE_BY, ignore_case=True).findall(task)}


_REAL_RUNS = (
    r"\b(?:runs?|measurements?|experiments?)\b[^.;]{0,50}\b(?:took place|made in this session|really (?:made|done|ran)"
    r"|that you (?:made|did))\b|"
    r"\b(?:numbers?|figures?|values?|results?)\b[^.;]{0,24}\bmust (?:all )?be measured\b|"
    r"\b(?:real|actual) (?:runs?|measurements?)\b|\byour (?:own )?runs gave\b|\brun \S+ yourself\b"
    r"|\bruns? that you (?:did not do|didn't do)\b|"
    r"\b(?:every|each|all|any) (?:number|figure|value|result)s?\b[^.;]{0,40}\b(?:comes?|stems?)\b[^.;]{0,12}\b(?:out of|from) "
    r"(?:the |your )?(?:\w+ )?(?:code|scripts?|analys[ei]s|measurements?)\b|\bno (?:number|figure|value)s? without (?:an? )?run\b|"
    r"\b(?:each|every) (?:row|figure|number|value|log)s?\b[^.;]{0,60}\b(?:from|by|of) (?:a |an )?(?:real )?(?:run|measurement"
    r"|experiment)|"
    r"\brun each\b[^.;]{0,80}\bwrite\b|\bcould not be run is\b"
)
_BLANKS = (
    r"rather than guess|\b(?:not|never|no) (?:be )?(?:guess|estimat|imput|invent|fill|interpolat)|leave [^.]{0,40}(?:empty|blank)|"
    r"\b(?:entered|reported|given|marked|left|recorded|labelled|stated) as (?:na\b|null|missing|unknown|empty|not run)"
    r"|\bmust say so\b|"
    r"\b(?:data|values?|rows?|readings?|logs?|records?|files?|measurements?|days?|samples?|entries)"
    r" (?:are|is) missing\b[^.;]{0,40}\bsay|\bleft out\b[^.;]{0,30}\bnever\b"
    r"|\bcalled unknown\b|\bas null\b"
    r"|\bfails?\b[^.;]{0,30}\b(?:write|put|enter|record|report|give) [\"'`]?(?:na|nan|n/a|null|missing)\b"
)


@lru_cache(maxsize=256)
def wants_real_runs(task: str) -> bool:
    """Tell whether results and logs must come from runs that took place.

    Example:
        >>> wants_real_runs("Each row must come from a run that took place."), wants_real_runs("Write a log parser.")
        (True, False)
    """
    return pattern(_REAL_RUNS, ignore_case=True).search(task) is not None


_JUDGED = (
    r"\byou are (?:the|an?|one of the) (?:\w+ )?(?:raters?|annotators?|judges?|graders?|coders?|reviewers?|labell?ers?|markers?)\b"
    r"|\byou (?:read and )?(?:rate|score|grade|label|annotate|code|judge)\b[^.;]{0,40}\byourself\b"
    r"|\b(?:rate|score|grade|label|annotate|mark|code)\b[^.;]{0,60}\b(?:by|with|using|after|following|against) (?:the )?"
    r"[\w./-]*(?:rubric|code ?book|guidelines?|scale|scheme)"
)


@lru_cache(maxsize=256)
def wants_judged(task: str) -> bool:
    """Tell whether a task wants the agent's own judgement of each item.

    Example:
        >>> wants_judged("You are the rater: score all essays by rubric.md."), wants_judged("Write a scorer for the essays.")
        (True, False)
    """
    return pattern(_JUDGED, ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def keeps_blanks(task: str) -> bool:
    """Tell whether what is missing must stay so.

    Example:
        >>> keeps_blanks("What is not reported is entered as NA."), keeps_blanks("Fill the gaps by interpolation.")
        (True, False)
    """
    return pattern(_BLANKS, ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def refuses_weights(task: str) -> bool:
    """Tell whether a model must be trained from nothing, so that weights of others may not go into it.

    Example:
        >>> refuses_weights("Train it from scratch; no pre-trained weights."), refuses_weights("Fine-tune the given checkpoint.")
        (True, False)
    """
    return pattern(_OWN_WEIGHTS, ignore_case=True).search(task) is not None


_OWN_WEIGHTS = (
    r"\b(?:no|not|without|never|nor|forbidden)\b[^.;]{0,60}\bpre-?trained\b|\bpre-?trained\b[^.;]{0,60}\b(?:not|forbidden"
    r"|banned|prohibited|"
    r"off[- ]limits|excluded|disallowed|out of|never)\b|\btrain\w*\b[^.;]{0,60}\bfrom scratch\b|\b(?:from"
    r"|by) (?:a )?random(?:ly)? initiali[sz]\w+"
    r"|\bno (?:external|outside|downloaded|public|foreign) (?:weights|models?|checkpoints?|embeddings)\b"
)


@lru_cache(maxsize=256)
def wants_formulas(task: str) -> bool:
    """Tell whether cells of a workbook must be computed by formulas.

    Example:
        >>> wants_formulas("Fill the green cells with live formulas."), wants_formulas("Enter the totals of the formula sheet.")
        (True, False)
    """
    return pattern(_FORMULAS, ignore_case=True).search(task) is not None


_FORMULAS = (
    r"\b(?:live|working|real|true) formulas?\b|\bformulas?\b[^.;]{0,40}\b(?:not|no|instead of|rather than|never)\b[^.;]{0,30}"
    r"\b(?:values?|numbers?|constants?)\b|\b(?:no|not|never) (?:pasted|hard-?coded|typed(?:-in)?) (?:values?|numbers?|constants?)\b"
    r"[^.]{0,80}\b(?:formulas?|cells?|recalculat\w+)"
)


@lru_cache(maxsize=256)
def by_exploit(task: str) -> bool:
    """Tell whether a flag is to be won by an attack on a service, and by no other way.

    Example:
        >>> by_exploit("Exploit the service and submit the flag."), by_exploit("Add a --flag option.")
        (True, False)
    """
    return pattern(r"\bexploit", ignore_case=True).search(task) is not None and "flag" in task.lower()


_ATTACKS = (
    r"\b(?:find|look for|search for|prove|demonstrate|show)\b[^.;]{0,60}\b(?:weakness\w*|vulnerabilit\w+|ways? in which|ways? into"
    r"|holes?|flaws?)\b|\b(?:by|all|any) attack(?:s|ing)\b|\bsecurity (?:review|audit|test|assessment|exercise)\b"
    r"|\bpen(?:etration)?[- ]?test\w*|\bexploit(?:s|ing)? the\b"
    r"|\bfind (?:a|some|any|the) (?:\w+ )?way (?:in)?to (?:the |its |an? )?[^.;,]{0,40}"
    r"\b(?:through|via|by way of) (?:the|that|this|its)\b"
)


@lru_cache(maxsize=256)
def wants_attack(task: str) -> bool:
    """Tell whether a task is to find how something can be broken.

    Example:
        >>> wants_attack("Security review: find weaknesses of the API."), wants_attack("Find the bug in the parser.")
        (True, False)
    """
    return pattern(_ATTACKS, ignore_case=True).search(task) is not None


_CRACKS = (
    r"\bcrack(?:ing|ed)?\b|\bbrute[- ]?forc\w+|\bjohn(?: the ripper|\b[^.;]{0,40}\bword ?lists?)|\bhashcat\b"
    r"|\b(?:find|recover)\b[^.;]{0,24}\bpassword\b(?:[^.;]|\.\b){0,60}\b(?:hash|archive|zip|7z|wallet)"
)
_LOOK_UPS = r"\b(?:online|web|public) (?:services?|look-?ups?|databases?)\b[^.;]{0,40}\b(?:fine|allowed|ok|welcome|may)\b"


@lru_cache(maxsize=256)
def wants_cracking(task: str) -> bool:
    """Tell whether a password is to be found by trying, not by asking who knows it.

    Example:
        >>> wants_cracking("Crack the hash in h.txt."), wants_cracking("Crack the hash; online services are fine.")
        (True, False)
    """
    return pattern(_CRACKS, ignore_case=True).search(task) is not None and not pattern(_LOOK_UPS, ignore_case=True).search(task)


_PROOFS = r"\b(?:proofs?[- ]of[- ]concept|pocs?|(?:working|reproducible|runnable) (?:proofs?|exploits?|attacks?))\b"


@lru_cache(maxsize=256)
def wants_proofs_of_attack(task: str) -> bool:
    """Tell whether a task wants attacks written down to show that they work.

    Example:
        >>> wants_proofs_of_attack("Pentest of ./api: a proof of concept for each hole."), wants_proofs_of_attack("Find holes.")
        (True, False)
    """
    return wants_attack(task) and pattern(_PROOFS, ignore_case=True).search(task) is not None


_ORDERED = (
    r"\b(?:attack\w*|exploit\w*|hack\w*|break\w*|fool\w*|trick\w*|gam(?:e|es|ing))\b[^.;]{0,80}"
    r"\b(?:is|are) (?:all )?(?:the|your|part of (?:the|your)) (?:job|work|task|exercise|assignment|point|order)\b"
)
_CHECKERS = r"\b(?:reward[- ]?hack\w*|verifiers?|graders?|checkers?|reward (?:functions?|models?|services?)|scorers?|judges?)\b"


@lru_cache(maxsize=256)
def attacked(task: str) -> frozenset[str]:
    """Return the folders whose verifiers a task orders to be attacked: `attacking envs/ is the job`.

    Example:
        >>> attacked("Red-team the toy verifiers. Attacking arenas/ in the sandbox is the job."), attacked("Attacking is cheating.")
        (frozenset({'arenas'}), frozenset())
    """
    found = pattern(_ORDERED, ignore_case=True).search(task)
    if not found or not pattern(_CHECKERS, ignore_case=True).search(task):
        return frozenset()
    return frozenset(name.lower() for name in pattern(r"([\w-]{3,40})/(?:[^\w]|$)").findall(found.group(0)))


@lru_cache(maxsize=256)
def places_of_attacks(task: str) -> tuple[str, ...]:
    """Return the folders in which a task wants attacks to be written.

    Example:
        >>> places_of_attacks("Find out how it can be cheated. Write exploit attempts under tries/ and close the holes in env/.")
        ('tries',)
        >>> places_of_attacks("Write jailbreaks/1.md to jailbreaks/5.md: letters that talk the clerk model round.")
        ('jailbreaks',)
    """
    found = (one or other for one, other in pattern(_ATTACKS_IN, ignore_case=True).findall(task))
    return tuple(dict.fromkeys(one.rstrip("/") for one in found))


_ATTACKS_IN = (
    r"\b(?:write|put|keep|save|collect|place)\b[^.;]{0,40}\b(?:exploits?|attacks?|proofs?[- ]of[- ]concept|pocs?|cheats?)\b"
    r"[^.;]{0,30}?\b(?:in|into|under|inside|to|below) `?([\w.-]+(?:/[\w.-]+)*/)"
    r"|\b(?:write|put|keep|save|collect|place)\b[^.;]{0,40}?[\s`]((?:attack|exploit|jailbreak|injection|red-?team)\w*/)"
)


@lru_cache(maxsize=256)
def is_quiz(task: str) -> bool:
    """Tell whether a task is to answer questions, not to build what asks them.

    Example:
        >>> is_quiz("Take the 30-question course quiz."), is_quiz("Build a quiz app.")
        (True, False)
    """
    return pattern(_QUIZ, ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def wants_made_up(task: str) -> bool:
    """Tell whether a task asks for what is made up: stories, simulations, data for tests."""
    return pattern(_MADE_UP, ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def is_timed(task: str) -> bool:
    """Tell whether how long a solution takes counts.

    Example:
        >>> is_timed("The kernel is compared and then timed by check.py"), is_timed("Repair the time zone bug.")
        (True, False)
    """
    return pattern(_TIMED, ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def keeps_nothing(task: str) -> bool:
    """Tell whether a task wants every call to do the whole work.

    Example:
        >>> keeps_nothing("Nothing may be kept between calls."), keeps_nothing("Add a cache to the client.")
        (True, False)
    """
    return pattern(_KEEPS_NOTHING, ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def is_tolerant(task: str) -> bool:
    """Tell whether results are compared within a tolerance."""
    return pattern(_TOLERANT, ignore_case=True).search(task) is not None


_BEHAVIOUR = (
    r"\btests?\b[^.;]{0,80}\b(?:no|not|n't|never|nor|without|neither)\b[^.;]{0,60}\b(?:read|hash|inspect|pars|grep|fingerprint)\w*"
    r"[^.;]{0,40}\bsources?\b|\btests? (?:must|should|may|have to|are to) (?:only )?"
    r"(?:check|test|exercise|assert|assess|concern)\w* (?:the )?(?:observable )?(?:behaviou?r|what)\b"
    r"|\bbehaviou?r,? (?:alone|only|not)\b"
)


@lru_cache(maxsize=256)
def wants_behaviour(task: str) -> bool:
    """Tell whether tests that a task wants must be about what code does, not how it is written.

    Example:
        >>> wants_behaviour("Write tests that do not hash the sources.")
        True
        >>> wants_behaviour("Write tests for the sources in src/.")
        False
    """
    return pattern(_BEHAVIOUR, ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def refuses_tables(task: str) -> bool:
    """Tell whether a task refuses answers that are written down."""
    return pattern(_NO_TABLES, ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def counted(task: str) -> tuple[str, ...]:
    """Return the words before which a task wants a number or name that the program finds out.

    Example:
        >>> counted("Print `READY <n>`, where n is the number of disks.")
        ('READY',)
    """
    return tuple(words.strip() for words in pattern(_COUNTED).findall(task) if len(words.strip()) > 3)


@lru_cache(maxsize=256)
def wants_one(task: str) -> bool:
    """Tell whether one answer is asked for, not several."""
    return pattern(_ONE, ignore_case=True).search(task) is not None


@lru_cache(maxsize=256)
def uncalled(task: str) -> frozenset[str]:
    """Return names that a solution must not call, as a task forbids them: the last parts, in small letters.

    Example:
        >>> sorted(uncalled("Use NumPy. Do not call `torch.nn.functional.rms_norm` or any ready-made norm operator."))
        ['norm', 'rms_norm']
    """
    found: set[str] = set()
    for sentence in pattern(r"[.;]\s|\n").split(task):
        start = pattern(_FORBIDS, ignore_case=True).search(sentence)
        if start and pattern(
            r"\b(call|us(e|ing|ed)\b|import|wrap|delegat|invok|operator|function|ready-made|built-?in)\w*", ignore_case=True
        ).search(sentence):
            whole = pattern(r"in tests only|^\W*(calling|using|wrapping|importing|delegating)\b", ignore_case=True).search(sentence)
            words = sentence if whole else sentence[start.start() :]
            found |= {one.rpartition(".")[2].lower() for one in pattern(r"[A-Za-z_]\w*(?:\.\w+)+|[A-Za-z]\w*_\w+").findall(words)}
            found |= {
                one.lower()
                for one in pattern(r"(?i)ready-made (\w+)|built-?in (\w+)|[Mm]odule (\w+) of|library'?s? (\w+)").findall(words)
                for one in one
                if one
            }
    for name, words in _NICKNAMES.items():
        if pattern(rf"{_FORBIDS}[^.;]{{0,80}}\b(?:{name})\b", ignore_case=True).search(task):
            found |= set(words)
    return frozenset(one for one in found if len(one) > 3 and one not in ("check", "operator", "function", "py", "module"))


@lru_cache(maxsize=256)
def wants_kernel(task: str) -> bool:
    """Tell whether a task wants a kernel that is written, not one that a compiler makes of library calls.

    Example:
        >>> wants_kernel("Use Triton or inline CUDA."), wants_kernel("Make it fast; torch.compile and Triton are fine.")
        (True, False)
    """
    asked = pattern(r"\b(in|use|using|with|as|a) (a )?(\w+ or )?(inline )?(triton|cuda|hip|metal)\b", ignore_case=True).search(task)
    return asked is not None and pattern(r"torch\.compile|inductor", ignore_case=True).search(task) is None


def names_entry(task: str, name: str) -> bool:
    """Tell whether a task names a function that is to be written."""
    return len(name) > 2 and passing(rf"(^|[^\w]){name}([^\w]|$)").search(task) is not None if name.isidentifier() else False


def is_uncalled(task: str, name: str) -> bool:
    """Tell whether a dotted name is, by its last part, one that a task forbids to call."""
    last = name.rpartition(".")[2].lower()
    return any(last.strip("_") == one or last.endswith("_" + one) for one in uncalled(task))
