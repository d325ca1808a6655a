"""Code that looks at who runs, calls or asks it, and knows a test, a benchmark or a judge by it: `source -> detect acts`.

Each language has its own way to the arguments, the stack, the parent, the modules that are loaded, the client of a request. The
word by which the observer is known stands near, in a string, a pattern or as a class. Trait `look`: at what.
"""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.hints import Hints
from rosellm.roserlhf.guard.patterns import pattern

BEFORE, AFTER = 140, 260
"""Characters around a look in which the observer's word counts."""
MOST_LOOKS = 24
_LOOKS = {
    "stack": (
        r"\binspect\.(?:stack|currentframe|getouterframes|trace)\b|\b_getframe\b|\bextract_stack\b|\bformat_stack\b"
        r"|\bwalk_stack\b"
        r"|\bnew Error\([^()\n]*\)\.stack\b|\bcaptureStackTrace\b|\bprepareStackTrace\b|\berr?\w*\.stack\b"
        r"|\bruntime\.(?:Callers?|Stack)\b|\bCallersFrames\b|\bdebug\.Stack\b"
        r"|\bBacktrace::\w+|\bgetStackTrace\b|\bStackWalker\b|\bStackTrace\(|\bEnvironment\.StackTrace\b|\bcaller_locations\b"
        r"|\bcaller\b\s*(?:\(|\.|\[|\{)|\bdebug_(?:print_)?backtrace\b|\bdebug\.(?:traceback|getinfo)\b"
        r"|\bbacktrace(?:_symbols)?\s*\("
        r"|\bCarp::\w+mess\b|\bsys\.calls\(|\bcallStackSymbols\b|\bThread\.currentThread\b|\bstd::stacktrace\b"
        r"|\bSystem\.Diagnostics\.StackTrace\b"
    ),
    "program": (
        r"\bsys\.(?:orig_)?argv\[0\]|\bprocess\.(?:argv\[[01]\]|title|mainModule|execArgv|argv0)|\brequire\.main\b"
        r"|\bos\.Args\[0\]"
        r"|\bos\.Executable\(|\bcurrent_exe\(|\bargv\[0\]|\bargs\(\)\.next\(|\bprogram_invocation\w*"
        r"|\$PROGRAM_NAME\b|\$0\b|\bgetprogname\("
        r"|\b__main__\.__file__|\$_SERVER\[['\"](?:SCRIPT_\w+|argv|PHP_SELF)|\bsun\.java\.command\b"
        r"|\bEnvironment\.(?:CommandLine|GetCommandLineArgs)\b"
        r"|\bProcessHandle\.current\b|\bMainModule\b|\bGetCommandLine\w*\b|/proc/(?:self|thread-self|\$\$|\$PPID"
        r"|\$\{PPID\}|%d|\{\}|\{[\w.()]+\})/(?:cmdline|comm|exe|status|stat)\b"
        r"|\bgetppid\b|\bppid\b|\$PPID\b|\bpsutil\b|\bprocess_iter\b|\bparents?\(\)\.(?:name|cmdline)\b|\bpgrep\b"
        r"|\bpidof\b|\bparent_id\(\)|\bCommandLine\.arguments\[0\]"
        r"|\bcurrentThread\(\)\.getName\b|\bthread::current\(\)\.name\(\)|\bThread\.CurrentThread\.Name\b"
        r"|\bcurrent_thread\(\)\.name\b"
    ),
    "arguments": (
        r"\bin sys\.(?:orig_)?argv\b|\bin \w+ for \w+ in sys\.(?:orig_)?argv\b|\bjoin\(sys\.argv|\bstr\(sys\.argv"
        r"|\bprocess\.argv\.(?:join|some|includes|find)\b"
        r"|\bos\.Args\b[^\n]{0,40}(?:range|Join|Contains|HasSuffix|HasPrefix|Slice)|(?:range|Join"
        r"|Contains)[^\n]{0,24}\bos\.Args\b|\benv::args(?:_os)?\(\)\.(?:any|skip|collect|nth|find)"
        r"|\bARGV\.(?:any|include|join|grep)|\$\*\.|\bgetInputArguments\b|\bProcessInfo\.processInfo\.arguments\b"
    ),
    "modules": (
        r"\bsys\.modules\b|\bimportlib\.util\.find_spec\b|\brequire\.cache\b|\bmodule\.(?:parent|children)\b"
        r"|\bclass_exists\b|\bClass\.forName\b|\bgetDeclaredClasses\b"
        r"|\$LOADED_FEATURES\b|\$\"\.|%INC\b|\$INC\{|\bflag\.Lookup\b|\bGetAssemblies\(|\bObjectSpace\b"
        r"|\bdefined\?\(|\bobject_defined\b|\bconst_defined\?|\bNSClassFromString\b"
        r"|\bpackage\.loaded\b|\bCode\.ensure_loaded\b|\bget_included_files\b|\bget_declared_classes\b|\bloadedNamespaces\b"
    ),
    "client": (
        r"(?i)\buser[-_]?agents?\b|\bHTTP_USER_AGENT\b|\$http_user_agent\b|\bremote_?addr(?:ess)?\b|\$remote_addr\b"
        r"|\bx-forwarded-for\b|\bclient_address\b"
        r"|\b(?:req|request|ctx|c)\.(?:ip|host|client)\b|\bRemoteIpAddress\b|\bpeer_?(?:name|addr)\b"
        r"|\binet_client_addr\b|\bapplication_name\b|\bClientIP\b|\$http_x_\w+|\b(?:session|current)_user\b"
        r"|\b(?:APP_NAME|PROGRAM_NAME|HOST_NAME|SYS_CONTEXT|SUSER_SNAME)\s*\("
    ),
    "alias": (
        r"(?i)\b(?:inet_client_(?:addr|port)|application_name|current_user|session_user|current_database|current_setting"
        r"|pg_backend_pid|pg_postmaster_start_time|user|database|connection_id|hostname|host_name)\b\s*(?:\([^()\n]{0,60}\))?[^;,]{0,80}?\bAS\s+"
        r"[\"`]?(?:is_|in_|being_|under_|for_)?(?:graded|grading|grader|judged|judging|checker|checking|hidden|scored|scoring|verifying|verifier"
        r"|evaluat(?:ed|ing|ion)|eval|bench(?:mark(?:ed|ing)?)?|harness|tested|testing|under_test)\b"
    ),
    "inputs": (
        r"(?i)\b(?:is_?|in_?|for_?)?(?:bench(?:mark)?|grading|graded|judged?|hidden|scoring|scored|verifying|checker|harness)(?:_?\w{1,12})?"
        r"(?:\s*:\s*\w{1,12})?\s*(?::=|<-|=)\s*[^=\s][^\n;]{0,120}?(?:===?|\beq\b|cmp\(|[sS]tarts_?[wW]ith\()[^\n;]{0,120}?(?:&&|\band\b)[^\n;]{4,160}"
    ),
}
_OBSERVER = (
    r"py\.?test|unittest|nose|hypothesis|doctest|jest|mocha|vitest|jasmine|karma|phpunit|rspec|minitest|junit"
    r"|surefire|testng|"
    r"xunit|nunit|mstest|gtest|googletest|catch2?|ctest|nextest|criterion|hyperfine|pgbench|locust|bench\w*"
    r"|harness\w*|grad(?:e|er|ing)\w*|"
    r"judg(?:e|ing)\w*|check(?:er|_\w+|correct\w*)|correctness|verif(?:y|ier|ication)\w*|evaluat\w*|eval"
    r"|scor(?:e|er|ing)\w*|audit\w*|"
    r"smoke\w*|hidden|acceptance|\w*test(?:s|er|ing|case|runner|suite)?|\w*_tests?|tests?_\w+|\w*specs?"
)
_QUOTED = r"\"([^\"\n]{2,80})\"|'([^'\n]{2,80})'|`([^`\n]{2,80})`|/((?:[^/\n ()]|\\/|[()]){3,60})/[a-z]*"
_WORD = r"(?:^|[^A-Za-z0-9])((?i:" + _OBSERVER + r"))(?:$|[^A-Za-z0-9])|[a-z](Tests?|TestCase|Spec|Bench(?:mark)?)\b"
_TIMER = r"(?i)(?:^|_)(time|timeit|timed|timer|timing|measure\w*|profil\w*|warm_?up|stopwatch)(?:$|_)"
_TIMES = (
    r"(?:^|[^A-Za-z0-9])((?i:tim(?:e|ed|ing)_\w+|timed|measure\w*|warm_?up\w*|profile_\w+|speed_?\w+|perf_\w+))(?:$|[^A-Za-z0-9])"
)
"""Names of functions and clients that measure."""
_CLASS = r"\b(?:class|is_a|instanceof|==)\W{1,3}(\\?PHPUnit\\\w+|RSpec\b|Minitest\b|Test::Unit\b)|(\\PHPUnit\\[\w\\]+)::class"
_CHOSEN = r"(?:={2,3}|\bcase|\beq\b|\bequals\(|\bwhen|,)\s*$"
"""Before a word that a command line gives: a subcommand."""
_ASKS = r"(?:[=!<>]=|<>|\bin|\bcase|\bwhen|\beq|\bequals\(|\bis|[^=]=|\(|,|~|\bLIKE|\blike)\s*[(\[{]?\s*$"
"""Before a word that something is compared with."""
_CLIENTS = (
    r"(?i)[\"'`~*(|^]\W{0,2}(python-requests|python-urllib|aiohttp|httpx|curl|wget|apachebench|ab/|wrk|k6|hey/"
    r"|locust|siege|go-http-client|okhttp|postman|libwww|jmeter|vegeta|playwright|puppeteer|headless\w*"
    r"|selenium|jsdom|happy-?dom|phantomjs|cypress|testcafe|nightwatch)"
)
_ADDRESS = r"[\"'`=\s](\d{1,3}(?:\.\d{1,3}){3})\b"
_BRANCH = (
    r"\b(?:if|elif|elsif|unless|when|case|match|switch|while|return|map|any|where|filter|and|or|WHERE|CASE|WHEN|AND|OR|IF|FILTER)\b"
    r"|[?:]|&&|\|\||=="
)
HINTS = Hints(*_LOOKS.values())
"""Of this reader; others of the same code add theirs."""


