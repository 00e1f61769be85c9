#include <cstdlib>
#include <iostream>

#include "isa/assembler.h"
#include "isa/disassembler.h"
#include "models/machine.h"
#include "sim/base/error.h"
#include "tests/fuzz/text_mutator.h"

namespace {

constexpr std::uint64_t kMostCycles = 20000;

/// The kernels as a program of which the first calls the others.
void run(std::vector<tpu::isa::Kernel> kernels, bool values) {
  tpu::isa::Program program;
  program.name = "fuzz";
  program.kernels = std::move(kernels);
  for (std::uint32_t k = 1; k < program.kernels.size(); ++k) {
    tpu::isa::CallSite site;
    site.kernel = k;
    site.op = k - 1;
    program.call_sites.push_back(site);
    program.ops.emplace_back();
  }
  tpu::MachineParams params;
  params.core.vmem_mib = 1;
  tpu::RunOptions options;
  options.cores = {0};
  options.values = values;
  options.max_step_cycles = options.runaway_cycles = kMostCycles;
  tpu::Machine(params, program).run(options);
}

}  // namespace

/// A text assembles to kernels that run, or that are refused, or that fail as programs do.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const std::vector<tpu::isa::Kernel> kernels = tpu::isa::assemble(text, "f.tpu");
    std::size_t bundles = 0;
    for (const tpu::isa::Kernel& kernel : kernels) bundles += kernel.bundles.size();
    if (kernels.empty() || bundles == 0 || bundles > 2000) return 0;
    run(kernels, size % 2 == 0);
  } catch (const tpu::UserError&) {
  }
  return 0;
}
