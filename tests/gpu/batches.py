"""Running one job list under a policy with `mgb batch`, and what came of it."""

import json
import threading
import time

from trial import Nvml


def baseline(policy):
    """Whether a policy runs plain binaries: the baselines know nothing of MGB."""
    return policy == "sa" or policy.startswith("cg:")


def run_batch(trial, policy, jobs, gpus=None, workers=None, trace=None):
    """Runs jobs (lists of an example's name and its arguments) and gives the summary with GPU samples.

    `gpus` limits the node to its first so many GPUs.
    """
    plain = baseline(policy)
    lines = [" ".join([trial.example(job[0], plain)] + [str(word) for word in job[1:]]) for job in jobs]
    name = policy.replace(":", "-")
    listing = trial.folder / f"jobs-{name}.txt"
    listing.write_text("".join(line + "\n" for line in lines))
    visible = {} if gpus is None else {"CUDA_VISIBLE_DEVICES": ",".join(str(g) for g in range(gpus))}
    traced = {} if trace is None else {"MGB_TRACE": trace}
    trial.mgbd(policy, **visible)
    command = [trial.prefix / "bin/mgb", "batch", listing, "--policy", policy, "--json"]
    command += [] if workers is None else ["-j", workers]
    samples = Samples(gpus)
    ended = trial.run(command, trial.environment(**visible, **traced))
    busy = samples.stop()
    trial.stop_mgbd()
    try:
        summary = json.loads(ended["stdout"])
    except ValueError:
        summary = {"error": ended["stdout"][-2000:] + ended["stderr"][-2000:]}
    summary["policy"] = policy
    summary["exit_code"] = ended["code"]
    summary["gpu_busy_percent"] = busy
    summary["seconds_by_this_clock"] = round(ended["seconds"], 2)
    return summary


class Samples(threading.Thread):
    """How busy the GPUs are, by NVML, while a batch runs."""

    def __init__(self, gpus):
        super().__init__(daemon=True)
        self.nvml = Nvml()
        self.gpus = range(len(self.nvml.gpus) if gpus is None else gpus)
        self.seen = [[] for _ in self.gpus]
        self.over = threading.Event()
        self.start()

    def run(self):
        while not self.over.is_set():
            for gpu in self.gpus:
                self.seen[gpu].append(self.nvml.busy(gpu))
            time.sleep(0.1)

    def stop(self):
        self.over.set()
        self.join()
        return [round(sum(seen) / max(1, len(seen)), 1) for seen in self.seen]
