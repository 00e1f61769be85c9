#include <benchmark/benchmark.h>

// libsystemc holds a main() of its own that calls this; the benchmarks bring their main() and never
// do.
extern "C" int sc_main(int, char**) { return 1; }

BENCHMARK_MAIN();
