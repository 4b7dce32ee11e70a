"""Jinja2 templates, as package data."""
