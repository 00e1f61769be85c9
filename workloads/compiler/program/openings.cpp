#include "workloads/compiler/program/openings.h"

#include <algorithm>

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

namespace {

/// Operands that the loads come from, each once.
std::vector<int> operands_of(const std::vector<FirstLoad>& loads) {
  std::vector<int> operands;
  for (const FirstLoad& load : loads) operands.push_back(load.operand);
  std::sort(operands.begin(), operands.end());
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  return operands;
}

}  // namespace

/// It finds the addresses of these operands in s0, s1, ...
std::uint32_t Openings::kernel_for(std::uint32_t opened_kernel, const std::vector<FirstLoad>& loads,
                                   const std::vector<int>& operands) {
  std::vector<std::uint32_t> rows;
  for (const FirstLoad& load : loads) rows.push_back(load.row);
  const auto next = static_cast<std::uint32_t>(program_.kernels.size());
  const auto [found, is_new] = kernels_.emplace(std::pair(opened_kernel, std::move(rows)), next);
  if (!is_new) return found->second;
  KernelBuilder builder(program_.kernels[opened_kernel].name + ".loads", target_);
  for (const FirstLoad& load : loads) {
    const auto place = std::lower_bound(operands.begin(), operands.end(), load.operand);
    builder.start_for_caller(load, static_cast<int>(place - operands.begin()));
  }
  program_.kernels.push_back(builder.finish());
  return next;
}

void Openings::call(TopLevel& top, std::uint32_t opened_site, const std::vector<FirstLoad>& loads,
                    const std::vector<CallOperand>& operands) {
  if (loads.empty()) return;
  const std::vector<int> used = operands_of(loads);
  isa::CallSite site = program_.call_sites.at(opened_site);
  site.kernel = kernel_for(site.kernel, loads, used);
  site.opens = opened_site;
  std::vector<CallOperand> addresses;
  for (const int operand : used)
    addresses.push_back(operands.at(static_cast<std::size_t>(operand)));
  top.call(static_cast<std::uint32_t>(program_.call_sites.size()), addresses);
  program_.call_sites.push_back(std::move(site));
}

}  // namespace tpu::compiler
