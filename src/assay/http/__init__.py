"""Bounded HTTP/1.1 client and server: gateway, services, rollout service, node agents; `httptools` parses."""
