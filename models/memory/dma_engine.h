#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "isa/core_state.h"
#include "isa/dma_descriptor.h"
#include "models/code_place.h"
#include "models/core/knowledge.h"
#include "models/core/scalar_unit.h"
#include "models/core/sync_flags.h"
#include "models/core/transfer_overlap.h"
#include "models/machine.h"
#include "models/memory/granule_view.h"
#include "models/memory/hbm_model.h"
#include "models/memory/memory_image.h"
#include "models/network/ici_message.h"
#include "models/params.h"
#include "models/wait_graph.h"

namespace tpu {

class DmaEngine;

/// What a DMA moves.
struct DmaPayload {
  std::vector<std::uint32_t> words;  ///< Empty where all of it is unknown.
  std::uint32_t granule_words = MemoryImage::kGranuleWords;
  std::vector<Origin> origins;  ///< Per granule; empty with values on: all of it is known.
  struct Input {
    std::uint32_t offset = 0;  ///< Its first granule.
    MemoryImage::InputPart part;
  };
  std::vector<Input> inputs;  ///< What goes by name, in order: `words` has nothing of it.

  Origin origin(std::uint32_t granule) const {
    return origins.empty() ? Origin() : origins[granule];
  }
  const std::uint32_t* granule(std::uint32_t number) const;
  /// The input that a granule is part of, from that granule on.
  std::optional<MemoryImage::InputPart> input_at(std::uint32_t number) const;
  /// How many granules from `first` on, at most `most`, have the same origin, up to an input.
  std::uint32_t same_origin(std::uint32_t first, std::uint32_t most) const;

 private:
  std::vector<Input>::const_iterator behind(std::uint32_t number) const;
};

/// A DMA between two cores, known at both ends.
struct RemoteDma {
  std::uint64_t id = 0;  ///< Of its source engine.
  DmaEngine* source_engine = nullptr;
  std::uint32_t source_core = 0;  ///< Number in the slice.
  isa::DmaDescriptor descriptor;
  UnknownAddresses unknown;
  CodePlace place;
  MemberDestinations destinations;
  std::uint64_t begin = 0;
  std::uint32_t op = 0;       ///< That it belongs to, in TransferOverlap.
  std::uint32_t leaves = 0;   ///< Its way out of the source, in WaitGraph.
  std::uint32_t arrives = 0;  ///< And to the destination.
  std::uint32_t messages = 0;
  std::uint32_t read = 0;     ///< Messages whose data is out of the source memory.
  std::uint32_t left = 0;     ///< Messages that have left the source.
  std::uint32_t landed = 0;   ///< Messages that have reached the destination's engine.
  std::uint32_t arrived = 0;  ///< Messages whose data is in the destination memory.
  DmaPayload payload;         ///< Taken when the last message leaves.
};

/// What the DMA engine of a core is connected to.
class DmaPorts {
 public:
  virtual ~DmaPorts() = default;
  virtual void submit_hbm(const HbmRequest& request, std::uint64_t now) = 0;
  virtual void send(const IciMessage& message, std::uint64_t now) = 0;
  /// Asks for granules of the infeed queue; DmaEngine::infeed_arrived() follows.
  virtual void take_infeed(std::uint64_t granules, std::uint64_t token, std::uint64_t now) = 0;
  /// DmaEngine::outfeed_sent() follows.
  virtual void send_outfeed(std::uint64_t bytes, std::uint64_t token, std::uint64_t now) = 0;
  virtual void raise_flag(std::uint32_t flag, std::uint32_t granules, const FlagRaiser& raiser,
                          std::uint64_t now) = 0;
  virtual void note_hbm_write(std::uint64_t bytes) = 0;
  /// The core runs ahead of the machine's time, and asks the HBM what is done.
  virtual bool runs_ahead() const = 0;
  /// Nobody watches: note_dma() need not be called.
  virtual bool watched() const = 0;
  virtual void note_dma(const DmaEvent& event, const MemberDestinations& destinations) = 0;
  /// Whether a core, by chip and number in the chip, takes part in the run.
  virtual bool runs(std::uint32_t chip, std::uint32_t core) const = 0;
};

/// The DMA engines of a core. A DMA hands its whole traffic to the HBM in the cycle in which it
/// starts and takes as long as that: the channels that its granules lie in, shared with all other
/// traffic of this half, and the HBM's latency; VMEM, CMEM, SMEM and the engine itself cost
/// nothing. The flag rises when the last byte is there. A remote DMA reads, crosses the
/// interconnect and writes in messages of ici.message_kib, so that the three overlap; the source's
/// flag rises when the last message has left, the destination's when it is written. Values move
/// when the flag rises (a remote source is read when its flag rises): programs may neither change a
/// source nor read a destination before that. With values off what control may read moves: known
/// HBM into SMEM and HBM and, in kernels that are followed, known VMEM. Left out: a limit of
/// requests in flight, which no measurement shows once the channels of small chunks are modelled.
class DmaEngine : public HbmClient {
 public:
  struct Core {
    std::uint32_t chip = 0;
    std::uint32_t core = 0;
  };
  /// `data`: absent with values off, unless kernels are followed; then there is `knowledge`, too.
  DmaEngine(Core core, const MachineParams& params, const isa::Program& program, MemoryImage& hbm,
            ScalarUnit& scalar, isa::CoreState* data, Knowledge* knowledge, WaitGraph& graph,
            TransferOverlap& overlap, DmaPorts& ports);

