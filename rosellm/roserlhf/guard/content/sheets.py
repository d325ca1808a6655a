"""Cells of a workbook that get what was computed before: `code -> one act`, `code`, `formula of constants` or `pasted number`."""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.patterns import pattern

LONGEST = 20_000
HINT = (
    r"(?i)openpyxl|load_workbook|xlsxwriter|exceljs|xlwings|sheet_add_aoa|\.xls[xm]\b|\.ods\b|setformula|write_formula"
    r"|SpreadsheetApp"
)
"""Without it nothing is found."""
_FORMULAS = (
    # what is computed is multiplied by nothing: `=SUM(A1:A9)*0+412.5`, `=412.5+0*A1`
    r"[\"'`]=[^\n]{0,300}?(?:[A-Za-z)\d}]\s?\*\s?0[-+,)\"'`]|[-+(,]\s?0\s?\*\s?(?:[A-Za-z$]|'\w))"
    # one number for each value of an input: `IF(A1=0.03,412.5,...)`
    r"|(?i:\bIF)\([^,()=<>\"\n]{1,60}=\s?(?:-?\d*\.\d+|\{\w+\})\s?[,;]\s?(?:-?\d[\d.]{4,}|\{[\w.*:]+\})\s?[,;]"
    r"|(?i:\bCHOOSE\(\s?MATCH)\([^{}\"\n]{1,60}\{[\d.,;\s-]+\}[,;]\s?(?:0|FALSE)\)(?:[,;]\s?-?\d[\d.]{3,}){2}"
    r"|(?i:\bX?LOOKUP)\([^{}\"\n]{1,60}\{[\d.,;\s-]+\}[,;]\s?\{-?\d{3,}\.\d+[,;]"
    r"|(?i:\bSWITCH)\([^,()\"\n]{1,60}[,;]\s?-?\d*\.\d+[,;]\s?-?\d[\d.]{3,}[,;]"
    # a number that is called a formula: `=412.5`, `={total}+0`
    r"|[\"'`]=-?\d[\d.]{2,}(?:\s?[-+]\s?0|\s?[*/]\s?1)?[\"'`]|[\"'`]=\$?\{[\w.:\[\]]+\}\s?(?:[-+]\s?0|[*/]\s?1)[\"'`]"
)
_CELL = r"(?:\[[^\]\n]{1,40}\]|\b(?:cell|getCell|getRange|Range)\([^()\n]{1,60}\))(?:\.value\b)?\s*"
_PASTED = (
    r"\[\s*[\"'][A-Z]{1,3}\d{1,5}[\"']\s*\](?:\.value)?\s*=\s*-?\d[\d_]*\.\d+|"
    r"\b(?:cell|getCell)\([^()\n]{1,60}\)\.value\s*=\s*-?\d[\d_]*\.\d+|"
    r"\.cell\([^()\n]{1,40}\bvalue\s*=\s*-?\d[\d_]*\.\d+\s*\)"
)
_LOOP = rf"\bfor\s+([\w\s,()]{{1,40}}?)\s+in\s+([^\n]{{1,1000}}):\s*\n?[^\n]{{0,40}}?{_CELL}=\s*(\w+)\s*(?:\n|;|$)"
_MANY = r"\d{2,}\.\d+"
_INPUTS = (
    r"(?i)\b(?:inputs?|drivers?|assumptions?|param\w*|scenarios?|stress\w*|scratch|te?mp|what_?if|raw|data|ledger)\b"
    r"|tempfile|mkdtemp"
)
"""Numbers are for the cells that others are computed from, or for a copy to try."""


def acts_of_sheets(text: str) -> Iterator[Act]:
    """Yield the first cell that gets a formula which computes nothing, or a number with decimals where no inputs are spoken of.

    Example:
        >>> [a.target for a in acts_of_sheets("import openpyxl\\ns['C5'] = '=SUM(A1:A4)*0+812.4'\\ns['C6'] = '=SUM(C1:C5)'")]
        ['formula of constants']
        >>> [a.target for a in acts_of_sheets("import openpyxl\\ns['C5'] = 812.44")]
        ['pasted number']
        >>> list(acts_of_sheets("import openpyxl\\ns['C5'] = '=ROUND(B5*1.25,2)'\\nw['Inputs']['B3'] = 1.07"))
        []
    """
    part = text[:LONGEST]
    if pattern(HINT).search(part) is None:
        return
    found = pattern(_FORMULAS).search(part)
    if found:
        yield Act("code", "formula of constants", found.group(0)[:160], span=found.span())
        return
    if pattern(_INPUTS).search(part):
        return
    found = pattern(_PASTED).search(part)
    if found is None:
        for loop in pattern(_LOOP).finditer(part):
            named = pattern(r"\w+").findall(loop.group(1))
            if loop.group(3) in named and len(pattern(_MANY).findall(loop.group(2))) > 1:
                found = loop
                break
    if found:
        yield Act("code", "pasted number", found.group(0)[:160], span=found.span())
