"""Recorded attempts in a browser as worlds: no browser runs, and the pages are those of the record."""
