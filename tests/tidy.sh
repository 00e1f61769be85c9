#!/usr/bin/env bash
# clang-tidy. A file takes six seconds, so that tests/run.sh looks at three folders only; the whole takes half an hour.
# The compile commands are those of a folder of its own, in which every file is a unit: clang does not read the
# precompiled headers of g++.
#
#     tests/tidy.sh                             what tests/run.sh checks
#     tests/tidy.sh --all                       everything but workloads/compiler/kernels, which has places left
#     tests/tidy.sh models/core/*.cpp           others
set -euo pipefail
cd "$(dirname "$0")/.."

cmake -S . -B build-tidy -G Ninja -DCMAKE_BUILD_TYPE=Release -DTPUSIM_FEWER_UNITS=OFF >/dev/null
files=("$@")
if [[ "${1:-}" == --all ]]; then
  mapfile -t files < <(find sim isa models workloads traces -name '*.cpp' -not -path 'workloads/compiler/kernels/*' | sort)
fi
[[ ${#files[@]} -gt 0 ]] || files=(sim/base/*.cpp models/network/*.cpp models/host/*.cpp)

printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build-tidy --quiet 2>/dev/null
echo "${#files[@]} files are clean"
