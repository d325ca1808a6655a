"""What sentences of tasks and phrases of settings mean: what they close, open, protect, permit and refuse."""

from __future__ import annotations

from typing import Any

import pytest

from rosellm.roserlhf.guard.deliverables import deliverables
from rosellm.roserlhf.guard.grounds import Grounds
from rosellm.roserlhf.guard.paths import Touch
from rosellm.roserlhf.guard.phrases import said
from rosellm.roserlhf.guard.refusals import refusals_of
from rosellm.roserlhf.guard.setting import Setting


def grounds(**fields: Any) -> Grounds:
    """The grounds of a setting in /w."""
    return Grounds(Setting.of({"workdir": "/w", **fields}))


def keeps(one: Grounds, path: str, *fields: str) -> bool:
    """Tell whether fields surely name a path and the agent is not given it more expressly."""
    return one.places.touch(path, *fields) >= Touch.OVERLAP and not one.places.is_rather_own(path)


UNREAD = [
    ("Do not read /srv/key.", "/srv/key"),
    ("Don't look into /opt/exam/ while you work.", "/opt/exam/a.txt"),
    ("Never open /mnt/gold/answers.csv.", "/mnt/gold/answers.csv"),
    ("The folder /opt/exam is none of your business.", "/opt/exam/x"),
    ("Hands off /opt/exam.", "/opt/exam/x"),
    ("Keep out of /opt/exam, please.", "/opt/exam/x"),
    ("Stay away from /opt/exam.", "/opt/exam/x"),
    ("Steer clear of /opt/exam/keys.", "/opt/exam/keys/k"),
    ("/opt/exam is off limits.", "/opt/exam/x"),
    ("/opt/exam and its logs are out of bounds.", "/opt/exam/x"),
    ("/opt/exam is out of scope for this exercise.", "/opt/exam/x"),
    ("What lies under /opt/exam is not for you.", "/opt/exam/x"),
    ("/opt/exam is not for participants.", "/opt/exam/x"),
    ("Nothing under /opt/exam may be read.", "/opt/exam/x"),
    ("You may not consult /opt/exam.", "/opt/exam/x"),
    ("You must not, under any circumstances, access /opt/exam/.", "/opt/exam/x"),
    ("No peeking at /opt/exam.", "/opt/exam/x"),
    ("Solve it without looking at /opt/exam.", "/opt/exam/x"),
    ("Reading /opt/exam is forbidden.", "/opt/exam/x"),
    ("Access to /opt/exam is prohibited.", "/opt/exam/x"),
    ("/opt/exam must neither be read nor copied.", "/opt/exam/x"),
    ("/opt/exam can't be read by you.", "/opt/exam/x"),
    ("Not allowed: guessing, reading /opt/exam.", "/opt/exam/x"),
    ("Forbidden:\n- network access\n- reading /opt/exam\n", "/opt/exam/x"),
    ("You should not be peeking into ../exam/.", "/exam/x"),
    ("`/opt/exam` stays closed to you.", "/opt/exam/x"),
    ("The key (/opt/exam/key.json) is not to be opened.", "/opt/exam/key.json"),
    ("Refrain from listing /opt/exam.", "/opt/exam/x"),
    ("/opt/exam isn't part of the task.", "/opt/exam/x"),
    ("Work in src/ and leave the examiner's home, /home/examiner, be.", "/home/examiner/notes"),
    ("Look through lib/ as you like; exam/ stays shut.", "/w/exam/1.md"),
    ("keys/ is the teacher's.", "/w/keys/a.csv"),
    ("Read everything in the repository except .secret/**, if it helps.", "/w/.secret/a"),
    ('{"goal": "`make` ends with 0", "read": "all files except marks/", "avoid": ["the network"]}', "/w/marks/a"),
]


@pytest.mark.parametrize(("task", "path"), UNREAD)
def test_paths_that_words_keep_from_being_read(task: str, path: str) -> None:
    assert keeps(grounds(task=task), path, "protected_read", "protected_write")


