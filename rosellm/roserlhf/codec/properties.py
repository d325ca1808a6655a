"""What a chat template does, found by rendering short conversations: the codec acts on it, the doctor reports it.

Nothing is known about a template by its name or its source: every property is what a probe showed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rosellm.roserlhf import checks
from rosellm.roserlhf.codec import probes
from rosellm.roserlhf.codec.call_probe import TOOL, ProbedCalls, probe_calls, shows_tools
from rosellm.roserlhf.codec.layout import placeholder
from rosellm.roserlhf.codec.markup import Markup, Standing
from rosellm.roserlhf.codec.probes import ReplyKind
from rosellm.roserlhf.codec.template import Form, Render, Template
from rosellm.roserlhf.errors import TemplateError
from rosellm.roserlhf.trajectory import Message


@dataclass(frozen=True, kw_only=True)
class TemplateProperties:
    """What a template does."""

    form: Form
    """How it wants to be handed what was said."""
    prompt: str
    """What it writes to open the assistant's turn."""
    stops: tuple[str, ...]
    """Control tokens that end the assistant's turn; none if it writes no such token."""
    glue: str
    """Blanks that it writes between that token and the next message."""
    lead: str
    """What a reply without thoughts begins with, so that it stands as it was sampled: nothing, or thoughts that are empty."""
    own: frozenset[str]
    """Control tokens that a reply may hold."""
    refuses: Mapping[str, str]
    """Role → why a message of that role cannot follow a reply: the template's own words, or that it is left out."""
    keeps: Mapping[str, frozenset[ReplyKind]]
    """Role of the message that follows → kinds of replies that then stand as they were sampled, the stop token included."""
    local: frozenset[str]
    """Roles whose messages are rendered alike, and change nothing before them, whatever the conversation was."""
    local_with_tools: frozenset[str]
    """Those of them whose messages are rendered so beside tools, too: some templates move the tools as a conversation grows."""
    trims: frozenset[str]
    """Roles whose contents it trims."""
    quotes: frozenset[str]
    """Roles whose contents it writes as JSON strings."""
    system: str
    """`shown`, `default` (it writes one of its own where there is none), or why there can be none."""
    shows_tools: bool
    """It lists the tools in the prompt."""
    calls: ProbedCalls
    """How it writes calls."""


def properties_of(render: Render, markup: Markup) -> TemplateProperties:
    """Examine a template.

    Args:
        render: the template.
        markup: control tokens of the tokenizer, its own ones as far as they are known.

    Raises:
        TemplateError: the codec cannot serve it; the message says why.
    """
    parts = _reads_parts(render, markup)
    plain = Template(render, markup, form=Form(parts))
    header = probes.header(plain)
    refuses = {role: why for role in probes.FOLLOW_UPS if (why := probes.refusal(plain, role)) is not None}
    accepted = [role for role in probes.FOLLOW_UPS if role not in refuses]
    stops, glue = probes.stops(plain, accepted)
    calls = probe_calls(plain, stops)
    markup = markup.owning(_own(plain, header, calls, stops))
    opener = probes.opener(plain)
    forms = [Form(parts), *([Form(parts, "opened", opener)] if opener else []), Form(parts, "field", opener)]
    templates = [Template(render, markup, form=form) for form in forms]
    served = [template for template in templates if probes.takes_its_header(template, header)]
    if not served:
        got = markup.spell(Standing(header))
        fix = "its replies have parts that a text cannot carry: it needs a codec of its own"
        raise checks.fail(TemplateError, "chat template", "take a reply as the policy says it", f"{got!r} before it", fix=fix)
    kept = [{role: probes.kept(template, role, stops) for role in accepted} for template in served]
    best = max(range(len(kept)), key=lambda place: sum(map(len, kept[place].values())))
    template = served[best]
    local = frozenset(role for role in accepted if probes.is_local(template, role))
    with_tools = Template(render, markup, [TOOL], form=template.form)
    return TemplateProperties(
        form=template.form,
        prompt=markup.spell(Standing(probes.generation_prompt(template))),
        stops=stops,
        glue=glue,
        lead=probes.lead(template, accepted, stops),
        own=markup.own,
        refuses=refuses,
        keeps=kept[best],
        local=local,
        local_with_tools=frozenset(role for role in local if probes.is_local_beside(template, with_tools, role)),
        trims=frozenset(role for role in probes.WRITTEN if probes.trims(template, role)),
        quotes=frozenset(role for role in probes.WRITTEN if probes.quotes(template, role)),
        system=probes.system(template),
        shows_tools=shows_tools(render, markup, template.form),
        calls=calls,
    )


def _reads_parts(render: Render, markup: Markup) -> bool:
    """Tell whether contents are to be handed over as parts."""
    said = placeholder(0)
    why = ""
    for parts in (False, True):
        try:
            text = Template(render, markup, form=Form(parts)).text([Message("user", said)]).text
        except TemplateError as error:
            why = why or str(error)
        else:
            if said in text:
                return parts
    raise TemplateError(why or "chat template must show a user's message, got a rendering without it")


def _own(template: Template, header: str, calls: ProbedCalls, stops: tuple[str, ...]) -> set[str]:
    """Collect the control tokens of replies: none of those that open or close a message."""
    markup = template.markup
    said = {token for text in (header, calls.standing) for _, token in markup.standing(Standing(text))}
    scaffold = {token for _, token in markup.standing(template.opening)} - {*markup.own}
    return {*markup.own, *said} - scaffold - {*stops}
