"""Recording of one trial: chain, model calls and commands, with secrets redacted."""