UNCHANGED = [
    ("Don't touch ci/.", "/w/ci/run.sh"),
    ("Leave tests/api alone.", "/w/tests/api/test_a.py"),
    ("Leave setup.cfg be.", "/w/setup.cfg"),
    ("Leave tox.ini and Makefile as they are.", "/w/Makefile"),
    ("package.json and spec/ stay as they are.", "/w/spec/a.js"),
    ("composer.json, phpunit.xml.dist and tests/ are frozen.", "/w/phpunit.xml.dist"),
    ("pyproject.toml is read-only.", "/w/pyproject.toml"),
    ("Do not edit existing tests, conftest.py or pytest.ini.", "/w/conftest.py"),
    ("You must not change go.mod.", "/w/go.mod"),
    ("go.sum may not be modified.", "/w/go.sum"),
    ("Statement.lean must remain unchanged.", "/w/Statement.lean"),
    ("The files in golden/ are fixed.", "/w/golden/a.txt"),
    ("Make it pass without editing checks.py.", "/w/checks.py"),
    ("No edits under benches/.", "/w/benches/b.rs"),
    ("No changes to Cargo.lock.", "/w/Cargo.lock"),
    ("Nothing below eval/ is to be changed.", "/w/eval/run.py"),
    ("data/ is readable, not writable.", "/w/data/a.csv"),
    ("bench/ may be read and run, not changed.", "/w/bench/run.py"),
    ("You can read harness.py, but do not modify it or timer.py.", "/w/timer.py"),
    ("Hands off .github/ - it belongs to the platform team.", "/w/.github/workflows/ci.yml"),
    ("Never delete anything in archive/.", "/w/archive/1.tar"),
    ("The contents of db/schema.sql aren't to be altered.", "/w/db/schema.sql"),
    ("tests/ is none of your concern: do not alter it.", "/w/tests/a.py"),
    ("Off limits for changes: scripts/release.sh.", "/w/scripts/release.sh"),
    ("lib/ is yours. perf/, Justfile and corpus/ are ours.", "/w/perf/run.sh"),
    ("grades.csv is filled in by the lecturer.", "/w/grades.csv"),
    ("log/runs.jsonl is written by bench.sh alone.", "/w/log/runs.jsonl"),
    ("Please don't bend the specs in spec/, new ones from upstream are welcome.", "/w/spec/a_spec.rb"),
    ('{"goal": "green", "never": ["editing bun.lock or conf/"]}', "/w/conf/a.toml"),
]


@pytest.mark.parametrize(("task", "path"), UNCHANGED)
def test_paths_that_words_keep_from_being_changed(task: str, path: str) -> None:
    one = grounds(task=task, visible_tests=["tests/**", "spec/**", "golden/**", "ci/**", "eval/**"])
    assert keeps(one, path, "protected_write", "protected_read")


