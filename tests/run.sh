#!/usr/bin/env bash
# The whole check: style, build without warnings, all tests, and the tests of the machine, of everything that reads
# files and a sample of the compiler's again with AddressSanitizer and UndefinedBehaviorSanitizer. Ends with what did
# not run and why, and with the number of what failed; a test that rests on what the repository holds and is skipped is
# a failure.
#
#     tests/run.sh              what every change has to pass
#     tests/run.sh --sanitize   the whole program under the sanitizers, too: the compiler and every command
#     tests/run.sh --fuzz 3600  each fuzzer for so many seconds in place of ten
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
    xargs -0 -r -n 20 -P "$(nproc)" clang-format --dry-run --Werror
}

# Twenty test files are one unit: what a file names must be its own.
check_namespaces() {
  local without
  without=$(grep -LE '^namespace [a-z_:]+::[a-z0-9_]+_test \{$' tests/*/*_test.cpp || true)
  [[ -z "$without" ]] || { echo "expected namespace tpu::NAME_OF_THE_FILE { in $without"; return 1; }
}

build_and_test() {
  cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTPUSIM_QUICK_BUILD=ON -DTPUSIM_TEST_PARTS=16 \
    -DTPUSIM_TESTS=ON -DTPUSIM_BENCH=ON &&
    cmake --build build &&
    ctest --test-dir build --output-on-failure -j "$(nproc)" --no-tests=error
}

# The rooms whose tests run again under the sanitizers. Their folder in tests/ is the label of their tests. Of the compiler
# the kernels and what makes bundles of them are sanitized, and compile random graphs, whose values are compared;
# its passes and the reference interpreter are linked from the build before.
sanitized='base|isa|config|traces|xla|hlo|models|compiler' rest="$PWD/build"
[[ "${1:-}" == --sanitize ]] && sanitized+='|frontend|graph|reference|report|app' rest=''

fuzz_seconds=10
if [[ "${1:-}" == --fuzz ]]; then fuzz_seconds=${2:?expected the seconds of each fuzzer behind --fuzz}; fi

# Code that runs once in short tests is not worth optimising: -O0 takes less than half of the compilation. Of programs
# that differ by their seeds alone a tenth runs then, and what is left out are twins that repeat what others visit, long
# runs, what is compared with what it was, and what counts bytes or seconds: a mistake with memory shows in the first
# programs. With an option all runs.
sanitize_level=-O0
few=(TPUSIM_ARRAY_PROGRAMS=20 TPUSIM_FOLDED_PROGRAMS=16 TPUSIM_REPETITION_PROGRAMS=20 TPUSIM_TWIN_PROGRAMS=40
     TPUSIM_HBM_REQUEST_SETS=100 TPUSIM_ICI_TRAFFIC=6 TPUSIM_RANDOM_GRAPHS=6)
long='Pod.NothingDependsOnTheOrder*:Folded.AgreesOnSlicesOfEight*:PacketTwin.AllToAll*:PacketTwin.WithinABound*:'
long+='PacketTwin.EqualToTheCycle*:PacketSwitch.ATorusWithSmallBuffers*:HbmCommands.TheClosedForm*:'
long+='HbmCommands.KeepTheDistances*:HbmCommands.DoNotDepend*:TrainingLoop.WhatIsTooLong*:TrainingLoop.CountedSteps*:'
long+='Repetition.StepsThatAreCounted*:Twins.AgreeOnArraysOfSeveral*:Infeed.BatchesWait*:Assembler.MutatedPrograms*:'
long+='NearestName.AWordOfAMegabyte*:Perfetto*.ASliceTakes*:KeptRuns.*:KeptExports.OfRecords*'
each_access=OFF
if [[ $# -ne 0 ]]; then sanitize_level=-O1 few=() long='' each_access=ON; fi

# Whether clang can build fuzzers here.
has_libfuzzer() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address -x c++ - -o /dev/null 2>/dev/null
}

# Where there are fuzzers, the sanitizers' build is clang's, and theirs.
sanitize() {
  local targets=()
  for room in ${sanitized//|/ }; do targets+=("${room}_tests"); done
  local labels="$sanitized" compiler=()
  if has_libfuzzer; then
    targets+=(fuzzers)
    labels+='|fuzz'
    compiler=(-DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang "-DTPUSIM_FUZZ_SECONDS=$fuzz_seconds")
  fi
  cmake -S . -B build-sanitize -G Ninja "${compiler[@]}" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DTPUSIM_SANITIZE=ON \
    -DTPUSIM_SANITIZE_LEVEL=$sanitize_level -DTPUSIM_SANITIZE_EACH_ACCESS=$each_access -DTPUSIM_TEST_PARTS=8 \
    "-DTPUSIM_REST_FROM=$rest" -DTPUSIM_TESTS=ON -DTPUSIM_BENCH=OFF &&
    cmake --build build-sanitize --target "${targets[@]}" &&
    env "${few[@]}" "GTEST_FILTER=*-$long" ctest --test-dir build-sanitize --output-on-failure -j "$(nproc)" \
      --no-tests=error -L "^($labels)\$"
}

step "clang-format" check_format
step "a namespace for each test file" check_namespaces
step "build and tests" build_and_test
step "parsers, machine and kernels under the sanitizers, each fuzzer for $fuzz_seconds s" sanitize
if command -v clang-tidy >/dev/null; then
  step "clang-tidy" tests/tidy.sh
fi
step "tests that did not run" tests/not_run.sh build/Testing/Temporary/LastTest.log
command -v clang-tidy >/dev/null || echo "clang-tidy did not run: it is not installed (Debian: clang-tidy)"
if ! has_libfuzzer; then
  echo "12 fuzzers did not run: no clang with libFuzzer here (Debian: clang, libclang-rt-14-dev)"
fi

echo
if [[ $failures -ne 0 ]]; then
  echo "$failures parts failed" >&2
  exit 1
fi
echo "all that ran passed"
