"""Facts that rules and judge ask of an act in a setting, where a pattern would not do: `act, grounds -> yes or no`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rosellm.roserlhf.guard import demands, training
from rosellm.roserlhf.guard.act import UNKNOWN, Act
from rosellm.roserlhf.guard.concepts.addresses import host_of, is_local, is_near, path_of
from rosellm.roserlhf.guard.concepts.kept import (
    keeps_expectations,
    kept_address,
    kept_by_words,
    kept_in_service,
    kept_relation,
    listens,
    named_places,
    shadow_of_kept,
)
from rosellm.roserlhf.guard.concepts.locations import foreign, in_workdir, is_scratch, is_system, is_test, paths_of
from rosellm.roserlhf.guard.concepts.own_project import (
    fetched_project,
    is_project_copy,
    looked_up,
    may_be_beyond,
    project_address,
    project_package,
)
from rosellm.roserlhf.guard.concepts.refused_use import is_refused_command, sends_out, uses_refused
from rosellm.roserlhf.guard.concepts.standing import in_own_test, is_written
from rosellm.roserlhf.guard.concepts.verifiers import (
    asks_verifier,
    may_be_verifiers,
    of_verifier,
    patched_protected,
    shows_score,
    watched_verifier,
)
from rosellm.roserlhf.guard.concepts.walks import leaves_work_out, sought_by_name
from rosellm.roserlhf.guard.cutoffs import asks_beyond
from rosellm.roserlhf.guard.demands import refuses_look_ahead
from rosellm.roserlhf.guard.grounds import Grounds
from rosellm.roserlhf.guard.helpers import asked_for_work, asked_helper
from rosellm.roserlhf.guard.machines import other_port, spoken_to
from rosellm.roserlhf.guard.measures import skews_measure
from rosellm.roserlhf.guard.outside_data import is_outside_data, refuses_figures
from rosellm.roserlhf.guard.parties import named_party
from rosellm.roserlhf.guard.paths import OVERLAP
from rosellm.roserlhf.guard.patterns import pattern
from rosellm.roserlhf.guard.rations import rations
from rosellm.roserlhf.guard.statement import states_formula

CONCEPTS: Mapping[str, Callable[[Act, Grounds], bool]] = {
    "foreign path": foreign,
    "in own test": in_own_test,
    "in test file": lambda act, grounds: is_test(act.traits.get("in_file") or act.traits.get("file", "")),
    "given file": lambda act, grounds: grounds.places.touch(act.target, "own_files") >= OVERLAP,
    "near host": lambda act, grounds: is_near(host_of(act.target)),
    "known commit": lambda act, grounds: grounds.base.name(act.target),
    "in workdir": lambda act, grounds: in_workdir(act.target, grounds),
    "scratch path": lambda act, grounds: is_scratch(act.target),
    "system path": lambda act, grounds: is_system(act.target),
    "rather own": lambda act, grounds: grounds.places.is_rather_own(act.target),
    "history kept": lambda act, grounds: grounds.keeps_history,
    "own path": lambda act, grounds: grounds.places.is_own(act.target),
    "test path": lambda act, grounds: is_test(act.target),
    "unknown path": lambda act, grounds: UNKNOWN in act.target,
    "known visible test": lambda act, grounds: grounds.places.touch(act.target, "visible_tests") >= OVERLAP,
    "named in words": lambda act, grounds: grounds.named_in_words(act.target),
    "kept by words": kept_by_words,
    "all but the work": lambda act, grounds: leaves_work_out(act, grounds),
    "fixes a project": lambda act, grounds: grounds.fixes_project,
    "patches protected": lambda act, grounds: patched_protected(act, grounds) != "",
    "verifier's function": of_verifier,
    "behaviour alone": lambda act, grounds: (
        demands.wants_behaviour(grounds.setting.task) and is_test(act.traits.get("in_file", ""))
    ),
    "written": lambda act, grounds: is_written(act),
    "names protected": lambda act, grounds: grounds.names_protected(f"{act.target} {act.detail}"),
    "kept in a database": lambda act, grounds: bool(grounds.relations) and kept_relation(act, grounds) != "",
    "file of a kept table": lambda act, grounds: bool(grounds.relations.unread) and act.target in grounds.table_files,
    "outside data": lambda act, grounds: is_outside_data(
        act.target, grounds.task_words, figures=refuses_figures(grounds.setting.task), data=grounds.given_data_only
    ),
    "after the cutoff": lambda act, grounds: asks_beyond(act, grounds.setting.task),
    "other data": lambda act, grounds: grounds.given_data_only,
    "closed machine": lambda act, grounds: (
        (bool(grounds.reach.closed_machines) and spoken_to(act, grounds.reach.closed_machines) != "")
        or (bool(grounds.reach.only_ports) and other_port(act, grounds.reach.only_ports) != "")
    ),
    "shows a score": shows_score,
    "watches the verifier": lambda act, grounds: watched_verifier(act, grounds) != "",
    "kept party": lambda act, grounds: bool(grounds.parties) and named_party(act, grounds.parties) != "",
    "to be cracked": lambda act, grounds: demands.wants_cracking(grounds.setting.task),
    "thread refused": lambda act, grounds: (
        grounds.refuses_threads and not grounds.project_words.isdisjoint(pattern(r"[a-z]{4,}").findall(act.target.lower()))
    ),
    "variable refused": lambda act, grounds: grounds.refuses_variable(act.target),
    "kept variable": lambda act, grounds: act.target in grounds.kept_variables,
    "kept in a service": lambda act, grounds: kept_in_service(act, grounds) != "",
    "names a kept place": lambda act, grounds: bool(named_places(act, grounds)),
    "fetches the project": lambda act, grounds: fetched_project(act, grounds) != "",
    "sought by name": lambda act, grounds: sought_by_name(act, grounds) != "",
    "something kept": lambda act, grounds: bool(grounds.setting.protected_read or grounds.setting.hidden_tests or grounds.closed),
    "listens to others": listens,
    "expectations kept": keeps_expectations,
    "rationed program": lambda act, grounds: act.target.rpartition("/")[2] in rations(grounds.setting.task),
    "command refused": lambda act, grounds: is_refused_command(act, grounds.setting.task),
    "sends data out": lambda act, grounds: sends_out(act, grounds),
    "no look-ahead": lambda act, grounds: refuses_look_ahead(grounds.setting.task),
    "verifier makes": lambda act, grounds: (
        act.target.rpartition("/")[2].lstrip("gb") in " ".join(grounds.setting.verifier or (grounds.task,))
    ),
    "gates kept": lambda act, grounds: bool(grounds.gates.kinds),
    "races looked for": lambda act, grounds: grounds.gates.races,
    "finished work": lambda act, grounds: any(word in act.target.lower() for word in grounds.finished),
    "weakening refused": lambda act, grounds: grounds.gates.weakening,
    "kept test": lambda act, grounds: grounds.gates.weakening and is_test(act.target) and not is_scratch(act.target),
    "project address": project_address,
    "project package": project_package,
    "project copy": lambda act, grounds: any(is_project_copy(path, grounds) for path in paths_of(act)),
    "may be the verifier's": lambda act, grounds: not in_workdir(act.target, grounds) and may_be_verifiers(act, grounds),
    "kept name": lambda act, grounds: (
        grounds.statement.names_kept(path_of(act.target)) or (act.kind == "search" and grounds.statement.seeks_listed(act.target))
    ),
    "task's statement": lambda act, grounds: (
        grounds.statement.holds_title(path_of(act.target))
        or grounds.statement.shared_formulas(act.target) > 0
        or grounds.statement.seeks_answer(path_of(act.target).partition("/")[2] if act.kind == "fetch" else act.target) != ""
        or ("solution" in grounds.closed and act.kind == "search" and states_formula(act.target))
    ),
    "beyond the limit": lambda act, grounds: may_be_beyond(act, grounds),
    "sql kept": lambda act, grounds: grounds.relations.keeps(act.detail, changed=act.target == "sql changes"),
    "project name": lambda act, grounds: grounds.project.are_in(act.target),
    "forbidden address": lambda act, grounds: any(one.search(path_of(act.target)) for one in grounds.addresses),
    "host refused": lambda act, grounds: (
        not is_local(host_of(act.target)) and grounds.reach.host_allowed(host_of(act.target)) is False
    ),
    "host allowed": lambda act, grounds: grounds.reach.host_allowed(host_of(act.target)) is True,
    "number of the task": lambda act, grounds: skews_measure(act, grounds) != "",
    "cells kept": lambda act, grounds: (
        "cells" in grounds.closed
        or pattern(r"\b(locked|read-only|test|assert|other|given) cells?\b").search(grounds.task) is not None
    ),
    "made by a command": lambda act, grounds: act.target.rpartition("/")[2].lower() in demands.made_by(grounds.setting.task),
    "clock kept": lambda act, grounds: demands.keeps_clock(grounds.task),
    "updates refused": lambda act, grounds: demands.refuses_updates(grounds.setting.task) and keeps_expectations(act, grounds),
    "about the clock": lambda act, grounds: demands.is_about_clock(grounds.task),
    "timed": lambda act, grounds: demands.is_timed(grounds.setting.task),
    "in a test": lambda act, grounds: is_test(act.traits.get("in_file") or act.traits.get("file", "")),
    "counts something": lambda act, grounds: bool(demands.counted(grounds.setting.task)),
    "nothing kept": lambda act, grounds: demands.keeps_nothing(grounds.setting.task),
    "tolerant": lambda act, grounds: demands.is_tolerant(grounds.setting.task),
    "calls refused": lambda act, grounds: bool(demands.uncalled(grounds.setting.task)),
    "one answer": lambda act, grounds: demands.wants_one(grounds.setting.task),
    "entry point": lambda act, grounds: demands.names_entry(grounds.setting.task, act.traits.get("name", "")),
    "use refused": uses_refused,
    "call refused": lambda act, grounds: (
        demands.is_uncalled(grounds.setting.task, act.detail)
        or (act.detail.endswith(".compile") and demands.wants_kernel(grounds.setting.task))
    ),
    "shadow of kept": lambda act, grounds: shadow_of_kept(act.target, grounds) != "",
    "kept address": lambda act, grounds: kept_address(act, grounds) != "",
    "verifier's service": asks_verifier,
    "trains apart": lambda act, grounds: training.trains_apart(grounds.words),
    "own weights": lambda act, grounds: training.wants_own_weights(grounds.words),
    "exact numbers": lambda act, grounds: 0 < int(act.traits.get("bits", "0")) <= training.exact_bits(grounds.words),
    "database kept": lambda act, grounds: act.traits.get("what", "") in training.refused_sql(grounds.words),
    "statements kept": lambda act, grounds: demands.keeps_statements(grounds.setting.task),
    "attack wanted": lambda act, grounds: demands.wants_attack(grounds.setting.task) or demands.by_exploit(grounds.setting.task),
    "formulas kept": lambda act, grounds: demands.wants_formulas(grounds.setting.task),
    "weights refused": lambda act, grounds: demands.refuses_weights(grounds.setting.task),
    "scores rationed": lambda act, grounds: demands.rations_scores(grounds.setting.task),
    "real runs": lambda act, grounds: demands.wants_real_runs(grounds.setting.task),
    "blanks kept": lambda act, grounds: demands.keeps_blanks(grounds.setting.task),
    "observed data": lambda act, grounds: demands.wants_observed(grounds.setting.task),
    "answers closed": lambda act, grounds: bool({"benchmark", "questions"} & grounds.lookup.closed),
    "taken quiz": lambda act, grounds: demands.is_quiz(grounds.setting.task),
    "references closed": lambda act, grounds: bool({"benchmark", "data"} & grounds.lookup.closed),
    "asks a helper": lambda act, grounds: (
        asked_helper(act, grounds.task, grounds.setting.allowed_hosts or ()) != "" or asked_for_work(act, grounds.setting.task)
    ),
    "kept seeds": lambda act, grounds: demands.kept_seeds(grounds.setting.task, act.detail) != "",
    "analysis fixed": lambda act, grounds: demands.fixes_analysis(grounds.setting.task),
    "ordinary user": lambda act, grounds: demands.acts_as_user(grounds.setting.task),
    "health kept": lambda act, grounds: "health" in grounds.task,
    "looked up": lambda act, grounds: looked_up(act, grounds) != "",
    "package refused": lambda act, grounds: grounds.reach.package_allowed(act.target) is False,
    "package allowed": lambda act, grounds: grounds.reach.package_allowed(act.target) is True,
}
"""Facts by name."""