  /// Starts a DMA; returns what is wrong with it, or nothing.
  std::string start(isa::DmaDescriptor descriptor, UnknownAddresses unknown, CodePlace place,
                    const MemberDestinations& destinations, std::uint64_t now);

  void hbm_done(std::uint64_t token, std::uint64_t now) override;
  void infeed_arrived(std::uint64_t token, std::vector<std::uint32_t> words, std::uint64_t now);
  void outfeed_sent(std::uint64_t token, std::uint64_t now);
  void message_left(const IciMessage& message, std::uint64_t now);
  void message_arrived(const IciMessage& message, std::uint64_t now);

  /// The core has waited from one cycle to another.
  void core_waited(CoreState reason, std::uint64_t begin, std::uint64_t end);
  /// The account begins now; the core runs.
  void begin_account(std::uint64_t now);
  /// Cycles of the account up to `end` in which a DMA of this core is under way, and others by what
  /// the core, which finished in `finished`, did meanwhile.
  PartAccount account(std::uint64_t end, std::uint64_t finished);
  /// Its state where nothing is under way.
  void describe(StepState& state) const;
  /// No DMA that this core started is under way.
  bool idle() const { return remote_.empty() && free_.size() == local_.size(); }
  /// What is under way towards a flag of this core, for the report of a deadlock.
  std::vector<std::string> outstanding(std::uint32_t flag) const;

 private:
  struct LocalDma {
    bool active = false;
    isa::DmaDescriptor descriptor;
    UnknownAddresses unknown;
    CodePlace place;
    std::uint64_t begin = 0;
    std::uint32_t transfer = 0;        ///< Its number in WaitGraph.
    std::uint32_t parts = 0;           ///< HBM requests under way.
    std::vector<std::uint32_t> words;  ///< Out of the infeed queue.
  };

  /// A message of a remote DMA that is being read from or written to the HBM here.
  struct RemotePart {
    RemoteDma* dma = nullptr;
    bool write = false;
  };

