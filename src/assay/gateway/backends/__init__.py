"""Model servers and their stand-ins, each behind `ModelBackend`. `open_backend` finds one by name."""

from ._open import open_backend

__all__ = ["open_backend"]
