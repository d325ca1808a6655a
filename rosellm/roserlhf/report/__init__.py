"""The report of a run: `run folder -> report.html`; reads files only and never imports torch or transformers."""

from rosellm.roserlhf.report.page import build_report as build_report
from rosellm.roserlhf.report.page import write_report as write_report

__all__ = ["build_report", "write_report"]