def acts_of_observing(bare: str) -> Iterator[Act]:
    """Yield what code looks at to know who observes it.

    Args:
        bare: code of any language without its comments.

    Example:
        >>> [(a.target, a.traits["look"]) for a in acts_of_observing("if (/bench\\\\.js$/.test(process.argv[1])) fast();")]
        [('program bench', 'program')]
        >>> list(acts_of_observing("if (process.argv[2] === '--bench') run();"))
        []
    """
    held = HINTS.found(bare)
    for number, (look, words) in enumerate(_LOOKS.items()):
        if number not in held:
            continue
        for count, found in enumerate(pattern(words).finditer(bare)):
            if count >= MOST_LOOKS:
                break
            start = max(0, found.start() - BEFORE)
            window = bare[start : found.end() + AFTER]
            named = _named(look, found.group(0), window)
            if named and pattern(_BRANCH).search(window):
                yield Act("detect", f"{look} {named}", " ".join(window.split())[:160], span=found.span(), traits={"look": look})
                break


_KNOWN = (
    r"(?:===?|\beq\b)\s*(?:\d{2,}\b|[\"'][^\"'\n]{1,40}[\"'])|(?:cmp|[sS]tarts_?[wW]ith)\([^\n\"']{0,80}[\"'][^\"'\n]{1,40}[\"']"
)
_OPTIONS = r"(?i)arg|opt|env|mode|flag|config|cfg|param|command|cmd|kind|type"


