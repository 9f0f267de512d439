"""Bounded HTTP/1.1 client and server of the gateway, of services and of the rollout service; `httptools` parses."""
