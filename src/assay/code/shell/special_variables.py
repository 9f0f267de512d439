"""Variables whose text a shell or an interpreter evaluates, or that decide which programs run."""

from __future__ import annotations

import re

from .words import Word

__all__ = ["reason_against"]

_FORBIDDEN = re.compile(
    r"(?:BASH_ENV|ENV|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|BASH_FUNC.*|LD_\w+|PYTHONSTARTUP|PYTHONINSPECT|PYTHONHOME|PERL5\w+"
    r"|RUBY(?:OPT|LIB)|NODE_(?:OPTIONS|PATH)|GCONV_PATH|LOCPATH|NLSPATH|PYTEST_(?:PLUGINS|ADDOPTS))\Z"
)
_PROMPT = re.compile(r"PS[0-4]\Z")
_TRUSTED = re.compile(
    r"(?:PATH|CDPATH|FPATH|IFS|HOME|SHELL|TMPDIR|EDITOR|PAGER|EXECIGNORE|GLOBIGNORE|POSIXLY_CORRECT|OPTIND|SECONDS|S?RANDOM"
    r"|LINENO|FUNCNEST|TMOUT|COLUMNS|E?UID|DIRSTACK|GROUPS|TERM\w*|TZ\w*|LANG\w*"
    r"|(?:LC_|PYTHON|PERL|RUBY|NODE_|GIT_|AWK|PYTEST|BASH|HIST|EPOCH|XDG_|JQ|LESS)\w*)\Z"
)


def reason_against(name: str, word: Word) -> str:
    """Returns why a variable must not be set to a word; empty where it may."""
    evaluated = _PROMPT.match(name) and (word.known is None or re.search(r"[$`\\]", word.known))
    if evaluated or (_FORBIDDEN.match(name) and word.known != ""):
        return f"{name} is evaluated, or names a program"
    if not word.clean and _TRUSTED.match(name):
        return f"{name} decides which programs run, or how"
    return ""
