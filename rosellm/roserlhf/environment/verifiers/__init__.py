"""Verifiers: `an answer -> a number in [0, 1], or None where nothing could be judged`; a failure is neither 0 nor 1.

A verifier is any function, plain or `async`, that returns such a number. It never guesses: a crash, a timeout or a number outside
[0, 1] is a `VerifierError`, which the episode records as a failure of the infrastructure: unscored, with its cause.
"""

from __future__ import annotations

from rosellm.roserlhf.environment.verifiers.boxed import boxed, boxed_math
from rosellm.roserlhf.environment.verifiers.contract import Grade, Verifier, checked, verified
from rosellm.roserlhf.environment.verifiers.exact import casefolded, exact, nfkc, single_spaced, stripped, without_punctuation
from rosellm.roserlhf.environment.verifiers.isolated import isolated
from rosellm.roserlhf.environment.verifiers.judge import ModelJudge
from rosellm.roserlhf.environment.verifiers.numeric import numeric, read_number
from rosellm.roserlhf.environment.verifiers.program import passes_tests
from rosellm.roserlhf.environment.verifiers.rubric import Component, Rubric, Scores

__all__ = [
    "Component",
    "Grade",
    "ModelJudge",
    "Rubric",
    "Scores",
    "Verifier",
    "boxed",
    "boxed_math",
    "casefolded",
    "checked",
    "exact",
    "isolated",
    "nfkc",
    "numeric",
    "passes_tests",
    "read_number",
    "single_spaced",
    "stripped",
    "verified",
    "without_punctuation",
]
