"""Lists of chat messages, and ShareGPT."""
