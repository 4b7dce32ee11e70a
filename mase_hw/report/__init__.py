"""One HTML page of an emitted project: what it is, what was checked, what it takes and loses."""

from mase_hw.report.page import write_report

__all__ = ["write_report"]
