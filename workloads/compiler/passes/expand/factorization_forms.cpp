#include "workloads/compiler/passes/expand/factorization_forms.h"

#include <algorithm>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/elimination.h"
#include "workloads/compiler/ir/kernel_forms.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using Extents = std::vector<std::int64_t>;

bool says(const HloInstruction& instruction, const char* attribute) {
  return instruction.raw_attributes->find(attribute) != std::string::npos;
}

bool calls(const HloInstruction& instruction, const char* target) {
  return instruction.opcode == HloOpcode::kCustomCall &&
         instruction.custom_call_target.get() == target;
}

/// Of shapes that fit each other; what does not is refused with other unknown operations.
bool is_factorization(const hlo::Computation& code, const HloInstruction& call) {
  if (call.operands.empty()) return false;
  const hlo::Shape& matrix = code.at(call.operands[0]).shape;
  const auto rank = matrix.dimensions.size();
  if (matrix.type != ElementType::kF32 || rank < 2) return false;
  const bool is_square = matrix.dimensions[rank - 1] == matrix.dimensions[rank - 2];
  switch (call.opcode) {
    case HloOpcode::kCholesky:
      return is_square;
    case HloOpcode::kTriangularSolve: {
      Extents right = code.at(call.operands[1]).shape.dimensions, expected = matrix.dimensions;
      if (!is_square || right.size() != rank) return false;
      // One extent of the right side is free.
      const std::size_t free = rank - (TriangularOptions(call).is_left ? 1 : 2);
      expected[free] = right[free];
      return right == expected;
    }
    case HloOpcode::kCustomCall:
      if (calls(call, kCholeskyAndInverse) || calls(call, kTriangularInverse)) return true;
      if (calls(call, "ProductOfElementaryHouseholderReflectors")) {
        return call.operands.size() == 2 && !call.shape.is_tuple();
      }
      return (calls(call, "LuDecomposition") && call.shape.elements.size() == 3) ||
             (calls(call, "Qr") && call.shape.elements.size() == 2);
    default:
      return false;
  }
}

TriangularOptions::TriangularOptions(const HloInstruction& solve)
    : is_left(says(solve, "left_side=true")),
      is_lower(says(solve, "lower=true")),
      is_unit(says(solve, "unit_diagonal=true")),
      is_transposed(says(solve, "transpose_a=TRANSPOSE") || says(solve, "transpose_a=ADJOINT")) {}

std::string TriangularOptions::attributes() const {
  const auto flag = [](const char* name, bool value) {
    return std::string(name) + (value ? "=true" : "=false");
  };
  return flag("left_side", is_left) + ", " + flag("lower", is_lower) + ", " +
         flag("unit_diagonal", is_unit) +
         ", transpose_a=" + (is_transposed ? "TRANSPOSE" : "NO_TRANSPOSE");
}

namespace {

/// Registers of an array of 32-bit elements.
double registers(std::int64_t matrices, std::int64_t rows, std::int64_t columns) {
  return static_cast<double>(matrices * ceil_divide(rows, std::int64_t{8}) *
                             ceil_divide(columns, std::int64_t{128}));
}

constexpr double kMatrixRegisterBytes = 4096;

}  // namespace

/// What a step changes stays in VMEM, of several matrices part by part, unless one is too large.
double FactorizationEstimate::loop(std::int64_t steps, double step, double changed) const {
  const double bytes = changed * kMatrixRegisterBytes / static_cast<double>(matrices_);
  if (4 * bytes > static_cast<double>(target_.vmem_bytes / 4)) {
    step += 2 * kKernelCycles + 2 * changed * kMatrixRegisterBytes / target_.hbm_bytes_per_cycle;
  }
  return static_cast<double>(steps) * step;
}

