"""The tool `calculator`: exact arithmetic, never `eval`."""

from __future__ import annotations

from rosellm.roserlhf.environment.expressions import ExpressionError, as_text, evaluate
from rosellm.roserlhf.environment.tools import tool
from rosellm.roserlhf.errors import ToolError


@tool(instant=True, repeatable=True)
def calculator(expression: str) -> str:
    """Evaluate an arithmetic expression exactly.

    Args:
        expression: numbers with + - * / and parentheses, for example 3*(2+0.5).

    Raises:
        ToolError: not an expression, division by zero, too long or nested too deep.

    Example:
        >>> calculator("3*(2+0.5)"), calculator("1/3")
        ('15/2', '1/3')
    """
    try:
        return as_text(evaluate(expression))
    except ExpressionError as mistake:
        raise ToolError(str(mistake)) from mistake
