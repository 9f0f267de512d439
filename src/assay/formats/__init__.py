"""Importers and exporters of other people's trajectory and conversation formats, one file each."""
