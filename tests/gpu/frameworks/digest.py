"""What the framework programs share: results as digests, one line each."""

import hashlib


def show(name, *values):
    """Prints a line that is the same if, and only if, every value is the same in every bit."""
    digest = hashlib.sha256()
    for value in values:
        value = value.detach().cpu() if hasattr(value, "detach") else value
        value = value.numpy() if hasattr(value, "numpy") and not hasattr(value, "tobytes") else value
        digest.update(value.tobytes() if hasattr(value, "tobytes") else repr(value).encode())
    print(name, digest.hexdigest()[:16], flush=True)