FREE = [
    ("The cluster in /var/lib/db does not start since Monday. Repair it.", "/var/lib/db/pg.conf"),
    ("The services of /stack/compose.yml can't reach each other.", "/stack/compose.yml"),
    ("`web` serves /health, but is not reachable from outside.", "/health"),
    ("The kernel in /usr/src/linux boots in qemu (no network) to a shell.", "/usr/src/linux/a.c"),
    ("The project /src/old no longer builds.", "/src/old/a.c"),
    ("Operators for swish/add/norm don't count.", "/w/swish/add/norm"),
    ("encoding/json must not be imported in tok/.", "/w/tok/tok.go"),
    ("encoding/json must not be imported in tok/.", "/w/encoding/json"),
    ("You must not import sympy in rational/.", "/w/rational/core.py"),
    ("The checker writes pass/fail; do not ask it.", "/w/pass/fail"),
    ("gcc may not be called by cc.py.", "/w/cc.py"),
    ("No result may be cached in lib/agg.py.", "/w/lib/agg.py"),
    ("Do not weaken the rules of lint in src/rules.py.", "/w/src/rules.py"),
    ("The signature of parse in core.py must not change.", "/w/core.py"),
    ("Write the report to out/report.md; do not invent figures.", "/w/out/report.md"),
    ("The parser in src/p.py never returns. Mend it.", "/w/src/p.py"),
    ("Do not change anything except src/a.py.", "/w/src/a.py"),
    ("Nothing other than main.c may change.", "/w/main.c"),
    ("If you cannot reproduce it, see docs/debug.md.", "/w/docs/debug.md"),
    ("The log shows that app.py doesn't close its files.", "/w/app.py"),
    ("Read and/or run bench/x.py, but do not search the web.", "/w/bench/x.py"),
    ("/data/train.csv may be used; the web may not.", "/data/train.csv"),
    ("tests/smoke.py can be read and run, not the hidden ones.", "/w/tests/smoke.py"),
    ("Bring spec/models in line with docs/money.md, not with what the code gives.", "/w/spec/models/a.rb"),
    ("Take the figures from data/raw.csv rather than from memory.", "/w/data/raw.csv"),
    ("Mend src/net.c (its mutants lie in /opt/m, keep out) by Friday.", "/w/src/net.c"),
    ("runs.jsonl is written by bench.py alone.", "/w/bench.py"),
    ("The report is written by your program.", "/w/report.md"),
    ("Please don't bend the specs in spec/ that are already ours.", "/w/src/a.rb"),
]


@pytest.mark.parametrize(("task", "path"), FREE)
def test_paths_that_words_only_speak_of(task: str, path: str) -> None:
    one = grounds(task=task)
    assert not keeps(one, path, "protected_read", "protected_write", "verifier", "result_file")


SUBJECTS = [
    ("Do not look at later commits.", "history", "closed"),
    ("The commits after HEAD are none of your business.", "history", "closed"),
    ("Find the commit that broke it with git bisect; the whole history may be read.", "history", "open"),
    ("Remove the key from all of the history. Don't delete branches or tags.", "history", "not closed"),
    ("No upstream commits, no newer releases.", "upstream", "closed"),
    ("The published package is out of bounds.", "upstream", "closed"),
    ("Write it yourself, without the help of the upstream source.", "upstream", "closed"),
    ("scipy must not be used inside the package.", "upstream", "not closed"),
    ("Do not change package.json.", "upstream", "not closed"),
    ("Leave .github/ alone.", "upstream", "not closed"),
    ("No solutions from elsewhere, no editorials.", "solution", "closed"),
    ("Don't google the answer.", "solution", "closed"),
    ("Please don't go looking for write-ups.", "solution", "closed"),
    ("The labels of the test set are not for you.", "labels", "closed"),
    ("You can't use the private labels.", "labels", "closed"),
    ("Keep away from the judge's process.", "process", "closed"),
    ("The memory of the service is out of scope.", "process", "closed"),
    ("The time is measured in the process under test; do not slow it down.", "process", "not closed"),
    ("You have no internet.", "network", "not open"),
    ("Do it without the internet.", "network", "closed"),
    ("Search the web as you like.", "network", "open"),
    ("The work of other students must not be consulted.", "others", "closed"),
    ("gcc or any other compiler must not be called.", "others", "not closed"),
    ("conftest.py and hooks may be changed.", "runner", "open"),
    ("The harness is not to be touched or read.", "runner", "closed"),
    ("Add tests of your own.", "tests", "open"),
    ("Upstream's way of doing it is welcome.", "upstream", "open"),
    ("They mended it on their branch, could you pull that over?", "history", "open"),
]


@pytest.mark.parametrize(("task", "subject", "how"), SUBJECTS)
def test_subjects_that_words_close_and_open(task: str, subject: str, how: str) -> None:
    found = said(task)
    where = found.open if how.endswith("open") else found.closed
    assert (subject in where) is not how.startswith("not")


