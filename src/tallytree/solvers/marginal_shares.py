"""Shares (provisional)."""
