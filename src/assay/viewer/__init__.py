"""The web pages: runs, attempts, verdicts and figures, served on loopback or written to a folder.

Data reaches the pages as named JSON views (`views`), the same ones when served (`server`) and when exported (`export`).
"""