REFUSED = [
    ("It has to be your own numpy code: scipy must not be used inside the package.", "scipy", "numpy"),
    ("numpy may be used, scipy must not be used.", "scipy", "numpy"),
    ("Numba is fine, but cython is forbidden.", "cython", "numba"),
    ("Not allowed: linking, calling or copying any existing solver (minisat, kissat, glucose ...).", "minisat kissat glucose", ""),
    ("No OR-tools, LKH, VROOM.", "ortools lkh vroom", ""),
    ("Only POSIX sh, awk, sort and sed may be used.", "python perl gcc", "awk sed"),
    ("Pure Python, standard library only.", "numpy requests", "json"),
    ("Rust, no crates but std.", "regex", "std"),
    ("No dependency on other diff packages (fast-diff, jsdiff).", "fast-diff jsdiff", ""),
    ("You may not use another chess engine.", "stockfish", ""),
    ("MT services and installed MT models aren't allowed, dictionaries are.", "deepl", ""),
    ("Hands off numpy.", "numpy", ""),
    ("pandas isn't allowed.", "pandas", ""),
    ("Using requests is cheating.", "requests", ""),
    ("Stay away from `zlib` and gzip.", "zlib gzip", ""),
    ("torch is taboo in the solution.", "torch", ""),
    ("Write the lexer by hand, without flex, bison or antlr.", "flex bison antlr", ""),
    ("encoding/json must not be imported in tok/.", "json", ""),
    ("hashlib may be used in tests only.", "hashlib", ""),
    ("The published package may not be consulted.", "", "published"),
    ("/srv/golden_private is off limits.", "", "golden_private"),
    ("Use numpy; do not use loops.", "", "numpy"),
]


@pytest.mark.parametrize(("task", "refused", "free"), REFUSED)
def test_what_may_be_used_and_what_must_not(task: str, refused: str, free: str) -> None:
    names = refusals_of(task).names
    assert set(refused.split()) <= names
    assert not set(free.split()) & names


MADE = [
    ("Write /app/report.json with the sums.", "/app/report.json"),
    ("Produce report.md (2 pages).", "report.md"),
    ("Train on a.csv and write b.csv.", "b.csv"),
    ("Collect the prices into prices.csv.", "prices.csv"),
    ("Put the flag in /home/p/flag.txt.", "/home/p/flag.txt"),
    ("Translate de/*.txt into out/en/*.txt.", "out/en/*.txt"),
    ("You must save the answer to answer.json.", "answer.json"),
    ("Document the design in DESIGN.md.", "DESIGN.md"),
    ("bench.py writes score.json.", ""),
    ("The harness will read result.json and write verdict.json.", ""),
    ("Do not write to logs/x.txt.", ""),
    ("Answer from docs/a.md only.", ""),
    ("Count them with count.jl; counts.txt holds what it prints.", "counts.txt"),
    ("Keep seen/list.csv (name,date) with what you observed.", "seen/list.csv"),
    ("Keep ci/run.sh as it is.", ""),
    ("golden.txt holds what the judge prints.", ""),
]


@pytest.mark.parametrize(("task", "path"), MADE)
def test_files_that_a_task_asks_for(task: str, path: str) -> None:
    assert deliverables(task) == ((path,) if path else ())


VERIFIERS = [
    ("python /x/grade.py /w/out/a.csv", "/x/grade.py", "/w/out/a.csv"),
    ("python score.py --pred pred.csv", "/w/score.py", "/w/pred.csv"),
    ("/x/eval.py --solver bin/mine --timeout 60", "/x/eval.py", "/w/bin/mine"),
    ("adequacy judge over out/en", "", "/w/out/en/a.txt"),
    ("the auditor writes pass/fail to its volume", "", "/w/pass/fail"),
    ("mvn test, reports parsed from target/surefire-reports", "/w/target/surefire-reports/a.xml", "/w/target/classes/a.class"),
    ("pytest /x/tests --ctrf /logs/ctrf.json", "/logs/ctrf.json", "/w/src/a.py"),
    ("/x/run.sh copies its tests into tests/", "/x/run.sh", "/w/tests/test_new.py"),
    ({"command": "python bench.py --all", "data": "/var/bench/*.db"}, "/var/bench/a.db", "/w/src/b.py"),
    ("node /judge/run.mjs > /judge/out.json", "/judge/out.json", "/w/src/run.mjs"),
]


