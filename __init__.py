"""Placeholder facade."""
