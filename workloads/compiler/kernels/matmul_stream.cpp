#include "workloads/compiler/kernels/matmul_stream.h"

#include <algorithm>

#include "sim/base/error.h"

namespace tpu::compiler {

MatmulStream::MatmulStream(KernelBuilder& builder, std::uint32_t mxus, std::uint32_t pushes)
    : builder_(builder), mxus_(mxus), pushes_(pushes) {
  const Target& target = builder.target();
  const std::uint32_t in_flight = (target.matmul_latency_cycles + target.push_interval_cycles - 1) /
                                  target.push_interval_cycles;
  lag_ = std::min({pushes, in_flight + 1, target.result_queue_entries - 1});
}

void MatmulStream::push_weights(const Step& step, std::uint32_t j) {
  for (std::uint32_t mxu = 0; mxu < mxus_; ++mxu) {
    builder_.push_weights(mxu, step.next_weights(mxu, j), step.transposed);
  }
}

void MatmulStream::begin(const Step& step) {
  for (std::uint32_t j = 0; j < kWeightPushes; ++j) push_weights(step, j);
  const VReg zero = builder_.vector(isa::Opcode::kVmov, 0.0F);
  for (std::uint32_t mxu = 0; mxu < mxus_; ++mxu) builder_.swap_weights(mxu);
  for (std::uint32_t i = 0; i < lag_; ++i) {
    for (std::uint32_t mxu = 0; mxu < mxus_; ++mxu) builder_.matmul(mxu, zero);
  }
}

void MatmulStream::step(const Step& step) {
  TPU_CHECK(step.pushes == pushes_, "a step of another length than its stream");
  std::deque<std::pair<std::uint32_t, bool>> pending;
  for (std::uint32_t i = pushes_ - lag_; i < pushes_; ++i) pending.emplace_back(i, true);
  std::uint32_t weights = 0;
  for (std::uint32_t i = 0; i < pushes_; ++i) {
    for (std::uint32_t mxu = 0; mxu < mxus_; ++mxu) {
      builder_.matmul(mxu, step.rows(mxu, i), i + 1 == pushes_);
    }
    const std::uint32_t due = (kWeightPushes * (i + 1) + pushes_ - 1) / pushes_;
    for (; weights < due; ++weights) push_weights(step, weights);
    pending.emplace_back(i, false);
    const auto [result, previous] = pending.front();
    pending.pop_front();
    for (std::uint32_t mxu = 0; mxu < mxus_; ++mxu) {
      step.consume(mxu, result, previous, builder_.pop_result(mxu));
    }
  }
}

void MatmulStream::end(const Step& step) {
  for (std::uint32_t i = pushes_ - lag_; i < pushes_; ++i) {
    for (std::uint32_t mxu = 0; mxu < mxus_; ++mxu) {
      step.consume(mxu, i, true, builder_.pop_result(mxu));
    }
  }
}

void MatmulStream::close() {
  const VReg zero = builder_.vector(isa::Opcode::kVmov, 0.0F);
  for (std::uint32_t mxu = 0; mxu < mxus_; ++mxu) builder_.matmul(mxu, zero);
  for (std::uint32_t mxu = 0; mxu < mxus_; ++mxu) builder_.pop_result(mxu);
}

}  // namespace tpu::compiler
