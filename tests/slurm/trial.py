"""What the parts of the trial have in common."""

import re

from cluster import HEAD

PROGRAMS = "/usr/local/share/mgb"


class Trial:
    """The cluster, and the checks."""

    def __init__(self, cluster, arguments):
        self.cluster, self.arguments, self.wrong = cluster, arguments, 0

    def check(self, what, right, figure=None):
        self.wrong += not right
        print(f"{'ok   ' if right else 'WRONG'} {what}" + ("" if figure is None else f": {figure}"), flush=True)

    def program(self, name, *words, kind="mgb"):
        """The command line of one of MGB's examples, built with MGB or plain."""
        return " ".join([f"{PROGRAMS}/{kind}/{name}", *map(str, words)])

    def phases(self, mib, rounds=8):
        """A program that holds memory for a life of rounds of 0.25 s, and ends with PASS."""
        return self.program("phases", mib, rounds, 200, "wait", 10, 8)

    def submit(self, command, options="", user="alice"):
        return self.cluster.submit(f"-o /home/{user}/%j.out {options}", command, user)

    def output(self, job, user="alice"):
        return self.cluster.run(HEAD, f"cat /home/{user}/{job}.out")["stdout"]

    def ends(self, jobs, seconds=120):
        """What is wrong with the ends of jobs that print PASS."""
        states = self.cluster.wait_for(jobs, seconds)
        jobs = [jobs] if isinstance(jobs, int) else jobs
        # Their files come over /home, a moment after Slurm knows that they have ended.
        self.until(lambda: all("PASS" in self.output(job) for job in jobs if states.get(job) == "COMPLETED"), 3)
        runs = lambda job: self.cluster.run(HEAD, f"sacct -n -P -X -D -j {job} -o State,ExitCode,NodeList")["stdout"]
        wrong = [(job, states.get(job), runs(job).split(), self.output(job)[-300:]) for job in jobs
                 if states.get(job) != "COMPLETED" or "PASS" not in self.output(job)]
        return wrong

    def tasks(self, name):
        """What mgbd of a node has granted."""
        return self.cluster.status(name)["tasks"]

    def is_empty(self):
        """No mgbd has anything charged, and nobody waits."""
        views = [self.cluster.status(name) for name in self.cluster.nodes]
        return not any(view["tasks"] or view["queue"] for view in views)

    def check_empty(self):
        try:
            self.check("  and all ledgers are empty", self.cluster.wait(self.is_empty, 15, "empty") is not None)
        except RuntimeError:
            self.check("  and all ledgers are empty", False, [self.tasks(name) for name in self.cluster.nodes])

    def recorded(self, job, nodes=1, seconds=30):
        """The same, once as many nodes have recorded what it took: a moment after its end, or after slurmdbd has come
        back."""
        self.until(lambda: len(self.records(job)) == nodes, seconds)
        return self.records(job)

    def records(self, job):
        """What sacct has of MGB's: by node, the figures by name."""
        text = self.cluster.must(HEAD, f"sacct -n -P -X -j {job} -o AdminComment")
        own = re.search(r"mgb\{(.*?)\}", text)
        nodes = own.group(1).split(";") if own else []
        figure = lambda value: float(value.rstrip("s"))
        return {words[0]: {name: figure(value) for name, value in (word.split("=") for word in words[1:])}
                for words in (node.split() for node in nodes)}

    def begin_now(self, also=""):
        """Slurm lets requeued jobs wait for two minutes; these begin at once. Returns them. `also`: what else
        scontrol is to change."""
        waiting = self.cluster.must(HEAD, "squeue -h -t pending -o '%A %r'").splitlines()
        jobs = [line.split()[0] for line in waiting if line.endswith("BeginTime")]
        for job in jobs:
            self.cluster.run(HEAD, f"scontrol update job={job} {also} StartTime=now")
        return jobs

    def until(self, condition, seconds=30):
        """Waits; whether it holds then."""
        try:
            return self.cluster.wait(condition, seconds, "it") is not None
        except RuntimeError:
            return False
