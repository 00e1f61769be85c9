#!/usr/bin/env bash
# The whole check: style, build without warnings, all tests, and the tests of the machine and of everything that reads
# files again with AddressSanitizer and UndefinedBehaviorSanitizer. Ends with what did not run and why, and with the
# number of what failed; a test that rests on what the repository holds and is skipped is a failure.
#
#     tests/run.sh              what every change has to pass
#     tests/run.sh --sanitize   the whole program under the sanitizers, too: the compiler and every command
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

# The rooms whose tests run again under the sanitizers. Their folder in tests/ is the label of their tests.
sanitized='base|isa|config|traces|xla|hlo|models'
[[ "${1:-}" == --sanitize ]] && sanitized+='|frontend|graph|reference|report|app'

sanitize() {
  local targets=()
  for room in ${sanitized//|/ }; do targets+=("${room}_tests"); done
  cmake -S . -B build-sanitize -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTPUSIM_SANITIZE=ON -DTPUSIM_TESTS=ON \
    -DTPUSIM_BENCH=OFF &&
    cmake --build build-sanitize --target "${targets[@]}" &&
    ctest --test-dir build-sanitize --output-on-failure -j "$(nproc)" --no-tests=error -L "^($sanitized)\$"
}

step "clang-format" check_format
step "build and tests" build_and_test
step "parsers and machine under the sanitizers" sanitize
step "tests that did not run" tests/not_run.sh build/Testing/Temporary/LastTest.log

echo
if [[ $failures -ne 0 ]]; then
  echo "$failures of 4 parts failed" >&2
  exit 1
fi
echo "all that ran passed"
