"""Programs that a verifier runs inside its sandboxes. They are copied there and started, never imported on the host."""
