#!/usr/bin/env python3
"""Runs one sweep through each engine that is installed and compares its table, byte for byte, with that of one process.

    tests/sweep/engines.py build/tpusim [--only shards,parallel,slurm,ray,snakemake]

slurm starts a controller, one node and munge of its own in a temporary folder (as root; Debian: slurm-wlm), submits
sim/sweep/engines/slurm.sh as an array of three tasks, kills one task's process (kill -9), puts another back into the
queue while it runs, and puts the killed one back after its end. ray and snakemake are Python packages: run this with the
interpreter that has them. An engine that is not there is named as such. Exit code 1 when a table differs.
"""
import argparse
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ENGINES = pathlib.Path(__file__).resolve().parent.parent.parent / "sim/sweep/engines"

# 12 points of about half a second: long enough to be in the middle of a share.
SWEEP = """workload = "resnet50"
cores = 1
batch = 32
[grid]
config = ["v2-8", "v3-8"]
core.mxu.count = [1, 2]
hbm.gb_per_s = [400, 700, 1000]
"""


class NotHere(Exception):
    pass


class Place:
    """A folder with the sweep, for one engine."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        folder.mkdir()
        (folder / "S.toml").write_text(SWEEP)

    def run(self, *words, **options):
        environment = {**os.environ, "TPUSIM": self.program, **options.pop("environment", {})}
        return subprocess.run([str(word) for word in words], cwd=self.folder, env=environment, check=True, capture_output=True,
                              text=True, **options).stdout

    def tpusim(self, *words):
        return self.run(self.program, "sweep", *words)

    def points(self):
        return len(list((self.folder / "S.points").glob("*.json"))) if (self.folder / "S.points").exists() else 0

    def table(self):
        self.tpusim("merge", "S.toml", "-o", "T.csv")
        return (self.folder / "T.csv").read_bytes()


def shards(place, folder):
    for n in (2, 7):
        shutil.rmtree(place.folder / "S.points", ignore_errors=True)
        for i in range(n, 0, -1):
            place.tpusim("run", "S.toml", "--jobs", "1", "--shard", f"{i}/{n}")
        if n == 2:
            two = place.table()
    if place.table() != two:
        return None, "2 and 7 shares differ"
    return two, "2 shares, 7 shares"


def parallel(place, folder):
    if not shutil.which("parallel"):
        raise NotHere("GNU parallel (Debian: parallel)")
    place.run("parallel", "--will-cite", "-j", "2", f"{place.program} sweep run S.toml -j 1 --shard {{}}/7", ":::", *range(1, 8))
    return place.table(), "7 shares, two at once"


def ray(place, folder):
    try:
        import ray as package
    except ImportError:
        raise NotHere("ray (PyPI: ray)") from None
    place.run(sys.executable, ENGINES / "ray_sweep.py", "S.toml", "R.csv", 7)
    return (place.folder / "R.csv").read_bytes(), f"7 tasks, ray {package.__version__}"


def snakemake(place, folder):
    program = pathlib.Path(sys.executable).parent / "snakemake"
    if not program.exists():
        raise NotHere("snakemake (PyPI: snakemake)")
    place.run(program, "--snakefile", ENGINES / "Snakefile", "--cores", 2, "--config", "sweep=S.toml", "table=K.csv", "shares=7")
    return (place.folder / "K.csv").read_bytes(), f"7 jobs, snakemake {place.run(program, '--version').strip()}"


class Cluster:
    """munge, the controller and one node of Slurm, with everything that they write in one folder."""

    def __init__(self, folder):
        for program in ("munged", "slurmctld", "slurmd", "sbatch"):
            if not shutil.which(program):
                raise NotHere(f"{program} (Debian: slurm-wlm)")
        if os.geteuid() != 0:
            raise NotHere("root, who starts slurmd")
        self.folder, self.started = folder, []
        folder.mkdir()
        folder.chmod(0o755)
        for name in ("state", "spool", "munge"):
            (folder / name).mkdir()
        (folder / "key").write_bytes(os.urandom(128))
        (folder / "key").chmod(0o400)
        with socket.socket() as a, socket.socket() as b:
            a.bind(("", 0))
            b.bind(("", 0))
            ports = a.getsockname()[1], b.getsockname()[1]
        host = socket.gethostname().split(".")[0]
        (folder / "slurm.conf").write_text(f"""ClusterName=one
