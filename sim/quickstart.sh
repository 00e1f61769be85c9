#!/usr/bin/env bash
# Builds tpusim (build/tpusim), then executes a training step of ResNet-50 on one core of TPU v2 and of TPU v3.
set -euo pipefail
cd "$(dirname "$0")/.."

sim/install_packages.sh
cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTPUSIM_TESTS=OFF -DTPUSIM_BENCH=OFF
cmake --build build --target tpusim
echo
echo '$ build/tpusim compare resnet50 --configs v2-8,v3-8 --cores 1 --batch 128'
exec build/tpusim compare resnet50 --configs v2-8,v3-8 --cores 1 --batch 128
