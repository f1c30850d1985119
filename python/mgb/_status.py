"""`mgb status --json` as dataclasses. Fields that a newer mgbd adds are in `Status.document` alone."""

import json
import subprocess
from dataclasses import MISSING, dataclass, fields
from typing import Any, Dict, Optional, Tuple, Type, TypeVar

from ._errors import Error, NotRunningError
from ._installed import program

_NODE = 3
_T = TypeVar("_T")


@dataclass(frozen=True)
class Gpu:
    """A GPU and its load. Bytes, unless said otherwise."""

    index: int
    uuid: str
    name: str
    total_bytes: int
    usable_bytes: int
    """What of it MGB gives out."""
    reserved_bytes: int
    """Reserved for tasks of living processes."""
    resident_bytes: int
    """Of that, what is mapped."""
    contexts_bytes: int
    """Charged for contexts of living processes."""
    reclaiming_bytes: int
    """Charged for dead processes until the driver shows it free."""
    foreign_bytes: int
    """Held by programs that are not under MGB, and by the driver."""
    processes: int
    driver_free_bytes: Optional[int] = None
    headroom_bytes: int = 0
    """Kept for tasks there that are expected to take more."""
    evicted_bytes: int = 0
    """Of tasks there, what is in host memory."""
    drained: bool = False
    lost: bool = False
    fails: Optional[str] = None
    load: Optional[int] = None
    """The part of the last seconds in which it had work of programs under MGB, in thousandths."""

    @property
    def free_bytes(self) -> int:
        """Bytes that nobody has, by mgbd's account and by the driver's word."""
        taken = self.reserved_bytes + self.headroom_bytes + self.contexts_bytes + self.reclaiming_bytes
        free = max(self.usable_bytes - taken, 0)
        return free if self.driver_free_bytes is None else min(free, self.driver_free_bytes)


@dataclass(frozen=True)
class Task:
    """A task that holds room on a GPU."""

    pid: int
    task: int
    label: str
    """What people know it by; empty for tasks of other users."""
    gpu: int
    state: str
    """Such as running, growing, ended, evicted or suspended."""
    reserved_bytes: int
    age_ms: int
    uid: int = 0
    held_bytes: int = 0
    peak_bytes: int = 0
    evicted_bytes: int = 0
    job: Optional[str] = None


@dataclass(frozen=True)
class Waiting:
    """A request that waits for room, or for its turn."""

    pid: int
    label: str
    bytes: int
    growth: bool
    """Whether a task that has room wants more."""
    waited_ms: int
    uid: int = 0
    gpu: Optional[int] = None


@dataclass(frozen=True)
class Status:
    """The node as mgbd sees it."""

    version: int
    mgbd_pid: int
    policy: str
    uptime_ms: int
    clients: int
    gpus: Tuple[Gpu, ...]
    tasks: Tuple[Task, ...]
    waiting: Tuple[Waiting, ...]
    """First come first."""
    document: Dict[str, Any]
    """All that `mgb status --json` prints."""


def status() -> Status:
    """What mgbd shows of the node: its GPUs, the tasks that hold room on them, and those that wait.

    Raises NotRunningError where no mgbd answers.
    """
    done = subprocess.run(
        [program("mgb"), "status", "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    said = done.stderr.decode(errors="replace").strip()
    if done.returncode == _NODE:
        raise NotRunningError(said)
    if done.returncode != 0:
        raise Error(f"`{program('mgb')} status --json` ended with {done.returncode}: {said}")
    return parse(json.loads(done.stdout))


def parse(document: Dict[str, Any]) -> Status:
    """The document of `mgb status --json`, read."""
    gpus = [{**one.get("gpu", {}), **{name: value for name, value in one.items() if name != "gpu"}} for one in document["gpus"]]
    lists = {
        "gpus": tuple(_read(Gpu, one) for one in gpus),
        "tasks": tuple(_read(Task, one) for one in document.get("tasks", ())),
        "waiting": tuple(_read(Waiting, one) for one in document.get("queue", ())),
    }
    return _read(Status, {**document, **lists, "document": document})


def _read(kind: Type[_T], values: Dict[str, Any]) -> _T:
    known = {field.name: values[field.name] for field in fields(kind) if field.name in values}  # type: ignore[arg-type]
    required = [field.name for field in fields(kind) if field.default is MISSING]  # type: ignore[arg-type]
    missing = [name for name in required if name not in known]
    if missing:
        raise Error(f"`mgb status --json` says no {missing[0]}: use mgb, mgbd and this package of one version")
    return kind(**known)
