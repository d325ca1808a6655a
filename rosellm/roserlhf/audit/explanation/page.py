"""An explanation as a page: `Explanation -> HTML`, every update a strip of tokens coloured by the sign and size of their gradient.

Everything a model or an environment wrote is escaped; nothing is fetched. The colours are not needed to read it: a token that is
pushed up has its bar above, one that is pushed down below, and the table under each strip has every number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from rosellm.roserlhf.audit.explanation.explain import Explanation
from rosellm.roserlhf.audit.explanation.numbers import brief
from rosellm.roserlhf.audit.explanation.reward_story import CreditStory
from rosellm.roserlhf.audit.explanation.token_arithmetic import arithmetic, precise
from rosellm.roserlhf.audit.explanation.token_story import TokenStory
from rosellm.roserlhf.audit.explanation.update_story import TokenUpdate, UpdateStory
from rosellm.roserlhf.report import units
from rosellm.roserlhf.report.document import document
from rosellm.roserlhf.report.markup import Html, join, tag, text, visible
from rosellm.roserlhf.report.style import CSS

SHOWN_TOKENS = 1200
"""Tokens of a strip and rows of its table; of a longer row the middle is left out."""
_SHADES = 5
_STYLE = """
.t.up{border-top:3px solid var(--pass);background:color-mix(in srgb,var(--pass) calc(7% + 7%*var(--s,0)),transparent)}
.t.down{border-bottom:3px solid var(--fail);background:color-mix(in srgb,var(--fail) calc(7% + 7%*var(--s,0)),transparent)}
.t.none{border-bottom:3px dashed var(--none)}
.t.left{border-bottom:3px dotted var(--none)}
.t.g{outline:2px dotted var(--fail);outline-offset:1px}
a.t{color:inherit;text-decoration:none}
a.t:focus-visible,a.t:hover{outline:2px solid var(--accent)}
tr:target>*{background:var(--hit)}
.formula{font:.86rem/1.7 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;background:var(--card);
border:1px solid var(--rule);border-radius:8px;padding:.5rem .8rem;margin:.5rem 0}
.formula p{margin:0}
.story p{max-width:88ch}
h1 .id{font-size:1.05rem;font-weight:450;color:var(--soft);display:block;margin-top:.2rem}
td.w,th.w{text-align:left}
.group tbody th{white-space:normal;overflow-wrap:anywhere;min-width:9rem}
h3{margin-top:.7rem}
"""
_COLUMNS = (
    "position",
    "token",
    "id",
    "turn",
    "version",
    "behaviour",
    "current",
    "ratio",
    "token loss",
    "dL/dl",
    "share",
    "verdict",
)


def build_page(explanation: Explanation) -> str:
    """Write the page of one explanation."""
    main = [_story(explanation), *_guard(explanation), _credit(explanation.credit, explanation.trajectory_id)]
    if explanation.updates:
        main += [_update(explanation, update) for update in explanation.updates]
    else:
        strip = _strip(explanation.tokens, {}, None, "")
        main.append(tag("section", tag("h2", "Tokens"), strip))
    if len(explanation.tokens) == 1:
        main.append(_worked_out(explanation, explanation.tokens[0]))
    title = "Why these tokens moved" if explanation.nothing_moved is None else "Why these tokens moved nothing"
    header = tag("header", tag("div", tag("h1", title, tag("span", explanation.trajectory_id, class_="id"))))
    footer = tag("footer", "Made from the event log of the run alone: ", explanation.run)
    return document(f"{title}: {explanation.trajectory_id[:120]}", header, tag("main", *main), footer, css=CSS + _STYLE)


def _story(explanation: Explanation) -> Html:
    sentences = [tag("p", sentence) for sentence in explanation.headline]
    problems = [_finding("contradiction", "serious", problem) for problem in explanation.problems]
    missing = [_finding("not known", "notice", what) for what in explanation.missing]
    options = ", ".join(f"{name} {value}" for name, value in explanation.objective.items() if name != "recipe")
    recipe = explanation.objective.get("recipe")
    named = tag("p", f"recipe {recipe}" + (f": {options}" if options else ""), class_="soft") if recipe else None
    return tag("section", *sentences, named, *problems, *missing, class_="story")


def _guard(explanation: Explanation) -> list[Html]:
    """Say what the guard did; the tokens of the calls are framed below."""
    if not explanation.guard:
        return []
    found = [_finding(one.event.outcome, "serious" if one.event.attempt else "notice", one.words) for one in explanation.guard]
    return [tag("section", tag("h2", "Guard"), *found)]


def _finding(kind: str, class_: str, words: str) -> Html:
    return tag("div", tag("span", kind, class_="chip"), tag("p", words), class_=f"finding {class_}")


def _credit(credit: CreditStory, mine: str) -> Html:
    paid = [
        tag(
            "p",
            f"turn {turn.turn}: "
            + ", ".join(f"{name} {'not scored' if value is None else brief(value)}" for name, value in turn.components.items())
            + ("" if turn.weighted is None else f"; weighted {brief(turn.weighted)}"),
        )
        for turn in credit.turns
    ]
    weights = "not known here" if credit.weights is None else ", ".join(f"{name} {brief(v)}" for name, v in credit.weights.items())
    lines = [tag("p", line) for line in credit.formula]
    for turn, told in enumerate(credit.turn_formulas, credit.first_turn):
        lines += [tag("p", f"turn {turn}: {line}") for line in told]
    recorded = None if credit.recorded is None else tag("p", f"recorded: A = {credit.recorded!r}")
    formula = tag("div", *lines, recorded, class_="formula") if lines or recorded else None
    return tag(
        "section",
        tag("h2", "Reward and advantage"),
        *(paid or [tag("p", "No turn was paid.", class_="missing")]),
        tag("p", f"weights of the total: {weights}", class_="soft"),
        _group(credit, mine),
        formula,
    )


def _group(credit: CreditStory, mine: str) -> Html | None:
    if not credit.members:
        return None
    head = tag("tr", *(tag("th", name) for name in ("member of the group", "reward", "advantage")))
    rows = []
    for member in credit.members:
        reward = member.left_out or ("not known" if member.reward is None else brief(member.reward))
        advantage = units.advantage(member.advantage) or "none"
        name = tag("b", member.trajectory_id, " (this one)") if member.trajectory_id == mine else text(member.trajectory_id)
        rows.append(tag("tr", tag("th", name), tag("td", reward), tag("td", advantage)))
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="scroll group")


def _update(explanation: Explanation, update: UpdateStory) -> Html:
    moved = {one.position: one for one in update.tokens}
    largest = max((abs(one.derivative) for one in update.tokens if one.derivative), default=None)
    facts = [
        f"{update.rows} rows",
        f"denominator {brief(update.denominator)}",
        f"loss {update.loss:.6g}" + ("" if update.recomputed_loss is None else f" (recomputed {update.recomputed_loss:.6g})"),
        f"gradient norm {update.gradient_norm:.4g}"
        + ("" if update.clip_scale is None or update.clip_scale == 1 else f", scaled by {update.clip_scale:.3g}"),
        f"learning rate {update.learning_rate:.4g}",
    ]
    anchor = f"u{update.number}-"
    skipped = None if update.skipped is None else _finding("not made", "serious", update.skipped)
    return tag(
        "section",
        tag("h2", f"Update {update.number} of step {update.step}, epoch {update.epoch}"),
        tag("p", " · ".join(facts), class_="soft"),
        skipped,
        _legend() if update is explanation.updates[0] else None,
        _strip(explanation.tokens, moved, largest, anchor),
        tag("h3", "Every number"),
        _table(explanation.tokens, moved, anchor),
    )


def _legend() -> Html:
    marks = [
        ("t up", "bar above: pushed up, dL/dl < 0"),
        ("t down", "bar below: pushed down, dL/dl > 0"),
        ("t none", "dashed: in the loss, but no gradient"),
        ("t left", "dotted: sampled, not in the loss"),
        ("t g", "dotted frame: a call that the guard looked at"),
    ]
    parts = [tag("li", tag("span", "token", class_=classes), meaning) for classes, meaning in marks]
    return tag("ul", *parts, tag("li", "darker: larger |dL/dl| within this row"), class_="key", aria_label="Legend of the tokens")


def _strip(tokens: Sequence[TokenStory], moved: Mapping[int, TokenUpdate], largest: float | None, anchor: str) -> Html:
    blocks = []
    for (role, turn, _), run in groupby(_shown(tokens), key=lambda one: (one.role, one.turn, one.sampled)):
        members = list(run)
        place = "prompt" if turn is None else f"turn {turn}" + ("" if members[0].sampled else " · what it saw")
        marks = [_mark(one, moved.get(one.position), largest, anchor) for one in members]
        blocks.append(
            tag("div", tag("div", tag("b", role), place, class_="role"), tag("p", *marks, class_="tokens"), class_="turn")
        )
    gap = len(tokens) - SHOWN_TOKENS
    note = tag("p", f"{gap:,} tokens in the middle are not shown; explain one turn, or read the JSON.", class_="soft")
    return join([*blocks, note] if gap > 0 else blocks)


def _shown(tokens: Sequence[TokenStory]) -> list[TokenStory]:
    half = SHOWN_TOKENS // 2
    return list(tokens) if len(tokens) <= SHOWN_TOKENS else [*tokens[:half], *tokens[-half:]]


def _mark(token: TokenStory, moved: TokenUpdate | None, largest: float | None, anchor: str) -> Html:
    classes, words = ["t"], [f"position {token.position}, id {token.token_id}", token.why]
    slope = None if moved is None else moved.derivative
    if slope:
        shade = round(_SHADES * abs(slope) / largest) if largest else 0
        classes += ["up" if slope < 0 else "down", *([f"s{shade}"] if shade else [])]
    elif token.sampled:
        classes.append("none" if slope == 0 else "left")
    if not token.content:
        classes.append("f")
    if token.guard is not None:
        classes.append("g")
        words.append(token.guard)
    if token.behaviour_logprob is not None:
        words.append(f"behaviour log-probability {precise(token.behaviour_logprob)}")
    if moved is not None:
        words.append(f"current {precise(moved.current_logprob)}, ratio {precise(moved.ratio)}")
        words += [] if moved.verdict is None else [f"verdict: {moved.verdict.words}"]
        words += [] if slope is None else [f"dL/dl {slope:.4g}"]
        words += [] if moved.share is None else [f"{100 * moved.share:.3g} % of the update"]
    title = "\n".join(visible(word) for word in words)
    if moved is None:
        return tag("span", _text(token), class_=" ".join(classes), title=title)
    return tag("a", _text(token), class_=" ".join(classes), title=title, href=f"#{anchor}{token.position}")


def _table(tokens: Sequence[TokenStory], moved: Mapping[int, TokenUpdate], anchor: str) -> Html:
    rows = [_row(one, moved[one.position], anchor) for one in _shown(tokens) if one.position in moved]
    head = tag("thead", tag("tr", *(tag("th", name, class_="w" if name == "verdict" else None) for name in _COLUMNS)))
    return tag("div", tag("table", head, tag("tbody", *rows)), class_="scroll")


def _row(token: TokenStory, moved: TokenUpdate, anchor: str) -> Html:
    verdict = token.why if moved.verdict is None else moved.verdict.words
    cells = [
        _text(token),
        str(token.token_id),
        str(token.turn),
        token.version or "",
        *(("" if value is None else precise(value)) for value in (token.behaviour_logprob, moved.current_logprob, moved.ratio)),
        "" if moved.token_loss is None else precise(moved.token_loss),
        "" if moved.derivative is None else f"{moved.derivative:+.4g}" if moved.derivative else "0",
        "" if moved.share is None else f"{100 * moved.share:.3g} %",
    ]
    return tag(
        "tr",
        tag("th", str(token.position)),
        *(tag("td", cell) for cell in cells),
        tag("td", verdict, class_="w"),
        id=f"{anchor}{token.position}",
    )


def _worked_out(explanation: Explanation, token: TokenStory) -> Html:
    parts: list[Html] = []
    for heading, lines in arithmetic(explanation, token):
        parts += [tag("h3", heading), tag("div", *(tag("p", line) for line in lines), class_="formula")]
    return tag("section", tag("h2", "Worked out by hand"), *parts)


def _text(token: TokenStory) -> str:
    return f"#{token.token_id}" if token.text is None else token.text or "⟨empty⟩"
