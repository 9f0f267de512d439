"""Files of unknown formats, read by a mapping that the user writes."""
