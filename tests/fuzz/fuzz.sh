#!/usr/bin/env bash
# Runs one fuzzer: fuzz.sh PROGRAM KIND SECONDS [FOLDER]. It begins with the seeds of its kind and with what was found
# before, and ends with an error at the first crash, leak of a bug's exception, input of more than 2 s of processor time
# (one_input.cpp), of 60 s on the wall or of 1 GB; the input stands in FOLDER then. What reaches new code is kept in
# FOLDER, too (a temporary one when none is given).
set -euo pipefail
program=$1 kind=$2 seconds=$3
here=$(cd "$(dirname "$0")" && pwd)
folder=${4:-}
if [[ -z "$folder" ]]; then
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
fi
mkdir -p "$folder/corpus"
known=()
for each in "$here/seeds/$kind" "$here/found/$kind"; do [[ -d "$each" ]] && known+=("$each"); done
options=(-max_total_time="$seconds" -timeout=60 -report_slow_units=2 -rss_limit_mb=1024 -malloc_limit_mb=900 -print_final_stats=1
         -artifact_prefix="$folder/")
# HDF5 asks for more than it touches.
[[ "$kind" == hdf5 ]] && options+=(-malloc_limit_mb=100000000)
[[ -f "$here/$kind.dict" ]] && options+=(-dict="$here/$kind.dict")
if ! "$program" "${options[@]}" "$folder/corpus" "${known[@]}" 2>"$folder/log"; then
  tail -n 60 "$folder/log" >&2
  for input in "$folder"/crash-* "$folder"/timeout-* "$folder"/oom-*; do
    [[ -f "$input" ]] && { echo "input $(basename "$input"), in base64:"; base64 "$input" | head -c 20000; } >&2
  done
  exit 1
fi
grep -E "stat::number_of_executed_units|stat::peak_rss_mb" "$folder/log"
