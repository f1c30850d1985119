"""MGB from Python: runs programs on the GPUs that a node's programs share.

    import mgb

    mgb.run(["python", "train.py"], check=True)   # as subprocess.run, under `mgb run`
    with mgb.need("12GiB"):                       # waits until this process has the room
        train()
    mgb.status().gpus[0].free_bytes

`python -m mgb` is the command `mgb`.
"""

from ._errors import Error, NativeWarning, NotInstalledError, NotRunningError
from ._installed import program
from ._need import Need, need
from ._run import run
from ._size import size
from ._status import Gpu, Status, Task, Waiting, status

__all__ = [
    "Error",
    "Gpu",
    "NativeWarning",
    "Need",
    "NotInstalledError",
    "NotRunningError",
    "Status",
    "Task",
    "Waiting",
    "need",
    "program",
    "run",
    "size",
    "status",
]