/// The result is taken off another, in the same kernel.
double FactorizationEstimate::product(std::int64_t rows, std::int64_t terms,
                                      std::int64_t columns) const {
  const auto elements = [this](std::int64_t a, std::int64_t b) {
    return registers(matrices_, a, b) * kMatrixRegisterBytes / 4;
  };
  const double passes =
      kPreciseProducts * static_cast<double>(matrices_) *
      static_cast<double>(ceil_divide(terms, std::int64_t{target_.mxu_rows})) *
      static_cast<double>(ceil_divide(columns, std::int64_t{target_.mxu_columns})) *
      static_cast<double>(rows) / target_.mxu_count;
  const double bytes = sizeof(float) * (elements(rows, terms) + elements(terms, columns) +
                                        2 * elements(rows, columns));
  return kKernelCycles + kPreciseMatrixCycles * static_cast<double>(matrices_) +
         std::max(passes, bytes / target_.hbm_bytes_per_cycle);
}

/// With what its kernel reads made in front of it, and what is read of its result behind it.
double FactorizationEstimate::eliminated(std::int64_t matrices, std::int64_t n) const {
  return FactorizationEstimate(target_, matrices)
      .in_place(elimination_cycles({matrices, n, n}, target_), n, n);
}

double FactorizationEstimate::in_place(double kernel, std::int64_t rows,
                                       std::int64_t columns) const {
  const double bytes = registers(matrices_, rows, columns) * kMatrixRegisterBytes;
  return 2 * kKernelCycles + kernel + 6 * bytes / target_.hbm_bytes_per_cycle;
}

FactorizationEstimate::Choice FactorizationEstimate::cholesky(std::int64_t n) const {
  const double all = registers(matrices_, n, n);
  const double step = kColumnStepCycles + kEliminatedRegisterCycles * all;
  Choice best{0, n <= kMostEliminatedRows ? eliminated(matrices_, n) : loop(n, step, 2 * all)};
  for (std::int64_t block = kSmallestBlock; block < n; block *= 2) {
    double cycles = 0;
    for (std::int64_t rest = n; rest > 0 && cycles < best.cycles; rest -= block) {
      const std::int64_t taken = std::min(block, rest), below = rest - taken;
      if (below > 0 && block <= kLargestLoopBlock) {
        cycles += eliminated(matrices_, taken) + product(below, taken, taken);
      } else {
        cycles += cholesky(taken).cycles;
        if (below > 0) cycles += triangular_system(taken, below).cycles;
      }
      if (below > 0) cycles += product(below, taken, below);
    }
    if (cycles < best.cycles) best = {block, cycles};
  }
  return best;
}

FactorizationEstimate::Choice FactorizationEstimate::triangular_system(std::int64_t n,
                                                                       std::int64_t right) const {
  const auto solved = [this](std::int64_t matrices, std::int64_t size, std::int64_t others) {
    const double sides =
        std::min(registers(matrices, size, others), registers(matrices, others, size));
    const double step = kColumnStepCycles +
                        kColumnRegisterCycles * registers(matrices, size, size) +
                        kEliminatedRegisterCycles * sides;
    return loop(size, step, sides);
  };
  Choice best{0, solved(matrices_, n, right)};
  for (std::int64_t block = kSmallestBlock; block < n && block <= kLargestLoopBlock; block *= 2) {
    const std::int64_t blocks = ceil_divide(n, block);
    const double cycles = eliminated(matrices_ * blocks, block) +
                          static_cast<double>(blocks) * product(block, block, right) +
                          shares(blocks, block, right);
    if (cycles < best.cycles) best = {block, cycles};
  }
  return best;
}

/// By halves of the columns that are whole blocks; 0: too few.
std::int64_t FactorizationEstimate::half_of(std::int64_t rows, std::int64_t columns) {
  const std::int64_t half =
      round_up(ceil_divide(std::min(rows, columns), std::int64_t{2}), std::int64_t{kFewestColumns});
  return half < std::min(rows, columns) ? half : 0;
}

