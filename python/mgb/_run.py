"""`mgb run` as a function."""

import os
import subprocess
from typing import Any, List, Optional, Sequence, SupportsIndex, Union

from ._installed import program
from ._size import size

_Word = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def run(
    command: Union[_Word, Sequence[_Word]],
    *,
    need: Union[None, str, SupportsIndex] = None,
    gpus: Optional[int] = None,
    latency: bool = False,
    share: Optional[int] = None,
    **options: Any,
) -> "subprocess.CompletedProcess[Any]":
    """Runs a program on the GPUs that mgbd shares, starting mgbd if none runs, and waits for it to end.

    need     treat the whole process as one task that takes this much GPU memory: bytes, or a text such as "12GiB"
    gpus     place it as a job of so many GPUs
    latency  somebody waits for what it computes: its work goes before that of batch programs
    share    at most so many percent of each GPU's multiprocessors
    options  those of subprocess.run, such as check, cwd, env, input, timeout, capture_output and text

    The exit code is the program's; 125 if MGB failed, 126 if the program cannot be executed, 127 if it was not found:
    what was wrong stands on stderr. `mgb run --help` says more. The program takes the place of `mgb run`, so that signals,
    a timeout and Ctrl-C reach it as they do under subprocess.run.
    """
    for name in ("shell", "executable"):
        if options.pop(name, None):
            raise ValueError(f"mgb.run takes a program and its arguments, and no {name}: run ['sh', '-c', '...'] instead")
    words: List[_Word] = [command] if isinstance(command, (str, bytes, os.PathLike)) else list(command)
    if not words:
        raise ValueError("mgb.run needs a program to run, such as ['python', 'train.py']")
    arguments: List[_Word] = [program("mgb"), "run"]
    if need is not None:
        arguments += ["--need", str(size(need))]
    if gpus is not None:
        arguments += ["--gpus", str(gpus)]
    if latency:
        arguments.append("--latency")
    if share is not None:
        arguments += ["--share", f"{share}%"]
    return subprocess.run([*arguments, "--", *words], **options)
