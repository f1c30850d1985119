"""What the scripts beside this have in common: they are run by the Python of an environment, a function each."""

import ctypes
import os
import sys
import time

MIB = 1 << 20


def check(what, *said):
    if not what:
        raise AssertionError(said)


def fails(kind, words, call):
    """A call fails with an error of this kind whose text has these words."""
    try:
        call()
    except kind as error:
        for word in words:
            check(word in str(error), str(error), word)
        return
    raise AssertionError(f"no {kind}")


class Device:
    """The first GPU, by the driver's functions."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        answer = getattr(self.cuda, name)(*arguments)
        check(answer == 0, name, answer)

    def allocate(self, size):
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def free(self, pointer):
        self.call("cuMemFree_v2", pointer)


def reserved(pid=None):
    """Bytes that mgbd has reserved for a process."""
    import mgb

    # What was given back arrives a moment later than what was asked for.
    time.sleep(0.2)
    return sum(task.reserved_bytes for task in mgb.status().tasks if task.pid == (pid or os.getpid()))


def play(functions):
    """Plays the function that the command line names, with its arguments."""
    functions[sys.argv[1].replace("-", "_")](*sys.argv[2:])
    print("PASS")
