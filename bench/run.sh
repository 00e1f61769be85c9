#!/usr/bin/env bash
# Builds and runs the benchmarks; times are process CPU time. Arguments go to Google Benchmark (--benchmark_filter=Dmas).
set -euo pipefail
cd "$(dirname "$0")/.."
[ -f build/build.ninja ] || cmake --preset release
cmake --build build --target tpusim_bench
exec build/tpusim_bench "$@"
