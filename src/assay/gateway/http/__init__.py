"""HTTP/1.1 as the gateway needs it, both ways: bounded, few features, little work. llhttp does the parsing."""
