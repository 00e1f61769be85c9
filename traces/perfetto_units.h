#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isa/program.h"
#include "models/machine.h"
#include "models/params.h"
#include "traces/perfetto_file.h"
#include "traces/unit_use.h"

namespace tpu::traces {

/// What the units of each core do in a window of cycles, written into a Perfetto trace while the
/// run goes on: a slice for each bundle and the delay behind it, and one for each of its
/// instructions on the track of its unit, as long as the unit is busy with it: until it takes the
/// next one of its kind (8 cycles of an MXU or the XLU for a push, a cycle elsewhere). Pops and
/// pushes of weights have tracks of their own. A guarded instruction is drawn whether its predicate
/// holds or not. Of cores that are simulated as one, the one has the tracks. Memory does not grow
/// with the slices, of which there are kMostSlices.
class PerfettoUnits {
 public:
  static constexpr std::uint64_t kMostSlices = 10'000'000;

  /// Program and parameters have to outlive it.
  PerfettoUnits(std::string path, const isa::Program& program, const MachineParams& params,
                std::pair<std::uint64_t, std::uint64_t> window,
                std::uint64_t most_slices = kMostSlices);

  void on_bundles(const IssuedBundles& bundles);
  /// The run begins again: so does the file.
  void forget();
  /// Ends what is under way; then the trace takes the rest of the run.
  PerfettoFile& finish();

  std::uint64_t slices() const { return slices_; }
  std::uint64_t left_out() const { return left_out_; }  ///< Bundles of the window.

 private:
  using TrackId = PerfettoWriter::TrackId;
  /// A slice whose end is not written yet: the next one on the track may cut it short.
  struct Track {
    TrackId id = 0;
    std::uint64_t end = 0;
    bool open = false;
  };
  using Key = std::pair<std::uint32_t, UnitSlot>;  ///< Core; of its bundles: unit kCount.

  void write_bundle(const IssuedBundles& bundles, std::uint32_t number, std::uint64_t cycle);
  void write_instructions(const isa::Kernel& kernel, const isa::Bundle& bundle, std::uint32_t core,
                          std::uint64_t cycle);
  Track& track_of(const Key& key);
  void slice(Track& track, std::uint64_t begin, std::uint64_t end, std::string_view name,
             std::string_view category, const std::vector<PerfettoWriter::Argument>& arguments);
  void close(Track& track, std::uint64_t at);
  const std::string& code_of(std::uint32_t kernel, std::uint32_t bundle);

  const std::string path_;
  const isa::Program& program_;
  const MachineParams& params_;
  const std::pair<std::uint64_t, std::uint64_t> window_;
  const std::uint64_t most_slices_;
  isa::Latencies latencies_;
  std::optional<PerfettoFile> file_;
  std::map<Key, Track> tracks_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::string> codes_;
  std::map<std::pair<isa::Opcode, std::uint8_t>, std::string> names_;
  std::uint64_t slices_ = 0, left_out_ = 0;
};

}  // namespace tpu::traces