  std::uint64_t limit(isa::MemorySpace space) const;
  void keep_inside(isa::DmaEndpoint& endpoint, std::uint32_t granules) const;
  std::string check_endpoints(const isa::DmaDescriptor& descriptor) const;
  std::string check(const isa::DmaDescriptor& descriptor) const;
  bool is_inside(const isa::DmaEndpoint& endpoint, std::uint32_t granules) const;
  std::string check_endpoint(const isa::DmaEndpoint& endpoint, std::uint32_t granules,
                             const char* which) const;
  std::string check_infeed(std::uint32_t granules);
  void send_word(const isa::DmaDescriptor& descriptor, const MemberDestinations& destinations,
                 std::uint64_t now);
  void start_remote(const isa::DmaDescriptor& descriptor, UnknownAddresses unknown, CodePlace place,
                    const MemberDestinations& destinations, std::uint64_t now);
  bool core_alone_notices(const isa::DmaDescriptor& descriptor) const;
  /// In granules.
  std::uint32_t largest_message() const;
  std::uint32_t message_granules(const RemoteDma& dma, std::uint32_t index) const;
  void submit_part(const RemotePart& part, const isa::DmaEndpoint& endpoint, std::uint32_t index,
                   std::uint64_t now);
  void send_message(RemoteDma& dma, std::uint64_t now);
  void piece_written(RemoteDma& dma, std::uint64_t now);
  void complete(std::uint64_t token, std::uint64_t now);
  void finish(const RemoteDma& dma, std::uint64_t now);
  void count_start(std::uint64_t now) { starts_.push_back(now); }
  void count_end(std::uint64_t now);
  void count_starts(std::uint64_t until);
  void count_idle(CoreState state, std::uint64_t until);
  std::uint64_t new_token();
  std::uint32_t number() const { return core_.chip * params_.cores_per_chip + core_.core; }
  std::uint32_t record_start(const isa::DmaDescriptor& descriptor);
  void note(const isa::DmaDescriptor& descriptor, const MemberDestinations& destinations,
            std::uint64_t begin, std::uint64_t end) const;

  bool values_on() const { return data_ != nullptr && knowledge_ == nullptr; }
  void move(LocalDma& dma);
  bool may_read_unwritten(CodePlace place, std::uint64_t granule) const;
  std::vector<std::uint32_t> read_source(const isa::DmaDescriptor& descriptor, CodePlace place);
  DmaPayload read_known(const isa::DmaDescriptor& descriptor, Origin address, CodePlace place);
  void deliver(const isa::DmaDescriptor& descriptor, const DmaPayload& payload, Origin address,
               CodePlace place);
  Origin look_up(isa::MemorySpace space, std::uint64_t address, std::uint32_t* words);
  void put(isa::MemorySpace space, std::uint64_t address, std::uint32_t granules,
           const std::uint32_t* words, Origin origin);
  void forget(isa::MemorySpace space, std::uint64_t address, std::uint32_t granules, Origin origin);

  const Core core_;
  const MachineParams& params_;
  const isa::Program& program_;
  MemoryImage& hbm_;
  ScalarUnit& scalar_;
  isa::CoreState* data_;
  Knowledge* knowledge_;
  WaitGraph& graph_;
  TransferOverlap& overlap_;
  DmaPorts& ports_;
  const std::uint32_t vmem_rows_;
  const std::uint64_t hbm_granules_;
  std::uint64_t hbm_bytes_;  ///< Held when somebody last counted.
  GranuleView hbm_view_;
  std::uint64_t next_start_ = 0;
  std::uint64_t infeed_taken_ = 0;  ///< Granules, of all batches.

  std::vector<LocalDma> local_;
  std::vector<std::uint64_t> free_;
  std::uint64_t remote_started_ = 0;
  std::map<std::uint64_t, std::unique_ptr<RemoteDma>> remote_;
  std::unordered_map<std::uint64_t, RemotePart> remote_parts_;  ///< By the token of their request.
  std::uint64_t submitted_parts_ = 0;
  /// Starts that the account does not know yet: where the core runs ahead of its HBM, what has
  /// ended before them turns out later.
  std::deque<std::uint64_t> starts_;
  std::uint64_t under_way_ = 0;  ///< DMAs that the account knows; if any, since counted_.
  std::uint64_t last_end_ = 0;
  std::uint64_t account_begin_ = 0;
  std::uint64_t counted_ = 0;  ///< Cycles up to this one are.
  std::uint64_t busy_cycles_ = 0;
  CycleAccount<CoreState> idle_;
};

}  // namespace tpu
