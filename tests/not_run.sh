#!/usr/bin/env bash
# Lists the tests that a run of ctest has skipped, by reason, with their number and names.
#
#     tests/not_run.sh build/Testing/Temporary/LastTest.log
#
# Extra tests read data beside the repository or need Python packages that Debian does not have; they may be skipped.
# Whatever else is skipped rests on what the repository holds: then the exit code is 1.
set -euo pipefail

awk '
  BEGIN {
    extra = "[.][.]/shared|beside the (project|sources)|no reference modules|no (h5py|pandas|numpy|chromium|check_perfetto|Python package xprof)|" \
            "[Jj][Aa][Xx]|set TPUSIM_|the interpreter lacks it|a collective of several cores"
  }
  function add(name, reason) {
    sub(/ at .*[.][.]\/shared.*/, " in ../shared", reason)
    names[reason] = names[reason] "\n    " name
    ++count[reason]
  }
  / Testing: / { test = $NF; ++tests; fresh = 1; wanted = 0 }
  # A test of GoogleTest; a part of a program has many (TPUSIM_TEST_PARTS).
  match($0, /^\[ RUN +\] /) { test = $4; tests += !fresh; fresh = 0; wanted = 0 }
  wanted { add(test, $0); ++skipped; wanted = 0 }
  /: Skipped$/ { wanted = 1 }  # of GoogleTest; the next line is the reason
  match($0, /[.][.][.] skipped ./) {  # of Python: test_name (class) ... skipped "reason"
    add(test ": " $1, substr($0, RSTART + RLENGTH, length($0) - RSTART - RLENGTH))
  }
  END {
    for (reason in count) {
      allowed = reason ~ extra
      if (!allowed) ++missing
      printf "%d did not run: %s%s%s\n", count[reason], reason, allowed ? "" : " - EXPECTED TO RUN", names[reason]
    }
    printf "%d of %d tests ran\n", tests - skipped, tests
    exit missing > 0
  }
' "$1"