SlurmctldHost={host}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
KillWait=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
NodeName={host} CPUs=3 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}

    def start(self):
        self.spawn("munged", "--foreground", "--force", f"--key-file={self.folder}/key", f"--socket={self.folder}/munge/socket",
                   f"--pid-file={self.folder}/munge/pid", f"--log-file={self.folder}/munge/log",
                   f"--seed-file={self.folder}/munge/seed")
        self.wait(lambda: (self.folder / "munge/socket").exists(), "munge's socket")
        self.spawn("slurmctld", "-D", "-c")
        self.spawn("slurmd", "-D")
        self.wait(lambda: "idle" in self.say("sinfo", "-h", "-o", "%T"), "an idle node")

    def spawn(self, *words):
        log = open(self.folder / f"{words[0]}.out", "wb")
        self.started.append(subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, **self.environment}))

    def say(self, *words):
        return subprocess.run(words, capture_output=True, text=True, env={**os.environ, **self.environment}).stdout

    def wait(self, true, what, seconds=300):
        end = time.time() + seconds
        while not true():
            if time.time() > end:
                logs = "".join(f.read_text(errors="replace")[-1500:] for f in self.folder.glob("*.out"))
                raise RuntimeError(f"expected {what} within {seconds} s\n{logs}")
            time.sleep(0.1)

    def stop(self):
        for child in reversed(self.started):
            child.terminate()
            try:
                child.wait(20)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def task(self, job, task, field):
        shown = self.say("scontrol", "show", "job", f"{job}_{task}")
        words = dict(word.split("=", 1) for word in shown.split() if "=" in word)
        return words.get(field, "")


def shares_processes(place, share):
    """The processes that simulate this share of this folder."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            if share in words and pathlib.Path(os.readlink(entry / "cwd")) == place.folder:
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def slurm(place, folder):
    cluster = Cluster(folder / "cluster")
    try:
        cluster.start()
        job = place.run("sbatch", "--parsable", "--array=1-3", "--open-mode=append", ENGINES / "slurm.sh", "S.toml",
                        environment=cluster.environment).strip()
        # In the middle of their shares: one process dies, another task goes back into the queue.
        cluster.wait(lambda: place.points() >= 3 and shares_processes(place, "1/3") and shares_processes(place, "2/3"),
                     "two tasks at work")
        for process in shares_processes(place, "1/3"):
            os.kill(process, signal.SIGKILL)
        cluster.say("scontrol", "requeue", f"{job}_2")
        cluster.wait(lambda: cluster.task(job, 1, "JobState") == "FAILED", "the killed task to have failed")
        left = place.points()
        cluster.say("scontrol", "requeue", f"{job}_1")
        cluster.wait(lambda: all(cluster.task(job, n, "JobState") == "COMPLETED" for n in (1, 2, 3)), "three tasks at their end")
        restarts = [cluster.task(job, n, "Restarts") for n in (1, 2, 3)]
        if restarts != ["1", "1", "0"]:
            return None, f"restarts {restarts}"
        version = cluster.say("sbatch", "--version").strip()
        return place.table(), f"3 tasks, {version}: 1 killed with {left} of 12 points there, 2 put back; restarts {' '.join(restarts)}"
    finally:
        cluster.stop()


def main():
    every = [shards, parallel, slurm, ray, snakemake]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(each.__name__ for each in every))
    arguments = parser.parse_args()
    program = str(arguments.program.resolve())
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        alone = Place(program, folder / "alone")
        alone.tpusim("S.toml", "--jobs", "1", "-o", "T.csv")
        right = (alone.folder / "T.csv").read_bytes()
        for engine in every:
            if engine.__name__ not in arguments.only.split(","):
                continue
            try:
                table, told = engine(Place(program, folder / engine.__name__), folder)
            except NotHere as error:
                print(f"{engine.__name__:10} not run: no {error}", flush=True)
                continue
            same = table == right
            wrong += not same
            print(f"{engine.__name__:10} {'the same table' if same else 'ANOTHER TABLE'}  {told}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
