#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/core/data_path.h"
#include "models/core/scalar_lanes.h"
#include "models/core/scalar_unit.h"
#include "models/core/sequencer.h"
#include "models/core/sync_flags.h"
#include "models/core/systolic_array.h"
#include "models/core/transfer_overlap.h"
#include "models/core_classes.h"
#include "models/memory/dma_engine.h"
#include "models/ports.h"
#include "models/step_state.h"

namespace tpu {

class IciRoutes;

/// What the cores of a run have in common.
struct CoreSetup {
  const MachineParams& params;
  const isa::Program& program;
  const RunOptions& options;
  BlockTable& blocks;
  const FollowedKernels& followed;
  WaitCauses& wait_causes;
  WaitGraph& wait_graph;
  WarmUp& warm_up;
  StepRepetition& repetition;
  /// Those that take part, and which of them one stands for.
  const CoreClasses& classes;
  const IciRoutes& routes;
};

/// A TensorCore: the module around its sequencer, scalar unit, data path, sync flags and DMA
/// engines. It sleeps until the cycle of its next contact with the outside; where nothing outside
/// happens before that, it and its half of the HBM run ahead of the machine's time instead. In a
/// folded run it stands for all cores of its class.
class Core : public TimedModule,
             private CoreOutside,
             private DmaPorts,
             public IciEndpoint,
             public HostClient {
 public:
  sc_core::sc_port<HbmPort> out_hbm{"out_hbm"};
  sc_core::sc_port<IciPort> out_ici{"out_ici"};
  sc_core::sc_port<HostPort> out_host{"out_host"};
  /// With RunOptions::mxu_array; otherwise the MXUs are their fast forms in Scoreboard and
  /// DataPath.
  sc_core::sc_port<MatrixPort, 0, sc_core::SC_ZERO_OR_MORE_BOUND> out_mxu{"out_mxu"};

  Core(const sc_core::sc_module_name& name, RunClock& clock, const CoreSetup& setup,
       std::uint32_t number, MemoryImage& hbm, const CoreLoad& load);

  std::uint32_t number() const { return number_; }
  bool finished() const { return finished_; }
  std::uint64_t end_cycle() const { return sequencer_->cycle(); }
  /// The accounts of its DMA engines and of its half of the HBM end, in the cycle in which the run
  /// does: what is still under way goes on behind it.
  void end_account(std::uint64_t end);
  const PartAccount& dma_account() const { return dma_account_; }
  CoreResult result(std::uint64_t run_end);
  Sequencer& sequencer() { return *sequencer_; }
  const ScalarUnit& scalar_unit() const { return scalar_; }
  const SyncFlags& flags() const { return flags_; }
  std::vector<std::string> outstanding(std::uint32_t flag) const { return dma_->outstanding(flag); }

  void message_left(const IciMessage& message, std::uint64_t now) override;
  void message_arrived(const IciMessage& message, std::uint64_t now) override;
  void infeed_arrived(std::uint64_t token, std::vector<std::uint32_t> words,
                      std::uint64_t now) override;
  void outfeed_sent(std::uint64_t token, std::uint64_t now) override;

 private:
  void tick() override;
  bool next_contact();
  bool wait_ahead();
  std::optional<std::uint64_t> next_of_hbm(std::uint32_t flag) const;
  void start_of_simulation() override;
  void load_smem(const CoreLoad& load);
  void set_lanes();
  void set_smem(std::uint64_t word, std::uint32_t value);

  std::string start_dma(const isa::DmaDescriptor& descriptor, UnknownAddresses unknown,
                        CodePlace place, const MemberDestinations& destinations,
                        std::uint64_t now) override;
  void begin_next_step(std::size_t steps) override;
  void end_step();
  void begin_account(std::uint64_t now) override;
  void waited(CoreState reason, std::uint64_t begin, std::uint64_t end) override {
    dma_->core_waited(reason, begin, end);
  }
  void catch_up(std::uint64_t now) override;
  void executes(std::uint32_t op, std::uint64_t now) override { overlap_.runs(op, now); }
  std::string add_to_remote_flag(std::uint32_t remote_address, std::uint32_t value,
                                 const MemberDestinations& destinations,
                                 std::uint64_t now) override;

  void submit_hbm(const HbmRequest& request, std::uint64_t now) override;
  void send(const IciMessage& message, std::uint64_t now) override;
  void take_infeed(std::uint64_t granules, std::uint64_t token, std::uint64_t now) override;
  void send_outfeed(std::uint64_t bytes, std::uint64_t token, std::uint64_t now) override;
  void raise_flag(std::uint32_t flag, std::uint32_t granules, const FlagRaiser& raiser,
                  std::uint64_t now) override;
  void note_hbm_write(std::uint64_t bytes) override;
  bool runs_ahead() const override { return runs_ahead_; }
  bool watched() const override { return setup_.options.observer != nullptr; }
  void note_dma(const DmaEvent& event, const MemberDestinations& destinations) override;
  bool runs(std::uint32_t chip, std::uint32_t core) const override;

  const CoreSetup setup_;
  const std::uint32_t number_;
  const std::uint32_t chip_;
  const std::uint32_t core_;  ///< Of the chip.
  MemoryImage& hbm_;
  const bool begins_alike_;  ///< Each step begins with the same inputs.
  /// Nobody looks at single DMAs, or at data; the slow twin (interpret) does not.
  const bool runs_ahead_;
  ScalarUnit scalar_;
  SyncFlags flags_;
  std::optional<ScalarLanes> lanes_;  ///< When this core stands for others, too.
  std::vector<std::unique_ptr<SystolicArray>> arrays_;
  std::unique_ptr<DataPath> data_;  ///< With values, or where kernels are followed without.
  TransferOverlap overlap_;
  std::unique_ptr<DmaEngine> dma_;
  PartAccount dma_account_;  ///< Of the whole run, when it has ended.
  std::unique_ptr<Sequencer> sequencer_;
  std::uint32_t steps_ = 0;  ///< That have ended and count.
  bool finished_ = false;
  std::uint64_t cycle_ = 0;  ///< That the core acts in: the machine's, or ahead of it.
  bool acts_ = false;        ///< tick() is running.
  std::uint32_t ticks_ = 0;
};

}  // namespace tpu
