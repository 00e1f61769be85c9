#!/usr/bin/env bash
# The limit of an input's time (one_input.cpp): limit_test.sh PROGRAM, which is fuzz_limit. An input of 3 s of processor
# time is reported, one of 1 s and one that waits for 3 s are not.
set -euo pipefail
program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for each in 'compute 3000' 'compute 1000' 'wait 3000'; do
  printf '%s' "$each" >"$folder/input"
  found=passes
  "$program" "$folder/input" 2>"$folder/log" || found=reported
  expected=passes
  [[ "$each" == 'compute 3000' ]] && expected=reported
  if [[ "$found" != "$expected" ]]; then
    echo "input \"$each\" (ms): expected $expected, found $found" >&2
    tail -n 20 "$folder/log" >&2
    exit 1
  fi
  [[ "$found" == passes ]] || grep -q 'expected at most 2 s of processor time' "$folder/log"
done
