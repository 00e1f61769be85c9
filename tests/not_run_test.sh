#!/usr/bin/env bash
# Holds that not_run.sh names what was skipped and fails for what should have run.
set -euo pipefail
script=$(dirname "$0")/not_run.sh
log=$(mktemp)
trap 'rm -f "$log"' EXIT

cat > "$log" <<'LOG'
1/4 Testing: Npz.Reads
../tests/traces/npz_test.cpp:94: Skipped
no numpy here

2/4 Testing: Machine.Runs
../tests/captured/machine_test.cpp:103: Skipped
no reference data at /home/me/tpusim/../shared/xla/programs/mlp

3/4 Testing: traces_tests.0
[ RUN      ] Perfetto.Writes
[       OK ] Perfetto.Writes (1 ms)
[ RUN      ] Hdf5.ReadsTables
../tests/traces/hdf5_file_test.cpp:21: Skipped
no pandas here

[  SKIPPED ] Hdf5.ReadsTables (0 ms)

4/4 Testing: Capture.CommandLine
test_meshes (__main__.WholeCapture.test_meshes) ... skipped 'needs jax[tpu]'
LOG
expected="1 did not run: needs jax[tpu]
    Capture.CommandLine: test_meshes
1 did not run: no numpy here
    Npz.Reads
1 did not run: no pandas here
    Hdf5.ReadsTables
1 did not run: no reference data in ../shared
    Machine.Runs
2 of 5 tests ran"
found=$("$script" "$log" | LC_ALL=C awk '/^[0-9]+ did/ { key = $0 } { print key "\t" NR "\t" $0 }' | LC_ALL=C sort -t $'\t' -k1,1 -k2,2n | cut -f3)
# The last line stands behind the last group, whichever that is.
found=$(grep -v ' tests ran$' <<< "$found"; grep ' tests ran$' <<< "$found")
if [[ "$found" != "$expected" ]]; then
  diff <(echo "$expected") <(echo "$found")
  exit 1
fi

printf '1/1 Testing: Mlp.Runs\nmlp_test.cpp:1: Skipped\nno workloads/captured/mlp\n' > "$log"
if "$script" "$log" > /dev/null; then
  echo "a skipped test of the repository's own data is no failure"
  exit 1
fi
