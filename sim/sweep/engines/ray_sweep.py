#!/usr/bin/env python3
"""Runs a sweep as tasks of Ray, and makes its table.

    ray_sweep.py S.toml T.csv [SHARES]

On a cluster `ray.init()` finds the running one; the sweep, its folder of points and tpusim have to stand under the same
names on all nodes. A share whose worker dies is tried again and makes only what it has not made. TPUSIM names the
program where it is not on the PATH.
"""
import os
import subprocess
import sys

import ray

TPUSIM = os.environ.get("TPUSIM", "tpusim")


# A process that a signal ends raises CalledProcessError: tried again as well as a node that is lost.
@ray.remote(num_cpus=1, max_retries=3, retry_exceptions=True)
def share(sweep, i, n):
    command = [TPUSIM, "sweep", "run", sweep, "--jobs", "1", "--shard", f"{i}/{n}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    sweep, table = os.path.abspath(sys.argv[1]), sys.argv[2]
    ray.init(log_to_driver=False)
    shares = int(sys.argv[3]) if len(sys.argv) > 3 else 4 * int(ray.cluster_resources()["CPU"])
    for said in ray.get([share.remote(sweep, i, shares) for i in range(1, shares + 1)]):
        print(said, end="")
    subprocess.run([TPUSIM, "sweep", "merge", sweep, "-o", table], check=True)


if __name__ == "__main__":
    main()
