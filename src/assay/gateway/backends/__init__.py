"""Model servers and their stand-ins, each behind `ModelBackend`. `open_backend` finds one by name."""

from ._open import open_backend, require_model_form
from ._open_tokens import TemplateOptions, open_versioned_local, template_options

__all__ = ["TemplateOptions", "open_backend", "open_versioned_local", "require_model_form", "template_options"]
