#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "isa/program.h"
#include "workloads/compiler/codegen/first_load.h"
#include "workloads/compiler/program/top_level.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Calls that start the first loads of other calls. What starts the same loads of the same kernel
/// is one kernel: an instruction or two for a load, which begin where the addresses are in
/// registers; a load with gaps on either side has a descriptor in SMEM, which is read when it
/// starts.
class Openings {
 public:
  Openings(isa::Program& program, const Target& target) : program_(program), target_(target) {}

  /// Adds a call to the top-level program, for a call site of the program; `operands`: those of its
  /// kernel.
  void call(TopLevel& top, std::uint32_t opened_site, const std::vector<FirstLoad>& loads,
            const std::vector<CallOperand>& operands);

 private:
  std::uint32_t kernel_for(std::uint32_t opened_kernel, const std::vector<FirstLoad>& loads,
                           const std::vector<int>& operands);

  isa::Program& program_;
  const Target& target_;
  /// By the kernel that is opened, and the rows that are filled.
  std::map<std::pair<std::uint32_t, std::vector<std::uint32_t>>, std::uint32_t> kernels_;
};

}  // namespace tpu::compiler
