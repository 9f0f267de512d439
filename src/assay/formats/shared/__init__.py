"""What readers and writers of several formats share: archives, messages, losses, and the mirror of a foreign file."""