FactorizationEstimate::Choice FactorizationEstimate::lu(std::int64_t rows,
                                                        std::int64_t columns) const {
  // The order of the rows is one more column.
  const double all = registers(matrices_, rows, columns + 1);
  const double turned = registers(matrices_, columns + 1, rows);
  const double groups = static_cast<double>(matrices_ * ceil_divide(columns + 1, std::int64_t{8}));
  const double step =
      kPivotStepCycles + std::min(kPivotRegisterCycles * all,
                                  kPivotRegisterCycles * turned + kPivotGroupCycles * groups);
  Choice best{0, loop(std::min(rows, columns), step, std::min(all, turned))};
  if (rows <= kMostFactorizedRows && columns <= kMostPivotedColumns) {
    best.cycles =
        in_place(pivoted_elimination_cycles({matrices_, rows, columns}, target_), rows, columns);
  }
  const std::int64_t half = half_of(rows, columns);
  if (half == 0) return best;
  const std::int64_t below = rows - half, right = columns - half;
  const double cycles = lu(rows, half).cycles + in_order(rows, right) +
                        triangular_system(half, right).cycles + product(below, half, right) +
                        lu(below, right).cycles + in_order(below, half) + 2 * kKernelCycles;
  return cycles < best.cycles ? Choice{half, cycles} : best;
}

FactorizationEstimate::Choice FactorizationEstimate::qr(std::int64_t rows,
                                                        std::int64_t columns) const {
  const double all =
      std::min(registers(matrices_, rows, columns), registers(matrices_, columns, rows));
  const double step = kReflectionStepCycles + kReflectionRegisterCycles * all +
                      kReflectionCycles * static_cast<double>(matrices_ - 1);
  Choice best{0, loop(std::min(rows, columns), step, all)};
  if (rows <= kMostFactorizedRows && columns <= kMostReflectedColumns) {
    best.cycles = in_place(reflections_cycles({matrices_, rows, columns}, target_), rows, columns);
  }
  const std::int64_t half = half_of(rows, columns);
  if (half == 0) return best;
  const std::int64_t right = columns - half;
  const double cycles = qr(rows, half).cycles + reflected(rows, half, right) +
                        qr(rows - half, right).cycles + 2 * kKernelCycles;
  return cycles < best.cycles ? Choice{half, cycles} : best;
}

FactorizationEstimate::Choice FactorizationEstimate::reflectors(std::int64_t rows,
                                                                std::int64_t columns,
                                                                std::int64_t count) const {
  const double all =
      std::min(registers(matrices_, rows, columns), registers(matrices_, columns, rows));
  const double step = kReflectionStepCycles + kReflectedRegisterCycles * all;
  const Choice whole{0, loop(count, step, all)};
  const Choice once{count, reflected(rows, count, columns) + 2 * kKernelCycles};
  return once.cycles < whole.cycles ? once : whole;
}

/// V T V^T of so many reflections times columns.
double FactorizationEstimate::reflected(std::int64_t rows, std::int64_t count,
                                        std::int64_t columns) const {
  return product(count, rows, count) + product(count, rows, columns) +
         triangular_system(count, columns).cycles + product(rows, count, columns);
}

/// Rows that are gathered, each with a DMA for itself in front of it.
double FactorizationEstimate::in_order(std::int64_t rows, std::int64_t columns) const {
  const double bytes = 2 * registers(matrices_, rows, columns) * kMatrixRegisterBytes;
  return 2 * kKernelCycles + kGatheredRowCycles * static_cast<double>(matrices_ * rows) +
         (matrices_ > 1 ? 3 : 1) * bytes / target_.hbm_bytes_per_cycle;
}

double FactorizationEstimate::shares(std::int64_t blocks, std::int64_t block,
                                     std::int64_t right) const {
  if (blocks < 2) return 0;
  const std::int64_t half = blocks / 2;
  return product((blocks - half) * block, half * block, right) + shares(half, block, right) +
         shares(blocks - half, block, right);
}

}  // namespace tpu::compiler
