"""Where MGB's programs are: those of this very package first, so that an environment that is not activated uses its own."""

import functools
import os
import shutil
from typing import Optional

from ._errors import NotInstalledError


@functools.lru_cache(maxsize=None)
def program(name: str = "mgb") -> str:
    """The path of `mgb` or `mgbd`: that which was installed with this package, else one of MGB_PREFIX or PATH.

    Raises NotInstalledError where there is none.
    """
    prefix = os.environ.get("MGB_PREFIX")
    found = _own(name) or (prefix and _executable(os.path.join(prefix, "bin", name))) or shutil.which(name)
    if not found:
        raise NotInstalledError(
            f"found no program {name}: the wheel brings it, in an environment made by `python -m venv`, conda, pipx or uv "
            "(`pip install --target` leaves it out); or have `mgb` in PATH"
        )
    return found


def _own(name: str) -> Optional[str]:
    """The program that stands in the list of files of this package, as pip keeps one."""
    # Takes longer to import than all else here.
    from importlib import metadata

    packages = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for distribution in metadata.distributions(name="mgb", path=[packages]):
        for file in distribution.files or ():
            if file.parts[-2:] == ("bin", name):
                return _executable(os.path.normpath(str(distribution.locate_file(file))))
    return None


def _executable(path: str) -> Optional[str]:
    return path if os.path.isfile(path) and os.access(path, os.X_OK) else None
