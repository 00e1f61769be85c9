#pragma once

#include <random>
#include <string>

#include "tests/compiler/run_compiled.h"

namespace tpu::test {

/// How the arguments of a module are made and its results compared.
struct HloCheck {
  double low = -2, high = 2;    ///< Of floating arguments.
  double least = -3, most = 9;  ///< Of integer arguments.
  double tolerance = 1e-5;      ///< Relative L2 distance of each floating result.
  std::uint32_t steps = 1;
  std::uint32_t cores = 1;
  bool round_matmul_operands = true;
};

reference::Value random_value(const hlo::Shape& shape, std::mt19937& engine, const HloCheck& check);

/// A module's begin: reducers `add` and `least`; its entry follows.
inline const char* const kAddAndLeast = R"(HloModule reductions
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
least {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] minimum(a, b)
}
)";

/// Compiles the text, runs it with values on random arguments and compares every result with the
/// reference interpreter. Integers must be equal.
CompiledRun check_hlo(const std::string& text, const HloCheck& check = {});

}  // namespace tpu::test
