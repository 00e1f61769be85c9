#include <gtest/gtest.h>

#include <cstdlib>

// Debian's libsystemc holds a main() that calls sc_main(): the tests bring their own main(), and
// this one is never called.
extern "C" int sc_main(int, char**) { return 1; }

int main(int argc, char** argv) {
  // The compiler verifies its modules between passes, in the programs that tests start, too.
  ::setenv("TPUSIM_VERIFY_PASSES", "1", 0);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
