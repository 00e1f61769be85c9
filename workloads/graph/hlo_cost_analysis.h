#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::hlo {

/// Work that an instruction stands for, whatever compiler or machine runs it. Counts too large for
/// 63 bits stay at the largest.
struct HloCost {
  std::int64_t flops = 0;         ///< Useful; 2 per multiply-add.
  std::int64_t matmul_flops = 0;  ///< Those of dots and convolutions among them.
  std::int64_t hbm_bytes = 0;     ///< Compulsory.
};

/// FLOPs and bytes of the instructions of a module, as XLA's class of that name counts them but for
/// the trips of loops, which it takes as one.
///
/// - FLOPs: 2 per multiply-add of a dot or convolution (padding and dilation zeros not counted),
/// one
///   per element of an elementwise operation (conversions none) and per input element of a
///   reduction, scatter or map, one per element and window position of a window's reduction.
/// - Bytes: each array in HBM that the instruction reads once, however often it is an operand, and
///   its results once, all without padding. Scalar constants take none. Of an operand of which
///   only slices or gathered rows are read these alone count; a result that updates its operand in
///   place counts with the update.
/// - A call, loop or conditional: what its computations cost, a fusion their FLOPs and the bytes of
///   its own operands and results. Loops are multiplied by trip_count(), by one where that depends
///   on data; a conditional costs as its longest branch.
/// - Parameters, constants, tuples, their elements, bitcasts and ends of asynchronous operations
///   cost nothing.
class HloCostAnalysis {
 public:
  explicit HloCostAnalysis(const Module& module);

  HloCost of(const Computation& computation, const HloInstruction& instruction);
  /// Of a whole computation, once.
  HloCost of(ComputationId id);
  const Module& module() const { return module_; }

 private:
  HloCost of_called(const HloInstruction& instruction);
  HloCost of_longest_branch(const HloInstruction& instruction);

  const Module& module_;
  struct Known {
    bool is_known = false;
    HloCost cost;
  };
  std::vector<Known> known_;
};

/// The words in which XLA's profiler sorts operations: "convolution fusion" (with a dot or
/// convolution in it), "loop fusion", "input fusion", "output fusion", "custom fusion";
/// "convolution" (a dot, too), "data formatting" (copy, transpose, reshape), "non-fusion
/// elementwise", else the opcode.
std::string category(const Module& module, const HloInstruction& instruction);

}  // namespace tpu::hlo
