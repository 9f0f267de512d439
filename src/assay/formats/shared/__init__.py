"""Parts that readers and writers of several formats share: archives, messages, losses, round trips."""