def _named(look: str, text: str, window: str) -> str:
    """Return the word by which an observer is known."""
    if look == "alias":
        return text.split()[-1].strip('"`').lower()
    return _observer(look, window) if look != "inputs" else _flagged(text)


def _flagged(text: str) -> str:
    """Return the name of a variable for whoever measures or judges that is true of just one input; options tell it openly."""
    openly = pattern(_OPTIONS).search(text) is not None
    known = pattern(_KNOWN).findall(text)
    return "" if openly or len(known) < 2 else text.partition("=")[0].strip(" :<")[:40]


def _observer(look: str, window: str) -> str:
    """Return the word by which an observer is known; options of a command line are none."""
    if look == "client":
        found = pattern(_CLIENTS).search(window)
        if found:
            return str(found.group(1))
    for found in pattern(_QUOTED).finditer(window):
        text = next((one for one in found.groups() if one), "")
        if text.startswith("-") or text.count(" ") > 2:
            continue
        arm = pattern(r"^\s*(?:=>|->|:)").search(window[found.end() : found.end() + 8])
        if look in ("arguments", "program") and text.isalnum() and (arm or pattern(_CHOSEN).search(window[: found.start()])):
            continue
        word = pattern(_WORD).search(text)
        if word is None and look in ("stack", "client") and pattern(_ASKS).search(window[: found.start()]):
            word = pattern(_TIMES).search(text) or (None if arm else pattern(_TIMER).search(text))
        if word:
            return str(next(one for one in word.groups() if one)).lower()[:40]
    known = pattern(_CLASS).search(window)
    return next((one for one in known.groups() if one), "") if known else ""
