"""Evaluations as tables, figures and pages."""
