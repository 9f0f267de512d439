"""Browser: Chromium in a sandbox of its own, its tools for agents, and sites of services in it.

`cdp` speaks the DevTools protocol over a pipe, `chromium` starts the browser, `context` is one attempt's part of it,
`tab` a page, `tree` the accessibility tree, `tools` the tools, `site_world` the world whose pages they act on.
"""
