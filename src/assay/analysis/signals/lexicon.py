"""Phrases of users and patterns of results for the published signals; our own words, English alone."""

from __future__ import annotations

_PHRASES = {
    "interaction.misalignment.correction": """no that is not|thats not right|that is not right|thats wrong|that is wrong
        |you misunderstood|not what i asked|not what i meant|not what i wanted|thats incorrect|that is incorrect
        |i said|i already told you|you got it wrong|please correct|wrong one""",
    "interaction.misalignment.clarification": """what i mean is|what i meant was|to clarify|let me clarify
        |let me rephrase|in other words|i am asking|what do you mean|can you explain what|i dont understand what you""",
    "interaction.disengagement.escalation": """speak to a human|talk to a human|talk to a person|speak to a manager
        |talk to your manager|human agent|real person|supervisor|transfer me|customer service representative""",
    "interaction.disengagement.quit": """i give up|forget it|never mind|nevermind|im done|i am done|stop here
        |this is going nowhere|lets end this|i quit|cancel everything|ill do it myself""",
    "interaction.disengagement.negative_stance": """this is useless|this is ridiculous|this is frustrating
        |waste of time|terrible|awful|youre useless|you are useless|not helpful|unacceptable
        |so annoying|disappointed""",
    "interaction.satisfaction.gratitude": """thank you|thanks|much appreciated|i appreciate|many thanks|appreciate it
        |thx""",
    "interaction.satisfaction.confirmation": """yes please|sounds good|that is correct|thats correct|thats right
        |that is right|go ahead|perfect|exactly|looks good|great|yes that works""",
    "interaction.satisfaction.success": """it works|it worked|that worked|that fixed it|problem solved|its working now
        |works now|all set|that solved it|issue is resolved|it is fixed""",
}
PHRASES: dict[str, tuple[str, ...]] = {
    name: tuple(" ".join(phrase.split()) for phrase in text.split("|")) for name, text in _PHRASES.items()
}
"""Phrases by signal, as `plain` leaves them: lower case, words between single spaces, no apostrophes."""
_STOP = """a about after all also am an and any are as at be because been but by can could did do does for from get
    give had has have he her him his how i if in into is it its just like me more my need no not now of on one
    only or our out please she should so some tell than that the their them then there these they this to up us
    want was we were what when where which who why will with would you your"""
STOP_WORDS = frozenset(_STOP.split())
FAILURES: tuple[tuple[str, str], ...] = (
    (
        "execution.failure.invalid_args",
        r"missing (?:\d+ )?(?:required|positional)|required (?:argument|parameter|field|property)"
        r"|unexpected keyword argument"
        r"|invalid (?:argument|parameter|option|value|input)s?\b|unrecognized (?:argument|option)|validation ?error"
        r"|takes \d+ positional|unknown option|illegal option|bad argument",
    ),
    (
        "execution.failure.tool_not_found",
        r"command not found|no such tool|unknown (?:tool|command|function|action)|(?:tool|function|command) [^\n]{0,60}"
        r"(?:not found|does not exist|is not (?:available|defined|recognized))|is not recognized as an internal",
    ),
    (
        "execution.failure.auth_misuse",
        r"permission denied|unauthorized|forbidden|access denied|authentication (?:failed|required)|not authorized"
        r"|invalid (?:api key|token|credentials)|operation not permitted"
        r"|\b40[13]\b (?:error|client|unauthorized|forbidden)",
    ),
    (
        "execution.failure.state_error",
        r"no such file or directory|already exists|does not exist|not found|invalid state|filenotfounderror|keyerror"
        r"|cannot be (?:cancelled|modified|found)|is not (?:open|running|ready)|has already been|conflict"
        r"|precondition failed",
    ),
    (
        "execution.failure.bad_query",
        r"syntax ?error|malformed query|invalid (?:query|syntax|expression|regex)|parse error"
        r"|no (?:results|matches|rows)(?: were)? found|0 results|could not parse query|unexpected token|invalid sql",
    ),
)
"""Failure patterns in the published order: the first match counts."""
EXHAUSTIONS: tuple[tuple[str, str], ...] = (
    (
        "environment.exhaustion.rate_limit",
        r"rate limit|too many requests|\b429\b (?:error|client|too)|quota exceeded|throttl(?:ed|ing)",
    ),
    (
        "environment.exhaustion.context_overflow",
        r"context length|context window|maximum context|too many tokens|token limit"
        r"|prompt is too long|input is too long",
    ),
    ("environment.exhaustion.timeout", r"timed out|time-?out|deadline exceeded|timeouterror|execution expired"),
    (
        "environment.exhaustion.network",
        r"connection (?:refused|reset|aborted|error|closed)|network (?:is )?unreachable|could not resolve"
        r"|name or service not known|no route to host|failed to connect|ssl error|certificate verify failed",
    ),
    (
        "environment.exhaustion.malformed_response",
        r"jsondecodeerror|invalid json|malformed (?:response|json)|unexpected end of (?:json|input)|failed to parse"
        r"(?: the)? response|could not decode",
    ),
    (
        "environment.exhaustion.api_error",
        r"internal server error|service unavailable|bad gateway|gateway timeout"
        r"|\b50[0234]\b (?:error|server|internal|bad|service)|api error|upstream error|server error",
    ),
)
"""Exhaustion patterns in our order: the first match counts."""
