// Debian's libsystemc holds a main() that calls it. The fuzzers have libFuzzer's main(); this one
// is never called.
extern "C" int sc_main(int, char**) { return 1; }
