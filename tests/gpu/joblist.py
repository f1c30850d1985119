"""A list of jobs as users of a cluster have it, how Slurm is set for it, and how the jobs have ended: what
slurm_node.py on real GPUs and tests/slurm/many.py on software GPUs share."""

import collections
import random

# In units of memory, of which each GPU has so many.
Job = collections.namedtuple("Job", "need believed rounds")
GPU = 64
SHARDS = 8
# Slurm as for many short jobs: all that wait are looked at, each second and whenever one ends.
TUNED = ("SchedulerParameters=batch_sched_delay=0,sched_min_interval=20000,sched_interval=1,"
         "default_queue_depth=1000,bf_interval=1,bf_max_job_test=1000,bf_continue,defer_batch")


def draw(count, life, seed=26):
    """Jobs: what they need, what their users believe they need, and rounds of half a second. Most are small,
    and one in five is believed to need half of what it takes."""
    dice = random.Random(seed)
    jobs = []
    for _ in range(count):
        need = dice.randint(*dice.choices(((4, 12), (13, 24), (25, 40)), (60, 25, 15))[0])
        right = dice.random() < 0.8
        jobs.append(Job(need, need + 1 if right else need // 2, max(1, round(dice.randint(2, 8) * life))))
    return jobs


def shards(job):
    """How many shards of a GPU are as much as a job is believed to need."""
    return -(-job.believed * SHARDS // GPU)


def ends(folder, count):
    """How so many jobs have ended, by what each has written into a file of the folder."""
    texts = [file.read_text() for file in folder.iterdir() if file.suffix != ".jsonl"]
    passed = sum("PASS" in text for text in texts)
    oom = sum("out of memory" in text for text in texts)
    for text in [text for text in texts if "PASS" not in text and "out of memory" not in text][:3]:
        print(f"  other: {text[-300:]!r}", flush=True)
    return {"passed": passed, "oom": oom, "other": count - passed - oom}