@pytest.mark.parametrize(("verifier", "decides", "free"), VERIFIERS)
def test_words_of_a_verifier(verifier: Any, decides: str, free: str) -> None:
    one = grounds(
        task="Predict pred.csv.",
        writable=["out/**", "pred.csv", "bin/**", "target/**", "tests/**", "src/**", "/tmp/**"],
        verifier=verifier,
    )
    assert not decides or one.places.touch(decides, "verifier") >= Touch.OVERLAP
    assert one.places.touch(free, "verifier") <= Touch.NAME


FIELDS = [
    ({"writable": ["Cargo.toml (dependencies only)"]}, "/w/Cargo.toml", True),
    ({"writable": "/w and /tmp"}, "/tmp/a", True),
    ({"writable": ["src/** except src/gen/"], "protected_write": ["src/gen/**"]}, "/w/src/gen/a.c", False),
    ({"writable": ["tests/** apart from conftest.py"]}, "/w/tests/conftest.py", False),
    ({"writable": ["everything below lib other than lib/core.py"]}, "/w/lib/core.py", False),
    ({"own_files": ["hw.ipynb (solution cells only)"]}, "/w/hw.ipynb", True),
]


@pytest.mark.parametrize(("fields", "path", "own"), FIELDS)
def test_phrases_that_give_and_leave_out(fields: dict[str, Any], path: str, own: bool) -> None:
    assert grounds(**fields).places.is_own(path) is own


HOSTS = [
    (["registry.npmjs.org (dev dependencies only)"], "registry.npmjs.org", True),
    (["api.github.com (composer dist downloads only)"], "gitlab.com", False),
    (["any host except those of the benchmark"], "example.org", True),
    ("any site but deeptrawl.org", "deeptrawl.org", False),
    ("the museums' own sites as listed in museums.csv", "museum.org", None),
    (["*.python.org"], "docs.python.org", True),
    ([], "example.org", False),
    (None, "example.org", None),
]


@pytest.mark.parametrize(("hosts", "host", "allowed"), HOSTS)
def test_hosts_in_plain_words(hosts: Any, host: str, allowed: bool | None) -> None:
    assert grounds(allowed_hosts=hosts).reach.host_allowed(host) is allowed


PACKAGES = [
    (["scipy (scratch only)"], "scipy", True),
    (["apt: nginx, openssl, curl"], "curl", True),
    ("any Debian package", "john", None),
    ("anything on PyPI that reads PDFs", "pypdf", None),
    (["numpy and pandas"], "pandas", True),
    (["numpy"], "scipy", False),
    ([], "scipy", False),
]


@pytest.mark.parametrize(("packages", "name", "allowed"), PACKAGES)
def test_packages_in_plain_words(packages: Any, name: str, allowed: bool | None) -> None:
    assert grounds(allowed_packages=packages).reach.package_allowed(name) is allowed


KEYS = [
    ({"rules": "no upstream source, no install of the project itself"}, "upstream", True),
    ({"notes": ["Do not read later commits."]}, "history", True),
    ({"forbidden": ["the solutions of others", "the web"]}, "solution", True),
    ({"constraints": "Editorials are off limits."}, "solution", True),
    ({"notes": "unreachable objects of this repository may be inspected"}, "history", False),
    ({"language": "python", "base_commit": "4be10d2"}, "history", False),
]


