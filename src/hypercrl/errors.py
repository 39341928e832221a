"""The one exception that speaks to a person.

Whatever the user can put right (a name, a flag, a shape, a file) raises `UserError` with one
sentence: what was wrong, where, what to do. The command line prints the sentence and exits
with status 2; anything else is a bug and keeps its traceback.
"""


class UserError(Exception):
    """Bad input or a bad environment, told in one sentence."""
