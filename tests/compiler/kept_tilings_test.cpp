// How products and convolutions of many shapes are cut, beside a small file that says how they
// were: the searches alone, without a kernel, so that no figure of theirs changes unseen. Where a
// change is meant:
//
//     TPUSIM_UPDATE_KEPT=1 build/compiler_tests --gtest_filter='KeptTilings.*'

#include <gtest/gtest.h>

#include <cstdio>
#include <initializer_list>
#include <random>

#include "sim/base/error.h"
#include "tests/compiler/machine_target.h"
#include "tests/kept_code.h"
#include "tests/kept_lines.h"
#include "workloads/compiler/kernels/contraction/convolution_lanes_tiling.h"
#include "workloads/compiler/kernels/contraction/convolution_tiling.h"
#include "workloads/compiler/kernels/contraction/dot_tiling.h"

namespace tpu::test::kept_tilings_test {
namespace {

using compiler::ConvolutionProblem;
using compiler::ConvolutionTiling;
using compiler::DotProblem;
using compiler::DotTiling;
using compiler::LanesTiling;
using compiler::Target;
using hlo::ElementType;

class RandomProblems {
 public:
  explicit RandomProblems(std::uint32_t seed) : random_(seed) {}

  Target target() {
    Target target = below(3) == 0 ? target_of(v2_8(), 1) : target_of(MachineParams(), 1);
    if (below(4) == 0) target.mxu_rows = target.mxu_columns = 256;
    if (below(4) == 0) target.vmem_bytes /= 4;
    return target;
  }
  /// Of 16 equal steps to a power of two, or anything below it.
  std::uint32_t extent(std::uint32_t log) {
    const std::uint32_t most = 1u << (1 + below(log));
    return below(3) == 0 ? 1 + below(most) : most;
  }
  ElementType type() { return below(2) == 0 ? ElementType::kF32 : ElementType::kBf16; }

  DotProblem dot() {
    DotProblem problem;
    problem.m = extent(13);
    problem.n = extent(13);
    problem.k = extent(13);
    if (below(3) == 0) problem.outer = {{extent(7), 1, below(2), 1}};
    if (below(4) == 0) problem.outer_k = {{extent(4), 1, 1, 0}};
    problem.lhs_transposed = below(4) == 0;
    problem.rhs_transposed = below(4) == 0;
    problem.result_turned = below(6) == 0;
    problem.lhs_type = type();
    problem.rhs_type = type();
    add_epilogue(problem);
    if (below(6) == 0) problem.resident_rows = below(4000);
    return problem;
  }

  ConvolutionProblem convolution() {
    ConvolutionProblem problem;
    for (compiler::SpatialDimension& each : problem.spatial) {
      each.window = 1 + 2 * below(3);
      each.stride = 1 + below(2);
      each.base_dilation = each.stride == 1 && below(4) == 0 ? 2 : 1;
      each.output = 1 + below(56);
      each.padding = each.window / 2;
      each.input = (each.output - 1) * each.stride / each.base_dilation + 1;
      each.reversed = below(4) == 0;
    }
    problem.rows = extent(8);
    problem.columns = extent(9);
    problem.contracted = extent(9);
    problem.input_type = type();
    problem.window_type = type();
    problem.window_transposed = below(4) == 0;
    add_epilogue(problem);
    return problem;
  }

