"""Judges functions by calls on fresh inputs, and compares two versions of a program by calls."""
