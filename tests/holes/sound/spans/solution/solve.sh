#!/bin/sh
cat > /workspace/spans.py <<'PYTHON'
def merged(spans: list[list[int]]) -> list[list[int]]:
    """Spans that touch or overlap are one."""
    found: list[list[int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = [found[-1][0], max(end, found[-1][1])]
        else:
            found.append([start, end])
    return found
PYTHON
