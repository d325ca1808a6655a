"""An explanation on a terminal: its story, the rewards of its group, a line for every sampled token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from rosellm.roserlhf.audit.explanation.explain import Explanation
from rosellm.roserlhf.audit.explanation.numbers import brief
from rosellm.roserlhf.audit.explanation.reward_story import CreditStory, Member
from rosellm.roserlhf.audit.explanation.token_arithmetic import arithmetic
from rosellm.roserlhf.audit.explanation.token_story import TokenStory
from rosellm.roserlhf.audit.explanation.update_story import TokenUpdate, UpdateStory
from rosellm.roserlhf.cli.safe_text import safe
from rosellm.roserlhf.cli.whole_table import print_whole, whole_table
from rosellm.roserlhf.report import units

SHOWN_LINES = 240
"""Lines of a token table; of a longer one the middle is left out."""
_MEMBERS = 16
_CONTEXT_TOKENS = 40
_WIDEST_CELL = 16


def show_explanation(console: Console, explanation: Explanation) -> None:
    """Show a whole trajectory, or one of its turns."""
    _show_story(console, explanation)
    _show_credit(console, explanation.credit, explanation.trajectory_id)
    if explanation.updates:
        for update in explanation.updates:
            _show_update(console, explanation, update)
    else:
        console.print()
        _show_tokens(console, explanation.tokens, None)


def show_token(console: Console, explanation: Explanation) -> None:
    """Show the tokens that were asked for, worked out by hand."""
    _show_story(console, explanation)
    for token in explanation.tokens:
        console.print()
        console.print(safe(f"token {token.position}: ", "bold"), safe(_text(token), "bold"))
        for heading, lines in arithmetic(explanation, token):
            console.print(safe(heading, "bold"))
            for line in lines:
                console.print(safe(f"  {line}"))


def _show_story(console: Console, explanation: Explanation) -> None:
    console.print(safe(explanation.trajectory_id, "bold"))
    for sentence in explanation.headline:
        console.print(safe(sentence))
    for event in explanation.guard:
        console.print(safe(event.words, "bold red" if event.event.attempt else "yellow"))
    for problem in explanation.problems:
        console.print(safe(f"CONTRADICTION: {problem}", "bold red"))
    for missing in explanation.missing:
        console.print(safe(f"not known: {missing}", "yellow"))


def _show_credit(console: Console, credit: CreditStory, mine: str) -> None:
    if not credit.members:
        return
    console.print()
    table = whole_table(">reward", ">advantage", "", "group member")
    shown = [one for index, one in enumerate(credit.members) if index < _MEMBERS or one.trajectory_id == mine]
    for member in shown:
        this = "this one" if member.trajectory_id == mine else ""
        table.add_row(*map(safe, _member(member)), this, safe(member.trajectory_id))
    print_whole(console, table)
    if len(shown) < len(credit.members):
        console.print(safe(f"... and {len(credit.members) - len(shown)} more members"))
    for line in credit.formula:
        console.print(safe(line))
    for turn, told in enumerate(credit.turn_formulas, credit.first_turn):
        for line in told:
            console.print(safe(f"turn {turn}: {line}"))


def _member(member: Member) -> tuple[str, str]:
    reward = member.left_out or ("not known" if member.reward is None else brief(member.reward))
    return reward, units.advantage(member.advantage, "+.4g")


def _show_update(console: Console, explanation: Explanation, update: UpdateStory) -> None:
    console.print()
    loss = "" if update.recomputed_loss is None else f" (recomputed {update.recomputed_loss:.6g})"
    console.print(
        safe(f"update {update.number}, epoch {update.epoch}", "bold"),
        safe(
            f"{update.rows} rows, D = {brief(update.denominator)}, loss {update.loss:.6g}{loss}, "
            f"gradient norm {update.gradient_norm:.4g}, learning rate {update.learning_rate:.4g}"
        ),
    )
    if update.skipped is not None:
        console.print(safe(f"not made: {update.skipped}", "bold red"))
    _show_tokens(console, explanation.tokens, update)


def _show_tokens(console: Console, tokens: Sequence[TokenStory], update: UpdateStory | None) -> None:
    """Print a line for every sampled token, in columns, and one for every run of context between them."""
    several = len({token.version for token in tokens if token.version}) > 1
    columns = [">pos", ">turn", "token", *(["version"] if several else []), ">behaviour"]
    columns += [">current", ">ratio", ">dL/dl", ">share", "verdict"] if update else ["loss mask"]
    moved = {one.position: one for one in update.tokens} if update else {}
    lines = _left_out_middle(list(_lines(tokens, moved, several, len(columns))))
    header = [name.removeprefix(">") for name in columns]
    texts = [([safe(cell) for cell in cells], style) for cells, style in [(header, "bold"), *lines]]
    rows = [parts for parts, _ in texts if len(parts) == len(columns)]
    widths = [min(_WIDEST_CELL, max(row[i].cell_len for row in rows)) for i in range(len(columns))]
    for parts, style in texts:
        for part, name, width in zip(parts, columns, widths, strict=False):
            if len(parts) == len(columns) and name not in ("verdict", "loss mask"):
                part.truncate(width, overflow="ellipsis")
                (part.pad_left if name.startswith(">") else part.pad_right)(width - part.cell_len)
        line = Text(" ").join(parts)
        line.stylize(style)
        if len(parts) == len(columns):
            console.print(line, soft_wrap=True)  # the verdict comes last and is what the line is read for
        else:
            console.print(line, no_wrap=True, overflow="ellipsis")


def _left_out_middle(lines: list[tuple[list[str], str]]) -> list[tuple[list[str], str]]:
    if len(lines) <= SHOWN_LINES:
        return lines
    head, tail = SHOWN_LINES * 2 // 3, SHOWN_LINES // 3
    note = f"... {len(lines) - head - tail:,} lines left out: --turn K shows one turn, --html FILE all"
    return [*lines[:head], ([note], "dim"), *lines[-tail:]]


def _lines(
    tokens: Sequence[TokenStory], moved: dict[int, TokenUpdate], several: bool, width: int
) -> Iterator[tuple[list[str], str]]:
    """Give every sampled token its cells, and every run of context of one role one cell."""
    for (sampled, role, _), run in groupby(tokens, key=lambda one: (one.sampled, one.role, one.turn)):
        members = list(run)
        if not sampled:
            words = " ".join(_text(one) for one in members[:_CONTEXT_TOKENS])
            yield [f"{members[0].position:>3} context, {role}: {words}"], "dim"
            continue
        for one in members:
            yield _line(one, moved.get(one.position), several, width)


def _line(token: TokenStory, moved: TokenUpdate | None, several: bool, width: int) -> tuple[list[str], str]:
    cells = [str(token.position), str(token.turn), _text(token), *([token.version or ""] if several else [])]
    cells.append(_number(token.behaviour_logprob))
    if len(cells) == width - 1:  # no update: only the loss mask is left to tell
        return [*cells, token.why + _mark(token)], ""
    slope = None if moved is None else moved.derivative
    arrow = "" if not slope else "↑" if slope < 0 else "↓"
    cells += [
        _number(None if moved is None else moved.current_logprob),
        _number(None if moved is None else moved.ratio),
        "" if slope is None else f"{arrow}{slope:+.2e}" if slope else "0",
        "" if moved is None or moved.share is None else f"{100 * moved.share:.2g}%",
        (token.why.removeprefix("sampled; ") if moved is None or moved.verdict is None else moved.verdict.words) + _mark(token),
    ]
    return cells, "" if not slope else "green" if slope < 0 else "red"


def _mark(token: TokenStory) -> str:
    """Point at the line above that says what the guard did."""
    return "" if token.guard is None else "  ⚑ guard"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" if abs(value) < 1000 else f"{value:.3g}"


def _text(token: TokenStory) -> str:
    return f"#{token.token_id}" if token.text is None else token.text