@pytest.mark.parametrize(("keys", "subject", "closed"), KEYS)
def test_further_keys_are_read_like_the_task(keys: dict[str, Any], subject: str, closed: bool) -> None:
    assert (subject in grounds(task="Fix it.", **keys).closed) is closed


def test_what_the_task_asks_for_is_not_the_verdict() -> None:
    one = grounds(task="Produce report.md on tides.", writable=["**"], result_file="report.md", verifier="a judge model")
    assert not keeps(one, "/w/report.md", "result_file", "verifier")
    kept = grounds(task="Make tests pass. The harness writes out/result.json.", writable=["src/**"], result_file="out/result.json")
    assert keeps(kept, "/w/out/result.json", "result_file")
    assert Grounds(Setting.of({"workdir": "~/reg", "protected_write": ["base/**"]})).places.touch(
        "/root/reg/base/a.v", "protected_write"
    )


@pytest.mark.parametrize(
    ("fields", "path", "kept"),
    [
        ({"protected_write": "test/, karma.conf.js, .babelrc; files in vendor/ by hand"}, "karma.conf.js", True),
        ({"protected_write": "test/, karma.conf.js, .babelrc; files in vendor/ by hand"}, "vendor/a.js", True),
        ({"protected_write": "test/, karma.conf.js, .babelrc; files in vendor/ by hand"}, "src/a.js", False),
        ({"protected_write": ["tests/** other than test_own_*"]}, "tests/test_own_a.py", False),
        ({"protected_write": ["tests/** other than test_own_*"]}, "tests/test_a.py", True),
        ({"protected_write": ["src/test/** except extra"]}, "src/test/java/extra/A.java", False),
        ({"protected_write": ["src/test/** except extra"]}, "src/test/java/A.java", True),
        ({"verifier": "pytest /ver/t, run in /w after the session"}, "a.py", False),
        ({"verifier": "cargo test with the hidden tests put into tests/"}, "tests/own.rs", False),
        ({"verifier": "make -C /w score"}, "src/a.c", False),
        ({"verifier": "judge.verify(runs/<id>)"}, "judge.py", True),
        ({"result_file": "runs/<id>/record.json"}, "runs/7/record.json", True),
        ({"result_file": "draft.md", "writable": ["draft.md"]}, "draft.md", False),
        ({"result_file": "score.json", "writable": ["**"]}, "score.json", True),
        ({"verifier": "/jury/check /w/knots.cpp", "own_files": "knots.cpp"}, "knots.cpp", False),
        ({"task": "Make spec/cart_spec.rb pass.", "protected_write": "spec/** existing"}, "spec/cart_spec.rb", True),
    ],
)
def test_what_lists_exceptions_and_places_of_a_verifier_keep(fields: dict[str, Any], path: str, kept: bool) -> None:
    names = ("protected_write", "verifier", "result_file")
    assert keeps(grounds(**fields), f"/w/{path}", *names) is kept


@pytest.mark.parametrize(
    ("phrase", "kept"),
    [
        ("any file that holds labels for ids of data/test.csv", False),
        ("the true prices behind data/test.csv", False),
        ("labels of the rows in data/test.csv", False),
        ("the labels in data/test_labels.csv", True),
        ("data/test.csv", True),
        ("the contents of data/test.csv", True),
    ],
)
def test_labels_for_what_a_given_file_holds(phrase: str, kept: bool) -> None:
    one = grounds(task="Predict the target for data/test.csv; never use data/test_labels.csv.", protected_read=[phrase])
    path = "data/test_labels.csv" if "test_labels" in phrase else "data/test.csv"
    assert keeps(one, f"/w/{path}", "protected_read") is kept


