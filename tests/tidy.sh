#!/usr/bin/env bash
# clang-tidy. Most of a file's time goes into the headers that it includes, so that the files of a folder are read
# together, sixteen at a time, as they are compiled: a name in an anonymous namespace is the only one of its room.
# Its compile commands are those of a build of its own, in which each file is a unit; options of g++ alone it leaves.
#
#     tests/tidy.sh                             what tests/run.sh checks
#     tests/tidy.sh --all                       everything
#     tests/tidy.sh models/core/*.cpp           others
set -euo pipefail
cd "$(dirname "$0")/.."

files=("$@")
if [[ "${1:-}" == --all ]]; then
  mapfile -t files < <(find sim isa models workloads traces -name '*.cpp' | sort)
fi
[[ ${#files[@]} -gt 0 ]] || files=(sim/base/*.cpp isa/*.cpp models/network/*.cpp models/host/*.cpp models/memory/*.cpp models/core/*.cpp)

cmake -S . -B build-tidy -G Ninja -DCMAKE_BUILD_TYPE=Release -DTPUSIM_FEWER_UNITS=OFF >/dev/null

# A unit of files stands in a folder named as theirs: by that clang-tidy finds the compile command of one of them.
rm -rf build-tidy/units
declare -A units_of
for file in "${files[@]}"; do
  file=$(realpath --relative-to=. "$file")
  folder=build-tidy/units/$(dirname "$file")
  mkdir -p "$folder"
  count=${units_of[$folder]:-0}
  echo "#include \"$PWD/$file\"" >>"$folder/$(basename "$folder")_$((count / 16)).cpp"
  units_of[$folder]=$((count + 1))
done

# The compile command may be that of another folder, whose libraries have other headers, and which lacks a version.
mapfile -t headers < <(grep -ohE -- '-isystem [^ "]+' build-tidy/compile_commands.json | sort -u | sed 's/^-isystem /--extra-arg=-isystem/')

find build-tidy/units -name '*.cpp' -print0 | xargs -0 -n 1 -P "$(nproc)" \
  clang-tidy -p build-tidy --quiet --extra-arg=-Wno-unused-command-line-argument "${headers[@]}" --extra-arg=-DTPUSIM_VERSION='""' --extra-arg=-Wno-macro-redefined --checks=-bugprone-suspicious-include --header-filter='(sim|isa|models|workloads|traces)/.*\.(h|cpp)$' 2>/dev/null
echo "${#files[@]} files are clean"
