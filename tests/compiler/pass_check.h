#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/compiler/graph_check.h"
#include "workloads/compiler/passes/simplify/simplify.h"

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

}  // namespace tpu::test
