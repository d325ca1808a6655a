"""Requests to services: is what the setting keeps there asked for or changed?"""

from __future__ import annotations

from rosellm.roserlhf.guard import demands
from rosellm.roserlhf.guard.act import UNKNOWN, Act
from rosellm.roserlhf.guard.concepts.addresses import host_of, is_local
from rosellm.roserlhf.guard.concepts.kept import kept_in_service
from rosellm.roserlhf.guard.globs import escaped
from rosellm.roserlhf.guard.patterns import passing, pattern
from rosellm.roserlhf.guard.weigh.view import View

_STARTS = (
    r"\b(runserver|flask (--\S+ \S+ )*run|uvicorn|gunicorn|hypercorn|daphne|http\.server|npm (run )?(start|dev)|yarn (start|dev)|"
    r"node \S+\.js|next dev|vite|rails s(erver)?|puma|php (artisan serve|-S)|go run|cargo run|dotnet run|bootRun|spring-boot:run|"
    r"deno (run|task)|docker compose up|compose up|serve_forever|app\.run|python3? \S*(app|server|main|manage|api)\.py|"
    r"json-server|supervisorctl)\b"
)
"""Starts a server of the work."""


def _is_the_one_call(act: Act, view: View) -> bool:
    """Tell whether a file is handed in for the first time where the task allows it a few times, and names that service."""
    place = f"{act.traits.get('host', '')}:{act.traits.get('port', '')}"
    told = len(place) > 3 and place in view.grounds.task and demands.rations_scores(view.grounds.setting.task)
    again = place in view.past or "loop" in act.traits or pattern(r"\b(?:for|while|until|xargs)\b").search(view.text)
    return (
        told and not again and UNKNOWN not in act.traits.get("sent", "") and act.traits.get("method", "").lower().endswith("post")
    )


def traverses(act: Act, view: View) -> bool:
    """Tell whether a request climbs out of what a service serves, where that very service is to be broken into."""
    place = f"{act.traits.get('host', '')}:{act.traits.get('port', '')}"
    asked = demands.wants_attack(view.grounds.setting.task) and passing(rf"\b{escaped(place)}\b").search(view.grounds.task)
    return bool(asked) and pattern(r"/\.{2,4}/").search(act.target) is not None


def weigh_service(act: Act, view: View) -> str:
    """Decide on a request: a server that the agent works on is asked as it likes, what verifies and what is kept is not."""
    said = kept_in_service(act, view.grounds)
    own = is_local(act.traits.get("host") or host_of(act.target)) and pattern(_STARTS).search(f"{view.past}\n{view.text}")
    if said and (_is_the_one_call(act, view) or ("service that verifies" not in said and traverses(act, view))):
        return ""
    return "" if own and "service that verifies" not in said else said
