"""One HTML file about a fit, to show a colleague: it needs no network and no other file."""

from madbayes.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
