"""Exact arithmetic on the codes of number formats, as hardware does it in integers."""
