"""Helpers for tests of workflows and handlers: virtual time."""
