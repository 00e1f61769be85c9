#!/bin/sh
#SBATCH --job-name=tpusim-sweep
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --requeue
# One share of a sweep for each task of a Slurm job array; the number of tasks is the number of shares:
#
#     sbatch --array=1-100 sim/sweep/engines/slurm.sh S.toml
#     tpusim sweep merge S.toml -o T.csv
#
# A task that is killed, preempted or requeued leaves its finished points, and makes only the others when it runs again.
# TPUSIM names the program where it is not on the PATH. The folder of points (S.points) has to be on a file system that
# all nodes share.
exec "${TPUSIM:-tpusim}" sweep run "$1" --jobs 1 --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT"
