from slug import slug

assert slug("Un \u00e9t\u00e9  \u00e0 la plage!") == "un-ete-a-la-plage"
assert slug("Plain  words") == "plain-words"
