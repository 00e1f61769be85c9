#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "isa/execute.h"
#include "models/core/knowledge.h"
#include "models/core/matrix_port.h"
#include "models/core/scalar_unit.h"
#include "models/params.h"

namespace tpu {

/// The data side of a core: registers, VMEM and the results in the queues, as isa::execute_bundle
/// computes them. It follows the sequencer bundle by bundle and has no time of its own; DMAs and
/// sync flags are the sequencer's, so here they only pass by. With values off it executes the
/// slices of the kernels that are followed, and knows what of its data is known.
class DataPath : private isa::Surroundings {
 public:
  DataPath(const isa::Program& program, const MachineParams& params, std::uint32_t chip,
           std::uint32_t core, bool check_names);
  DataPath(const isa::Program& program, const MachineParams& params, std::uint32_t chip,
           std::uint32_t core, const FollowedKernels& followed);

  /// With values off, else null.
  Knowledge* knowledge() { return knowledge_ ? &*knowledge_ : nullptr; }
  const Knowledge* knowledge() const { return knowledge_ ? &*knowledge_ : nullptr; }

  isa::CoreState& state() { return state_; }
  const isa::CoreState& state() const { return state_; }

  /// The value that a vsyncmov of the next bundle reads.
  void set_sync_flag(std::uint32_t value) { sync_flag_ = value; }
  void execute(std::uint32_t kernel, std::uint32_t bundle, std::uint64_t cycle);
  /// Systolic arrays that compute in place of the state's own.
  void use_arrays(const std::vector<MatrixPort*>& arrays) { arrays_ = arrays; }
  /// The two halves of a bundle of a followed kernel: before the scalar unit executes it, and
  /// after.
  void prepare_followed(std::uint32_t kernel, std::uint32_t bundle, ScalarUnit& scalar);
  void execute_followed(std::uint32_t kernel, std::uint32_t bundle);
  /// What the data side thinks of the next bundle's control, to compare.
  isa::ControlRequest control(std::uint32_t kernel, std::uint32_t bundle) const;
  void enter(const isa::CallSite& site, std::uint32_t caller);
  void return_to(std::uint32_t kernel, std::uint32_t from);

 private:
  void start_dma(const isa::DmaDescriptor&) override {}
  void add_to_sync_flag(std::uint32_t, std::uint32_t) override {}
  void add_to_remote_sync_flag(std::uint32_t, std::uint32_t) override {}
  std::uint32_t sync_flag(std::uint32_t) override { return sync_flag_; }
  isa::MatrixUnit* matrix_unit(std::uint8_t unit) override {
    return unit < arrays_.size() ? arrays_[unit] : nullptr;
  }
  const isa::NameCheck* names(std::uint32_t kernel) const;

  const isa::Program& program_;
  isa::CoreState state_;
  bool check_names_;
  const FollowedKernels* followed_ = nullptr;
  std::optional<Knowledge> knowledge_;
  std::deque<isa::NameCheck> names_;
  std::uint32_t sync_flag_ = 0;
  std::vector<MatrixPort*> arrays_;
};

}  // namespace tpu