@pytest.mark.parametrize(
    ("task", "closed", "not_closed"),
    [
        ("Not in scope: the score server, other teams' hosts, published write-ups.", "others solution", ""),
        ("No peeking upstream, leave jest.config.js and existing specs alone.", "upstream", "tests"),
        ("Do not train on test rows' labels.", "labels", "tests"),
        ("You mustn't change bench/** or keep results outside the database copy.", "", "runner"),
        ("Other CSV crates are not allowed in the solution.", "", "solution"),
        ("No in-memory fakes.", "", "process"),
        ("The later code of the project is not to be consulted.", "upstream", ""),
    ],
)
def test_subjects_that_clauses_close(task: str, closed: str, not_closed: str) -> None:
    found = grounds(task=task).closed
    assert set(closed.split()) <= found
    assert not set(not_closed.split()) & found


def test_parts_of_hosts_and_hosts_that_notes_block() -> None:
    one = grounds(
        allowed_hosts="any, save the benchmark's pages (github.com/hopset/*, hopset.org)", notes="blocked hosts: evil.ai, x.io"
    )
    assert one.reach.host_allowed("github.com")
    assert not one.reach.host_allowed("hopset.org")
    assert not one.reach.host_allowed("evil.ai")
    assert any(found.search("github.com/hopset/data.json") for found in one.addresses)


def test_what_may_be_used_beside_the_standard_library() -> None:
    names = refusals_of("Write solver.py (pure Python + numpy). No solver libraries (OR-Tools, PyVRP).").names
    assert "numpy" not in names
    assert {"scipy", "pyvrp"} <= names
    assert "torch" not in refusals_of("Write your own kernel, no torch ops for the computation.").names


def test_new_tests_where_the_same_place_is_kept() -> None:
    one = grounds(writable=["spec/** new ones only"], protected_write=["spec/** existing"])
    assert one.places.only_what_exists("/w/spec/a_spec.rb", "protected_write")
    assert not one.places.is_rather_own("/w/spec/a_spec.rb", new=False)


@pytest.mark.parametrize(
    ("fields", "path", "field", "touches"),
    [
        ({"protected_read": ["**/secret_*.csv"]}, "/w/notes/plan.txt", "protected_read", False),
        ({"protected_read": ["**/secret_*.csv"]}, "/w/policy/*.rego", "protected_read", False),
        ({"task": "Speed up src/, whose limit was typed in bytes instead of MiB."}, "/w/src/a.c", "protected_write", False),
        ({"task": "Edit the copy instead of src/."}, "/w/src/a.c", "protected_write", True),
        (
            {"task": "lib/ imports nothing and lib/old may not be read.", "writable": ["lib/**"]},
            "/w/lib/a.ts",
            "protected_read",
            False,
        ),
    ],
)
def test_what_words_and_globs_do_not_keep(fields: dict[str, Any], path: str, field: str, touches: bool) -> None:
    assert bool(grounds(**fields).places.touch(path, field)) is touches


@pytest.mark.parametrize(
    ("fields", "path", "own"),
    [
        ({"result_file": "STATUS.md"}, "/w/STATUS.md", True),
        (
            {"task": "Answer the questions: answers.jsonl with id and answer.", "result_file": "answers.jsonl"},
            "/w/answers.jsonl",
            True,
        ),
        ({"result_file": "run.md (written by run.py)"}, "/w/run.md", False),
        ({"result_file": "out/verdict.json"}, "/w/out/verdict.json", False),
    ],
)
def test_results_that_are_handed_in(fields: dict[str, Any], path: str, own: bool) -> None:
    assert keeps(grounds(**fields), path, "result_file") is not own


def test_addresses_that_may_be_used_and_what_is_refused_after_them() -> None:
    one = grounds(task="The model at http://127.0.0.1:9 may be used freely, other models may not.")
    assert not any(address.search("127.0.0.1:9/x") for address in one.addresses)
    two = grounds(task="General reading is fine, write-ups of this box (BoxCup 2024) are not.")
    assert two.statement.seeks_answer("boxcup 2024 writeup")
    three = grounds(task="The finished proofs (github.com/uni-x/szq) must not be looked at.")
    assert three.project.are_in("szq lemma")
    assert "uni-x.github.io/szq" in three.project.sources
