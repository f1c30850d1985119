"""Needs that a process declares by mgb.need, under `mgb run`: wheel.py has the Python of an environment run a
function each, which prints PASS where all is right."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

from common import MIB, Device, check, fails, play, reserved


def need():
    import mgb

    device = Device()
    before = reserved()
    with mgb.need("24MiB") as first:
        check(first.granted is True, first)
        check(reserved() >= 24 * MIB, reserved())
        memory = device.allocate(20 * MIB)
        check(reserved() < 44 * MIB, "what it holds counts", reserved())
        with mgb.need(8 * MIB):
            check(reserved() >= 32 * MIB, "they add up", reserved())
        device.free(memory)
        check(24 * MIB <= reserved() < 32 * MIB, "it stays reserved", reserved())
        memory = device.allocate(4 * MIB)
    check(4 * MIB <= reserved() < 24 * MIB, "the rest is given back", reserved())
    device.free(memory)
    first.end()
    check(reserved() == before, reserved(), before)
    for wrong in (0, -1, 2**64, "much", 1.5, True):
        fails((ValueError, TypeError), [repr(wrong)], lambda: mgb.need(wrong))


def need_early():
    import mgb

    with mgb.need("24MiB") as early:
        check(early.granted is None, early)
        check(reserved() == 0, reserved())
        device = Device()
        check(reserved() >= 24 * MIB, reserved())
        memory = device.allocate(20 * MIB)
        check(reserved() < 44 * MIB, reserved())
        device.free(memory)
    check(reserved() < 24 * MIB, reserved())


def need_too_large():
    import mgb

    # Each way goes on, without the room.
    with mgb.need("1TiB") as early:
        check(early.granted is None, early)
        device = Device()
        device.free(device.allocate(20 * MIB))
    with mgb.need(2**64 - 1) as late:
        check(late.granted is False, late)
        device.free(device.allocate(20 * MIB))
    with mgb.need("8MiB") as right:
        check(right.granted is True, right)


def need_threads():
    import mgb

    Device()
    failed = []

    def one():
        try:
            for _ in range(20):
                with mgb.need("4MiB") as need:
                    check(need.granted is True, need)
        except AssertionError as error:
            failed.append(error)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not failed, failed)
    check(reserved() < 4 * MIB, reserved())


def need_fork():
    import mgb

    early = mgb.need("24MiB")
    child = os.fork()
    if child == 0:
        # A need of its own, and none of its parent's.
        try:
            early.end()
            Device()
            check(reserved() < 24 * MIB, reserved())
            with mgb.need("8MiB") as own:
                check(own.granted is True, own)
        except BaseException as error:
            print("child:", repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    check(os.waitpid(child, 0)[1] == 0, "the child")
    Device()
    check(reserved() >= 24 * MIB, reserved())
    child = os.fork()
    if child == 0:
        # The driver does not serve it any more.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            early.end()
            with mgb.need("8MiB") as own:
                os._exit(0 if own.granted is False and len(caught) == 1 else 1)
    check(os.waitpid(child, 0)[1] == 0, "the child of a process that uses the GPU")
    check(reserved() >= 24 * MIB, "a child's end is not its parent's", reserved())
    early.end()


def take():
    device = Device()
    device.free(device.allocate(40 * MIB))


def need_evicted():
    import mgb

    # What it holds makes room for another program, and comes back with what it declared.
    device = Device()
    with mgb.need("40MiB"):
        memory = device.allocate(20 * MIB)
        device.call("cuMemsetD8_v2", memory, ctypes.c_ubyte(7), ctypes.c_size_t(20 * MIB))
        done = mgb.run([sys.executable, __file__, "take"], stdout=subprocess.PIPE, text=True)
        check(done.stdout == "PASS\n", done)
        check(mgb.status().document["counts"]["evicted_bytes"] >= 20 * MIB, mgb.status().document["counts"])
        found = (ctypes.c_ubyte * (20 * MIB))()
        device.call("cuMemcpyDtoH_v2", found, memory, ctypes.c_size_t(20 * MIB))
        check(set(bytes(found)) == {7}, "what was in it")
        check(reserved() >= 40 * MIB, reserved())
    check(reserved() < 40 * MIB, reserved())


def need_declared():
    import mgb

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with mgb.need("4MiB") as need:
            check(need.granted is True, need)


def need_rebuilt(extension):
    import mgb

    # It brings MGB's runtime, and with it the session.
    code = ctypes.CDLL(extension)
    with mgb.need("24MiB") as need:
        check(need.granted is True, need)
        check(24 * MIB <= reserved() < 28 * MIB, reserved())
        check(code.compute(8) == 42, "what it computes")
    check(reserved() < 24 * MIB, reserved())


def nested(examples):
    import mgb

    with mgb.need("16MiB"):
        Device()
        for command in ([sys.executable, __file__, "need"], [f"{examples}/vecadd", "1000"]):
            done = mgb.run(command, capture_output=True, text=True)
            check(done.returncode == 0 and "PASS" in done.stdout, done)


def hold():
    import mgb

    Device()
    with mgb.need("40MiB") as need:
        print(need.granted, flush=True)
        time.sleep(600)


def interrupted_need():
    import mgb

    Device()
    with subprocess.Popen([mgb.program(), "run", sys.executable, __file__, "hold"], stdout=subprocess.PIPE, text=True) as holder:
        try:
            check(holder.stdout.readline() == "True\n", "another has most of the GPU")
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
            fails(KeyboardInterrupt, [], lambda: mgb.need("40MiB"))
        finally:
            holder.kill()
    time.sleep(2.1)
    with mgb.need("40MiB") as need:
        check(need.granted is True, need)


if __name__ == "__main__":
    play(globals())
