"""Each misuse has a type of error; all are `assay.UserError`."""

import assay
from assay.errors import MissingModelError, OptionError

for wrong in ({"agent": "loop"}, {"agent": "oracle", "atempts": 3}):
    try:
        assay.run("family:grid,n=1", **wrong)
    except (MissingModelError, OptionError) as error:
        print(type(error).__name__, "-", error)
