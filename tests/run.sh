#!/usr/bin/env bash
# The whole check: style, build without warnings, all tests, and the tests of everything that reads files again with
# AddressSanitizer and UndefinedBehaviorSanitizer. Ends with the number of what failed.
set -euo pipefail
cd "$(dirname "$0")/.."

sim/install_packages.sh tests

failures=0
step() {
  echo
  echo "== $1"
  shift
  if ! "$@"; then
    failures=$((failures + 1))
    echo "FAILED: $*" >&2
  fi
}

check_format() {
  find sim isa models workloads traces tests bench \( -name '*.cpp' -o -name '*.h' \) -print0 |
    xargs -0 -r -n 50 clang-format --dry-run --Werror
}

build_and_test() {
  cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTPUSIM_TESTS=ON -DTPUSIM_BENCH=ON &&
    cmake --build build &&
    ctest --test-dir build --output-on-failure -j "$(nproc)" --no-tests=error
}

# The rooms that read what users bring. Their folder in tests/ is the label of their tests.
parsers='isa|config|traces|xla|hlo'

sanitize_parsers() {
  local targets=()
  for room in ${parsers//|/ }; do targets+=("${room}_tests"); done
  cmake -S . -B build-sanitize -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTPUSIM_SANITIZE=ON -DTPUSIM_TESTS=ON \
    -DTPUSIM_BENCH=OFF &&
    cmake --build build-sanitize --target "${targets[@]}" &&
    ctest --test-dir build-sanitize --output-on-failure -j "$(nproc)" --no-tests=error -L "^($parsers)\$"
}

step "clang-format" check_format
step "build and tests" build_and_test
step "parsers under the sanitizers" sanitize_parsers

echo
if [[ $failures -ne 0 ]]; then
  echo "$failures of 3 parts failed" >&2
  exit 1
fi
echo "all passed"
