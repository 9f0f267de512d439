"""Allocation and execution of attempts."""
