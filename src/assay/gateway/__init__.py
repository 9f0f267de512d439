"""Recording gateway in front of model servers: API dialects in, one canonical model call, backends out."""
