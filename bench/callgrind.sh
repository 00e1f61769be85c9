#!/usr/bin/env bash
# Instructions per unit of work, which no other load on the machine can disturb: each benchmark runs under callgrind with one
# and with two iterations; the difference is one iteration's. Arguments: names of benchmarks (default: the short ones).
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f build/build.ninja ] || cmake --preset release
cmake --build build --target tpusim_bench >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

instructions() {  # benchmark, iterations
  valgrind --tool=callgrind --callgrind-out-file="$work/out" build/tpusim_bench \
    --benchmark_filter="^$1\$" --benchmark_min_time=0 --benchmark_repetitions="$2" 2>&1 |
    sed -n 's/.*Collected : \([0-9]*\).*/\1/p'
}

names=("$@")
[ ${#names[@]} -gt 0 ] || names=(BM_BundlesInterpreted BM_BundlesByBlock BM_BundlesWithValues BM_MxuPushes BM_MxuPushesWithValues BM_Dmas BM_Compile/0 BM_Step/0/0)
declare -A units=([BM_BundlesInterpreted]=2400002 [BM_BundlesByBlock]=2400002 [BM_BundlesWithValues]=24002
  [BM_MxuPushes]=1600016 [BM_MxuPushesWithValues]=3216 [BM_Dmas]=50000)
printf '%-26s %16s %14s\n' benchmark instructions 'per unit'
for name in "${names[@]}"; do
  once=$(instructions "$name" 1)
  twice=$(instructions "$name" 2)
  each=$((twice - once))
  unit=${units[$name]:-1}
  printf '%-26s %16d %14d\n' "$name" "$each" "$((each / unit))"
done
