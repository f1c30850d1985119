"""What this package raises, beside TypeError and ValueError for arguments that cannot be meant."""


class Error(Exception):
    """Something of MGB failed. The text says what, and what to do about it."""


class NotInstalledError(Error):
    """A program of MGB's is not where this package was installed, nor in PATH."""


class NotRunningError(Error):
    """No mgbd answers: none runs, or it is another user's."""


class NativeWarning(UserWarning):
    """This process does not run under MGB, so that what it asked for has no effect."""
