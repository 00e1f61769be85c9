#include <cstdlib>
#include <iostream>

#include "isa/program_text.h"
#include "models/machine.h"
#include "sim/base/error.h"
#include "tests/fuzz/one_input.h"
#include "tests/fuzz/text_mutator.h"

namespace {

constexpr std::uint64_t kMostCycles = 20000;

void run(tpu::isa::Program program, bool values) {
  program.name = "fuzz";
  tpu::MachineParams params;
  params.core.vmem_mib = 1;
  tpu::RunOptions options;
  options.cores = {0};
  options.values = values;
  options.max_step_cycles = options.runaway_cycles = kMostCycles;
  tpu::Machine(params, program).run(options);
}

}  // namespace

/// A text assembles to a program that runs, or that is refused, or that fails as programs do.
void tpu::fuzz::one_input(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const tpu::isa::Program program =
        tpu::isa::assemble_program(text, "f.tpu", [](const std::string&) {
          return tpu::isa::ArraySize{4096, 4096};
        });
    std::size_t bundles = 0;
    for (const tpu::isa::Kernel& kernel : program.kernels) bundles += kernel.bundles.size();
    if (bundles == 0 || bundles > 2000) return;
    run(program, size % 2 == 0);
  } catch (const tpu::UserError&) {
  }
}
