#!/bin/sh
cd /workspace && python3 - <<'PYTHON'
from pathlib import Path

text = Path("slug.py").read_text()
text = text.replace("import re\n", "import re\nimport unicodedata\n", 1)
drop = '    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()\n'
text = text.replace("    return ", drop + "    return ").replace("title.lower()", "plain.lower()")
Path("slug.py").write_text(text)
PYTHON
