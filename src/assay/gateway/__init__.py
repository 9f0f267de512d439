"""Model clients and, later, the recording proxy. It writes no store and knows no environment."""
