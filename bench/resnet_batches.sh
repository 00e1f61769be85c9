#!/bin/sh
# Compiles ResNet-50 for one core at batches from 8 on in steps of 8, up to the first that does not
# fit the HBM, and prints those that are refused for another reason; fails where there are any.
#
#     bench/resnet_batches.sh [build/tpusim [v3-8 [8]]]
set -u
program=${1:-build/tpusim}
config=${2:-v3-8}
step=${3:-8}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
batch=$step
refused=0
while :; do
  if ! "$program" compile resnet50 --cores 1 --batch "$batch" --config "$config" \
      -o "$folder/program.h5" > "$folder/out" 2> "$folder/err"; then
    grep -q "memory" "$folder/err" && break
    refused=$((refused + 1))
    echo "batch $batch: $(tail -n 1 "$folder/err")"
  fi
  batch=$((batch + step))
done
echo "ResNet-50 for one core of $config, batches $step to $((batch - step)): $refused refused"
[ "$refused" -eq 0 ]
