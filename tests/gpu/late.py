#!/usr/bin/env python3
"""Programs that have their memory for longer than the quotas let them, rebuilt and not, at work under MPS: told of, and ended
where the quotas say so, also by the next mgbd. Their neighbours, who are not limited, go on right. Needs root."""

import os
import signal
import time

from trial import Trial

LIMITED = 20001
TIME = 4
# Seconds: what a process may take beyond its time until it has ended.
MORE = 8


def main():
    trial = Trial("late", __doc__)
    if os.geteuid() != 0:
        trial.check("this is not root: left out", True)
        trial.finish()
    os.chmod(trial.folder, 0o755)
    quotas = trial.folder / "quotas.toml"

    def limit(ends):
        quotas.write_text(f'[users.{LIMITED}]\ntime = "{TIME}s"\nend-late = {str(ends).lower()}\n')

    def start(uid, rounds, plain):
        user = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"]
        environment = (trial.front if plain else lambda: trial.environment(MGB="require"))()
        program = trial.example("phases", plain=plain)
        return trial.spawn([*user, program, 1024, rounds, 200, "wait", 40, 8], environment)

    def end(process):
        output, errors = process.communicate(timeout=trial.left())
        trial.running.remove(process)
        return process.returncode, output, errors

    # That of the next mgbd as well.
    log_file = trial.folder / "mgbd-mgb.log"
    log = lambda: log_file.read_text()
    right = lambda ended: ended[0] == 0 and "PASS" in ended[1]

    limit(False)
    trial.mgbd(options=["--serve", "all", "--quotas", quotas, "--log", log_file], CUDA_VISIBLE_DEVICES="0")
    late = [start(LIMITED, 60, plain) for plain in (False, True)]
    is_late = lambda: [task for task in trial.status()["tasks"]
                       if task["most_time_ms"] and task["time_ms"] > task["most_time_ms"]]
    trial.check("two are late, and shown", trial.until(lambda: len(is_late()) == 2, 30), trial.status()["tasks"])
    ended = [end(process) for process in late]
    trial.check("  and end right", all(map(right, ended)), [(code, errors[-200:]) for code, _, errors in ended])

    limit(True)
    trial.daemon.send_signal(signal.SIGHUP)
    beside = [start(0, 120, plain) for plain in (False, True)]
    began = time.monotonic()
    late = [start(LIMITED, 400, plain) for plain in (False, True)]
    trial.until(lambda: len([task for task in trial.status()["tasks"] if task["uid"] == LIMITED]) == 2)
    # The next one knows for how long they have had it.
    trial.daemon.kill()
    ended = []
    for process in late:
        ended.append((*end(process), round(time.monotonic() - began, 1)))
    said = [(code, seconds, errors[-200:]) for code, _, errors, seconds in ended]
    trial.check("where the quotas say so they are ended", all(code == -signal.SIGTERM for code, *_ in ended), said)
    trial.check("  in time", all(TIME <= seconds <= TIME + MORE for *_, seconds in ended), [one[3] for one in ended])
    trial.check("  and say why", all("mgb:" in errors for _, _, errors, _ in ended), said)
    trial.check("  and the log has it", log().count('order="end-late"') >= 2)
    ended = [end(process) for process in beside]
    trial.check("their neighbours are right", all(map(right, ended)), [(code, errors[-200:]) for code, _, errors in ended])
    trial.check("and nothing is held", trial.until(lambda: not trial.status()["tasks"], 10))
    trial.run([trial.prefix / "bin/mgb", "stop"], timeout=30)
    trial.finish()


main()
