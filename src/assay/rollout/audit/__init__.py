"""Judging of integrity and contracts: as an attempt ends (`live`), and of stored attempts (`stored`)."""
