#include "tests/fuzz/one_input.h"
#include "tests/fuzz/reads_back.h"
#include "tests/fuzz/text_mutator.h"
#include "workloads/hlo/stablehlo_reader.h"

/// StableHLO is a module whose HLO text reads to the same text, or it is refused.
void tpu::fuzz::one_input(const std::uint8_t* data, std::size_t size) {
  using namespace tpu::hlo;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const Module module = read_stablehlo_text("f.mlir", text);
    verify(module);
    tpu::fuzz::expect_reads_back(module);
  } catch (const tpu::WorkloadError&) {
  }
}
