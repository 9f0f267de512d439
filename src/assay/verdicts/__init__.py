"""May this pass be believed? The one place where that is decided, for every screen, export and selection.

Pure functions over records: no I/O, no clock. `separation` orders the grades of how far a deciding process was kept
from the agent's code.
"""

from .separation import SEPARATIONS, grade_of, grade_recorded, meets, weakest

__all__ = ["SEPARATIONS", "grade_of", "grade_recorded", "meets", "weakest"]
