#!/usr/bin/env bash
# clang-tidy over the folders that are clean: a file takes six seconds, so the whole would take half an hour. A folder
# joins the list when it is clean. With file names: over those. The compile commands are those of a folder of its own,
# in which every file is a unit: clang does not read the precompiled headers of g++.
#
#     tests/tidy.sh                             what tests/run.sh checks
#     tests/tidy.sh models/core/*.cpp           others
set -euo pipefail
cd "$(dirname "$0")/.."

cmake -S . -B build-tidy -G Ninja -DCMAKE_BUILD_TYPE=Release -DTPUSIM_FEWER_UNITS=OFF >/dev/null
files=("$@")
[[ ${#files[@]} -gt 0 ]] || files=(sim/base/*.cpp models/network/*.cpp models/host/*.cpp)

printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p build-tidy --quiet 2>/dev/null
echo "${#files[@]} files are clean"
