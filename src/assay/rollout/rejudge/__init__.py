"""Recorded attempts again: judged, audited, replayed, continued."""
