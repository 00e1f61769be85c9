#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/compiler/graph_check.h"
#include "workloads/compiler/passes/fuse/fusion.h"
#include "workloads/compiler/passes/layout/layouts.h"
#include "workloads/compiler/passes/pipeline.h"
#include "workloads/compiler/passes/simplify/simplify.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test {

using ModulePass = void (*)(hlo::Module&);

/// The verified module behind a pass, with simplify before and after it as in the table of passes.
inline hlo::Module simplified_around(hlo::Module module, ModulePass pass) {
  compiler::simplify(module);
  pass(module);
  compiler::simplify(module);
  EXPECT_NO_THROW(hlo::verify(module));
  return module;
}

/// The reference gets equal numbers from the module behind the pass, and compiled it has the
/// reference's values.
inline void expect_values_kept(const GraphCase& graph, ModulePass pass) {
  const std::vector<reference::Value> wanted = interpret(graph.module, graph.arguments);
  const std::vector<reference::Value> found =
      interpret(simplified_around(graph.module, pass), graph.arguments);
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(found[i].numbers, wanted[i].numbers);
  const Verdict verdict = check_graph(graph);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message;
}

inline std::size_t count(const hlo::Module& module, hlo::HloOpcode opcode) {
  std::size_t found = 0;
  for (const hlo::HloInstruction& instruction : module.entry_computation().instructions) {
    if (instruction.opcode == opcode) ++found;
  }
  return found;
}

/// Checks the values of a module on a machine with so much VMEM. How many instructions of these
/// opcodes its entry has behind the pass: kernels of their own.
inline std::size_t left_behind(const std::string& pass, const std::vector<hlo::HloOpcode>& opcodes,
                               const std::string& text, std::uint32_t vmem_mib) {
  GraphCase graph = case_of(hlo::read_hlo_text(pass + ".hlo", text), 5);
  graph.machine.core.vmem_mib = vmem_mib;
  const Verdict verdict = check_graph(graph);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message;
  compiler::Target target;
  target.hbm_bytes = std::uint64_t{1} << 30;
  target.vmem_bytes = std::uint64_t{vmem_mib} << 20;
  std::size_t left = 0;
  bool has_run = false;
  compiler::schedule(graph.module, target, nullptr, [&](const compiler::PassResult& result) {
    if (result.pass() != pass) return;
    has_run = true;
    left = 0;
    for (const hlo::HloOpcode opcode : opcodes) left += count(result.module(), opcode);
  });
  EXPECT_TRUE(has_run) << pass;
  return left;
}

inline std::size_t count_kind(const hlo::Module& module, const std::string& kind) {
  std::size_t found = 0;
  for (const hlo::HloInstruction& instruction : module.entry_computation().instructions) {
    if (instruction.fusion_kind.get() == kind) ++found;
  }
  return found;
}

inline const hlo::HloInstruction& root(const hlo::Module& module) {
  return module.entry_computation().at(module.entry_computation().root);
}

inline hlo::Module run_to_fusion(hlo::Module module) {
  compiler::flatten_calls(module);
  compiler::simplify(module);
  compiler::assign_layouts(module);
  compiler::find_bitcasts(module);
  compiler::fuse(module);
  return module;
}

}  // namespace tpu::test