 private:
  std::uint32_t below(std::uint32_t count) { return static_cast<std::uint32_t>(random_()) % count; }
  template <class Problem>
  void add_epilogue(Problem& problem) {
    problem.result_types = {type()};
    if (below(5) == 0) problem.result_types.push_back(type());
    problem.has_epilogue = below(3) == 0;
    if (!problem.has_epilogue) return;
    problem.epilogue_cost = {2.5 * below(10), 1.0 * below(30)};
    for (std::uint32_t i = below(3); i > 0; --i) problem.epilogue_types.push_back(type());
  }
  std::mt19937 random_;
};

std::string text_of(const DotTiling& tiling) {
  char text[160];
  std::snprintf(
      text, sizeof text,
      "%u %u %u %u by %u, %u at once, %u along k, %u lots%s%s%s%s, %u finished, %.6g cycles",
      tiling.block_outer, tiling.block_m, tiling.block_n, tiling.block_k, tiling.chunk_m,
      tiling.columns_at_once, tiling.k_parts, tiling.lots,
      tiling.columns_outermost ? ", columns outermost" : "",
      tiling.outer_inside ? ", outer inside" : "", tiling.turns_beside ? ", turns beside" : "",
      tiling.arrays_take_matrices ? ", arrays take matrices" : "", tiling.finished_tiles,
      tiling.cycles);
  return text;
}
std::string text_of(const ConvolutionTiling& tiling) {
  char text[160];
  std::snprintf(text, sizeof text,
                "%u rows %u y %u columns by %ux%u of %u, %u at once, %u parts, %.6g cycles",
                tiling.block_rows, tiling.block_y, tiling.block_columns, tiling.chunk_x,
                tiling.chunk_y, tiling.pixels_x, tiling.columns_at_once, tiling.contracted_parts,
                tiling.cycles);
  return text;
}
std::string text_of(const LanesTiling& tiling) {
  char text[200];
  std::snprintf(
      text, sizeof text,
      "split %d%s, %u columns %u features %u y, group %u of %u in %u, by %u, %u finished, "
      "%u at once, %.6g cycles",
      static_cast<int>(tiling.split), tiling.splits_columns ? " by columns" : "",
      tiling.block_columns, tiling.feature_blocks, tiling.block_y, tiling.group, tiling.groups,
      tiling.blocks_x, tiling.chunk, tiling.finished_pairs, tiling.steps_at_once, tiling.cycles);
  return text;
}

/// The tiling that a search finds, or why there is none.
template <class Tiling>
std::string found(compiler::OrRefusal<Tiling> tiling) {
  return tiling ? text_of(*tiling) : tiling.refusal().why.substr(0, 100);
}

TEST(KeptTilings, OfProducts) {
  KeptLines lines("compiler/kept/dot_tilings.txt");
  for (std::uint32_t seed = 4001; seed <= 4250; ++seed) {
    RandomProblems random(seed);
    const Target target = random.target();
    DotProblem problem = random.dot();
    char key[96];
    std::snprintf(key, sizeof key, "%u [%u, %u] x [%u, %u]", seed, problem.m, problem.k, problem.k,
                  problem.n);
    lines.expect(key, found(find_dot_tiling(problem, target)));
    if (seed % 3 == 0) {
      DotProblem chosen = problem;
      lines.expect(std::string(key) + " sides", found(choose_sides(chosen, target)));
    }
    if (problem.m <= 512 && problem.n <= 512 && problem.k <= 512) {
      const std::optional<DotTiling> whole = find_whole_dot_tiling(problem, target);
      lines.expect(std::string(key) + " whole", whole ? text_of(*whole) : "none");
    }
  }
}

TEST(KeptTilings, OfConvolutions) {
  KeptLines lines("compiler/kept/convolution_tilings.txt");
  for (std::uint32_t seed = 4301; seed <= 4400; ++seed) {
    RandomProblems random(seed);
    const Target target = random.target();
    ConvolutionProblem problem = random.convolution();
    char key[96];
    std::snprintf(key, sizeof key, "%u %u of %ux%u, %u to %u", seed, problem.rows,
                  static_cast<unsigned>(problem.spatial[0].output),
                  static_cast<unsigned>(problem.spatial[1].output), problem.contracted,
                  problem.columns);
    lines.expect(key, found(find_convolution_tiling(problem, target)));
    problem.batch_in_lanes = true;
    lines.expect(std::string(key) + " lanes", found(find_lanes_tiling(problem, target)));
  }
}

}  // namespace
}  // namespace tpu::test::kept_tilings_test
