#include "workloads/compiler/passes/fuse/move_sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/compiler/graph_check.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/relayout/relayout_boxes.h"
#include "workloads/compiler/passes/pipeline.h"
#include "workloads/frontend/graph_builder.h"

namespace tpu::test::move_sequences_test {
namespace {

using frontend::Extents;
using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::array_shape;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

/// Kernels of moves behind the pass.
struct Moves {
  std::size_t joined = 0;
  std::size_t alone = 0;
};

/// Checks the values of a module on a machine with little VMEM: no array is small beside it.
Moves moves_of(const hlo::Module& module) {
  GraphCase graph = case_of(module, 5);
  graph.machine.core.vmem_mib = 4;
  const Verdict verdict = check_graph(graph);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message;
  compiler::Target target;
  target.hbm_bytes = std::uint64_t{1} << 30;
  target.vmem_bytes = std::uint64_t{4} << 20;
  Moves moves;
  compiler::schedule(graph.module, target, nullptr, [&](const compiler::PassResult& result) {
    if (result.pass() != "join_moves") return;
    for (const HloInstruction& each : result.module().entry_computation().instructions) {
      moves.joined += compiler::joins_moves(result.module(), each);
      moves.alone += compiler::is_box_move(each.opcode);
    }
  });
  return moves;
}

Tensor part(GraphBuilder& graph, Tensor x, std::int64_t d, std::int64_t begin, std::int64_t end) {
  Extents starts(graph.shape(x).dimensions.size()), limits = graph.shape(x).dimensions;
  starts[static_cast<std::size_t>(d)] = begin;
  limits[static_cast<std::size_t>(d)] = end;
  return graph.slice(x, starts, limits);
}

/// The last elements of a dimension come first.
Tensor rolled(GraphBuilder& graph, Tensor x, std::int64_t d, std::int64_t by) {
  const std::int64_t extent = graph.shape(x).dimensions[static_cast<std::size_t>(d)];
  return graph.concatenate(
      {part(graph, x, d, extent - by, extent), part(graph, x, d, 0, extent - by)}, d);
}

/// Elements of both ends again, backwards, around a dimension.
Tensor reflected(GraphBuilder& graph, Tensor x, std::int64_t d, std::int64_t by) {
  const std::int64_t extent = graph.shape(x).dimensions[static_cast<std::size_t>(d)];
  return graph.concatenate({graph.reverse(part(graph, x, d, 1, 1 + by), {d}), x,
                            graph.reverse(part(graph, x, d, extent - 1 - by, extent - 1), {d})},
                           d);
}

TEST(MoveSequences, ARollAlongTwoDimensionsIsOneKernel) {
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    SCOPED_TRACE(hlo::to_string(type));
    for (const auto& [one, other] : {std::pair(1, 2), std::pair(2, 3), std::pair(0, 1)}) {
      GraphBuilder graph("roll");
      const Tensor x = graph.parameter("x", array_shape(type, {6, 20, 36, 100}));
      const Tensor value = rolled(graph, rolled(graph, x, one, 3), other, 5);
      const Moves moves = moves_of(graph.finish(graph.tuple({value}), {x}));
      if (other == 3) continue;  // Turns of lanes may take longer together.
      EXPECT_EQ(moves.joined, 1U);
      EXPECT_EQ(moves.alone, 0U);
    }
  }
}

/// By lanes, by rows of a tile and by whole tiles.
TEST(MoveSequences, ARollOfAVectorIsOneKernel) {
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    SCOPED_TRACE(hlo::to_string(type));
    for (const std::int64_t by : {7, 384, 2048}) {
      GraphBuilder graph("roll");
      const Tensor x = graph.parameter("x", array_shape(type, {300001}));
      const Moves moves = moves_of(graph.finish(graph.tuple({rolled(graph, x, 0, by)}), {x}));
      EXPECT_EQ(moves.joined, 1U) << by;
      EXPECT_EQ(moves.alone, 0U) << by;
    }
  }
}

TEST(MoveSequences, AReflectedBorderIsOneKernel) {
  for (const auto& [one, other] : {std::pair(1, 2), std::pair(2, 3), std::pair(1, 3)}) {
    SCOPED_TRACE(one);
    GraphBuilder graph("border");
    const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {6, 20, 36, 100}));
    const Tensor value = reflected(graph, reflected(graph, x, one, 3), other, 3);
    const Moves moves = moves_of(graph.finish(graph.tuple({value}), {x}));
    if (one == 2) continue;
    EXPECT_EQ(moves.joined, 1U);
    EXPECT_EQ(moves.alone, 0U);
  }
}

/// Two arrays side by side, cut and padded by a number, backwards.
TEST(MoveSequences, PadsFillWhatNoBoxReaches) {
  GraphBuilder graph("padded");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {6, 20, 36, 100}));
  const Tensor y = graph.parameter("y", array_shape(ElementType::kF32, {6, 20, 36, 100}));
  const Tensor cut = part(graph, graph.concatenate({x, graph.reverse(y, {2})}, 2), 2, 5, 61);
  const Tensor value = graph.pad(cut, {{}, {1, 2, 0}, {3, 4, 0}, {}}, 0.5);
  const Moves moves = moves_of(graph.finish(graph.tuple({value}), {x, y}));
  EXPECT_EQ(moves.joined, 1U);
  EXPECT_EQ(moves.alone, 0U);
}

/// What something else reads is written anyway.
TEST(MoveSequences, AMoveThatOthersReadStaysAKernel) {
  GraphBuilder graph("read");
  const Tensor x = graph.parameter("x", array_shape(ElementType::kF32, {6, 20, 36, 100}));
  const Tensor once = rolled(graph, x, 1, 3);
  const Tensor twice = rolled(graph, once, 2, 3);
  const Moves moves = moves_of(graph.finish(graph.tuple({once, twice}), {x}));
  EXPECT_EQ(moves.joined, 2U);
}

/// Twelve arrays, ten of them joined before: more addresses than a kernel has registers for.
TEST(MoveSequences, ManyArraysAreNotJoined) {
  GraphBuilder graph("many");
  std::vector<Tensor> parameters;
  for (int i = 0; i < 12; ++i) {
    parameters.push_back(graph.parameter(
        "x" + std::to_string(i), array_shape(ElementType::kF32, {16, i < 10 ? 1 : 16, 400})));
  }
  const Tensor few = graph.concatenate({parameters.begin(), parameters.begin() + 10}, 1);
  const Tensor value = graph.concatenate({parameters[10], parameters[11], few}, 1);
  EXPECT_EQ(moves_of(graph.finish(graph.tuple({value}), parameters)).joined, 0U);
}

/// A gap behind each element between: no box from the array to the result.
TEST(MoveSequences, BoxesThatDoNotJoinStayApart) {
  GraphBuilder graph("steps");
  hlo::Shape shape = array_shape(ElementType::kF32, {8, 16, 128});
  const Tensor x = graph.parameter("x", shape);
  const Tensor gaps = graph.pad(x, {{0, 0, 1}, {}, {}});
  const Tensor cut = graph.slice(gaps, {2, 0, 0}, {9, 16, 128});
  hlo::Module module = graph.finish(cut, {x});
  for (HloInstruction& each : module.entry_computation().instructions) {
    if (each.shape.rank() == 3) {
      each.shape.layout = compiler::tiled_layout(ElementType::kF32, {2, 1, 0});
    }
  }
  EXPECT_FALSE(compiler::boxes_of_moves(module.entry_computation()));
}

}  // namespace
}  // namespace tpu::test::move_sequences_test
