"""What this process is about to take of its GPU, said to mgbd beforehand: the C interface of `mgb.h` by ctypes."""

import ctypes
import os
import threading
import warnings
from types import TracebackType
from typing import Callable, Optional, SupportsIndex, Type, Union

from ._errors import NativeWarning
from ._size import size

_OUTSIDE = (
    "this process does not run under MGB, so that no room is reserved and it goes on natively: start it with "
    "`mgb run python ...` or mgb.run"
)


class Need:
    """Room that this process has declared, from `need` until `end` or the end of its `with`."""

    def __init__(self, amount: int, granted: Optional[bool], end: Optional[Callable[[], None]]) -> None:
        self.bytes = amount
        self.granted = granted
        """Whether the room is reserved; None: it is asked for, and waited for, when the process first uses a GPU."""
        self._end = end
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def end(self) -> None:
        """Gives back what the process does not hold. What it has allocated stays its own. May be called again."""
        with self._lock:
            end, self._end = self._end, None
        # A forked child has none of its parent's room.
        if end is not None and self._pid == os.getpid():
            end()

    def __enter__(self) -> "Need":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], value: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.end()

    def __repr__(self) -> str:
        return f"<mgb.Need of {self.bytes} bytes, granted={self.granted}>"


def need(amount: Union[str, SupportsIndex]) -> Need:
    """Declares that this process is about to take so much memory of its GPU, and waits until it is reserved.

    amount is in bytes, or a text such as "12GiB". Needs that are in force at once add up, and what the process has
    already counts towards them. Where it has several GPUs, the first is meant. Before the process's first use of a GPU this
    returns at once, and that first use waits. Where no GPU has so much, a line on stderr says so, and the process waits for
    room as it allocates, as it would have without. Code that was built with MGB says by itself what it needs, beside this.

    Outside MGB this warns (NativeWarning) and does nothing else.
    """
    amount = size(amount)
    if os.environ.get("MGB") == "off":
        if os.environ.get("MGB_NEED_MARK"):
            # `mgb run --need` has reserved what the whole process may take.
            return Need(amount, True, None)
    else:
        declared = _to_runtime(amount) or _to_front(amount)
        if declared is not None:
            return declared
    warnings.warn(_OUTSIDE, NativeWarning, stacklevel=2)
    return Need(amount, False, None)


class _RawNeed(ctypes.Structure):
    """`mgb_need` of mgb.h, as far as its first sizes: what is shorter reads as zeros."""

    _fields_ = [("size", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("peak_bytes", ctypes.c_uint64)]


def _to_runtime(amount: int) -> Optional[Need]:
    """To MGB's runtime, where an extension that was built with MGB has brought it and it has this process's session."""
    try:
        # Loaded by nobody else, it would keep the driver front from serving the process.
        library = ctypes.CDLL("libmgb_rt.so", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:
        return None
    begin, end = library.mgb_task_begin, library.mgb_task_end
    begin.argtypes, begin.restype = [ctypes.c_void_p, ctypes.POINTER(_RawNeed)], ctypes.c_uint64
    end.argtypes, end.restype = [ctypes.c_uint64], None
    task = begin(None, _RawNeed(ctypes.sizeof(_RawNeed), 0, amount))
    return Need(amount, True, lambda: end(task)) if task else None


def _to_front(amount: int) -> Optional[Need]:
    """To the driver front, which `mgb run` has the process load as its driver."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
        begin, end = library.mgb_front_need, library.mgb_front_need_over
    except (OSError, AttributeError):
        return None
    begin.argtypes, begin.restype = [ctypes.c_uint64], ctypes.c_int
    end.argtypes, end.restype = [ctypes.c_uint64], None
    answer = begin(amount)
    if answer == 0:
        return None
    granted = {1: True, 2: None}.get(answer, False)
    return Need(amount, granted, None if granted is False else lambda: end(amount))
