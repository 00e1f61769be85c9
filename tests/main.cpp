#include <gtest/gtest.h>

// Debian's libsystemc holds a main() that calls sc_main(): the tests bring their own main(), and
// this one is never called.
extern "C" int sc_main(int, char**) { return 1; }

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
