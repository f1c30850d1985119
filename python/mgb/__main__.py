"""`python -m mgb`: the command `mgb` of this package, in place of Python."""

import os
import sys

from ._errors import Error
from ._installed import program


def main() -> None:
    try:
        path = program("mgb")
        os.execv(path, [path, *sys.argv[1:]])
    except (Error, OSError) as error:
        sys.exit(f"mgb: {error}")


if __name__ == "__main__":
    main()
