"""A page that opens from disk: `title, body, style -> HTML`, with a policy that forbids every request and every other script."""

from __future__ import annotations

import base64
import hashlib

from rosellm.roserlhf.report.markup import Html, join, tag
from rosellm.roserlhf.report.style import CSS, SCRIPT


def document(title: str, *body: Html, css: str = CSS) -> str:
    """Write a complete HTML document around the parts of its body.

    Args:
        title: of the window; escaped.
        body: the parts, in order.
        css: the style; one's own rules come after `CSS`.
    """
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(css)),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("title", title),
        tag("style", Html(css)),
    )
    page = tag("html", head, tag("body", *body, tag("script", Html(SCRIPT))), lang="en")
    return "<!doctype html>\n" + join([page]) + "\n"


def _policy(css: str) -> str:
    """Allow this page's own style and script by their hashes, and nothing else."""
    style, script = (base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in (css, SCRIPT))
    return f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; base-uri 'none'; form-action 'none'"
