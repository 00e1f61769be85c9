#include "workloads/compiler/kernels/contraction/matmul_stream.h"

#include <algorithm>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"

namespace tpu::compiler {

MatmulUnits::MatmulUnits(const Target& target, std::uint32_t columns_at_once,
                         std::uint32_t row_parts)
    : arrays(target.mxu_count),
      column_parts(columns_at_once > 1 ? target.column_parts() : 1),
      row_parts(row_parts),
      columns_at_once(columns_at_once) {
  TPU_CHECK(count() % columns_at_once == 0 && columns_at_once % column_parts == 0 &&
                row_parts <= target.row_parts(),
            columns_at_once << " columns and " << row_parts << " row parts at once of "
                            << target.mxu_count << " arrays of " << target.mxu_rows << "x"
                            << target.mxu_columns);
}

std::vector<std::uint32_t> column_choices(const Target& target) {
  std::vector<std::uint32_t> choices;
  for (std::uint32_t arrays = target.mxu_count; arrays > 0; --arrays) {
    if (target.mxu_count % arrays == 0) choices.push_back(arrays * target.column_parts());
  }
  if (choices.back() != 1) choices.push_back(1);
  return choices;
}

double step_bundles(const Target& target, const MatmulUnits& units, std::uint32_t pushes,
                    std::uint32_t weight_pushes) {
  const std::uint32_t weights = weight_pushes * units.row_parts;
  const std::uint32_t ports = target.push_interval_cycles * std::max(pushes, weights);
  const std::uint32_t results = units.count() * pushes;
  const std::uint32_t operands = units.row_parts * pushes;
  const std::uint32_t push_slots = units.arrays * operands + units.count() * weights;
  const std::uint32_t loads = units.groups() * operands +
                              units.matrices_at_once() * units.columns_at_once * weights + results;
  return std::max({ports, push_slots, loads});
}

MatmulStream::MatmulStream(KernelBuilder& builder, const MatmulUnits& units, std::uint32_t pushes,
                           std::uint32_t weight_pushes, std::uint32_t lots)
    : builder_(builder),
      units_(units),
      pushes_(pushes),
      weight_pushes_(weight_pushes),
      lots_(lots) {
  const Target& target = builder.target();
  const std::uint32_t in_flight = (target.matmul_latency_cycles + target.push_interval_cycles - 1) /
                                  target.push_interval_cycles;
  lag_ = std::min({lots * pushes, in_flight + 1, target.result_queue_entries - 1});
}

void MatmulStream::push_weights(const Step& step, std::uint32_t j) {
  for (std::uint32_t part = 0; part < units_.row_parts; ++part) {
    for (std::uint32_t unit = 0; unit < units_.count(); ++unit) {
      const MxuBlock block(unit / units_.column_parts, part, unit % units_.column_parts);
      builder_.push_weights(block, step.next_weights(unit, j, part), step.transposed);
    }
  }
}

/// Push i of the step's rows into an array.
void MatmulStream::multiply(const Step& step, std::uint32_t array, std::uint32_t i) {
  const std::uint32_t unit = array * units_.column_parts;
  for (std::uint32_t part = 1; part < units_.row_parts; ++part) {
    builder_.latch_rows(array, part, step.rows(unit, i, part));
  }
  builder_.matmul(array, step.rows(unit, i, 0), (i + 1) % pushes_ == 0,
                  {units_.row_parts, units_.column_parts});
}

VReg MatmulStream::pop(std::uint32_t unit) {
  return builder_.pop_result(unit / units_.column_parts, unit % units_.column_parts);
}

void MatmulStream::begin(const Step& step) {
  for (std::uint32_t j = 0; j < weight_pushes_; ++j) push_weights(step, j);
  const VReg zero = builder_.vector(isa::Opcode::kVmov, 0.0F);
  for (std::uint32_t array = 0; array < units_.arrays; ++array) builder_.swap_weights(array);
  for (std::uint32_t i = 0; i < lag_; ++i) {
    for (std::uint32_t array = 0; array < units_.arrays; ++array) {
      builder_.matmul(array, zero, false, {1, units_.column_parts});
    }
  }
}

void MatmulStream::step(const Step& step) {
  TPU_CHECK(step.pushes == pushes_, "a step of another length than its stream");
  std::deque<std::pair<std::uint32_t, bool>> pending;
  const std::uint32_t all = lots_ * pushes_;
  for (std::uint32_t i = all - lag_; i < all; ++i) pending.emplace_back(i, true);
  std::uint32_t weights = 0;
  for (std::uint32_t i = 0; i < all; ++i) {
    for (std::uint32_t array = 0; array < units_.arrays; ++array) multiply(step, array, i);
    // Those of a lot go in behind the first matmul of the one before.
    const std::uint32_t due = ceil_divide(weight_pushes_ * (i + 1), pushes_);
    for (; weights < due; ++weights) push_weights(step, weights);
    pending.emplace_back(i, false);
    const auto [result, previous] = pending.front();
    pending.pop_front();
    for (std::uint32_t unit = 0; unit < units_.count(); ++unit) {
      step.consume(unit, result, previous, pop(unit));
    }
    if (step.meanwhile) step.meanwhile(i);
  }
}

void MatmulStream::end(const Step& step) {
  for (std::uint32_t i = lots_ * pushes_ - lag_; i < lots_ * pushes_; ++i) {
    for (std::uint32_t unit = 0; unit < units_.count(); ++unit) {
      step.consume(unit, i, true, pop(unit));
    }
  }
}

void MatmulStream::close() {
  const VReg zero = builder_.vector(isa::Opcode::kVmov, 0.0F);
  for (std::uint32_t array = 0; array < units_.arrays; ++array) builder_.matmul(array, zero);
  for (std::uint32_t array = 0; array < units_.arrays; ++array) builder_.pop_result(array);
}

}  // namespace tpu::compiler
