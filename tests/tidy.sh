#!/usr/bin/env bash
# clang-tidy over the folders that are clean, with the compile commands of a build folder: a file takes six seconds, so
# the whole would take half an hour. A folder joins the list when it is clean. With file names: over those.
#
#     tests/tidy.sh build                             what tests/run.sh checks
#     tests/tidy.sh build models/core/*.cpp           others
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:?expected a build folder}
shift
files=("$@")
[[ ${#files[@]} -gt 0 ]] || files=(sim/base/*.cpp models/network/*.cpp models/host/*.cpp)

printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy -p "$build" --quiet 2>/dev/null
echo "${#files[@]} files are clean"
