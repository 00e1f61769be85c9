#pragma once

#include <cstdint>
#include <deque>

#include "isa/execute.h"
#include "models/params.h"

namespace tpu {

/// The data side of a core with values on: registers, VMEM and the results in the queues, as
/// isa::execute_bundle computes them. It follows the sequencer bundle by bundle and has no time of
/// its own; DMAs and sync flags are the sequencer's, so here they only pass by.
class DataPath : private isa::Surroundings {
 public:
  DataPath(const isa::Program& program, const MachineParams& params, std::uint32_t chip,
           std::uint32_t core, bool check_names);

  isa::CoreState& state() { return state_; }
  const isa::CoreState& state() const { return state_; }

  /// The value that a vsyncmov of the next bundle reads.
  void set_sync_flag(std::uint32_t value) { sync_flag_ = value; }
  void execute(std::uint32_t kernel, std::uint32_t bundle);
  /// What the data side thinks of the next bundle's control, to compare.
  isa::ControlRequest control(std::uint32_t kernel, std::uint32_t bundle) const;
  void enter(const isa::CallSite& site, std::uint32_t caller);

 private:
  void start_dma(const isa::DmaDescriptor&) override {}
  void add_to_sync_flag(std::uint32_t, std::uint32_t) override {}
  void add_to_remote_sync_flag(std::uint32_t, std::uint32_t) override {}
  std::uint32_t sync_flag(std::uint32_t) override { return sync_flag_; }
  const isa::NameCheck* names(std::uint32_t kernel) const;

  const isa::Program& program_;
  isa::CoreState state_;
  bool check_names_;
  std::deque<isa::NameCheck> names_;
  std::uint32_t sync_flag_ = 0;
};

}  // namespace tpu
