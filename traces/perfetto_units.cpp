#include "traces/perfetto_units.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <vector>

#include "isa/disassembler.h"

namespace tpu::traces {
namespace {

/// Behind the tracks of a core that come from its events.
constexpr std::uint32_t kFirstRank = 1000;

}  // namespace

PerfettoUnits::PerfettoUnits(std::string path, const isa::Program& program,
                             const MachineParams& params,
                             std::pair<std::uint64_t, std::uint64_t> window,
                             std::uint64_t most_slices)
    : path_(std::move(path)),
      program_(program),
      params_(params),
      window_(window),
      most_slices_(most_slices) {
  latencies_ = unit_latencies(params);
  file_.emplace(path_, params_);
}

void PerfettoUnits::forget() {
  tracks_.clear();
  slices_ = left_out_ = 0;
  file_.emplace(path_, params_);
}

void PerfettoUnits::on_bundles(const IssuedBundles& bundles) {
  if (bundles.cycle >= window_.second) return;
  const isa::Kernel& kernel = program_.kernels[bundles.kernel];
  std::uint64_t cycle = bundles.cycle;
  for (std::uint32_t b = bundles.first; b < bundles.end && cycle < window_.second; ++b) {
    if (cycle >= window_.first) {
      if (slices_ >= most_slices_) {
        ++left_out_;
      } else {
        write_bundle(bundles, b, cycle);
      }
    }
    cycle += 1 + kernel.bundles[b].delay;
  }
}

void PerfettoUnits::write_bundle(const IssuedBundles& bundles, std::uint32_t number,
                                 std::uint64_t cycle) {
  const isa::Kernel& kernel = program_.kernels[bundles.kernel];
  const isa::Bundle& bundle = kernel.bundles[number];
  Track& sequencer = track_of({bundles.core, {isa::UnitKind::kCount, 0, UnitPort::kInstructions}});
  slice(sequencer, cycle, cycle + 1, kernel.name, "bundle",
        {{"bundle", std::uint64_t{number}},
         {"code", PerfettoWriter::Interned{code_of(bundles.kernel, number)}}});
  if (bundle.delay > 0) {
    slice(sequencer, cycle + 1, cycle + 1 + bundle.delay, "delay", "bundle", {});
  }
  write_instructions(kernel, bundle, bundles.core, cycle);
}

void PerfettoUnits::write_instructions(const isa::Kernel& kernel, const isa::Bundle& bundle,
                                       std::uint32_t core, std::uint64_t cycle) {
  visit_unit_uses(kernel, bundle, latencies_,
                  [&](const UnitSlot& slot, const isa::Instruction& i, std::uint32_t cycles) {
                    std::string& name = names_[{i.opcode, i.unit}];
                    if (name.empty()) name = isa::opcode_text(i.opcode, i.unit);
                    slice(track_of({core, slot}), cycle, cycle + cycles, name, "instruction", {});
                  });
}

PerfettoUnits::Track& PerfettoUnits::track_of(const Key& key) {
  static const std::array<const char*, 3> kPorts{" instructions", " pops", " weights"};
  Track& track = tracks_[key];
  if (track.id != 0) return track;
  const auto& [core, slot] = key;
  const bool is_sequencer = slot.unit == isa::UnitKind::kCount;
  std::string name = is_sequencer
                         ? "bundles"
                         : std::string(unit_name(slot.unit)) + " " + std::to_string(slot.number) +
                               kPorts.at(static_cast<std::size_t>(slot.port));
  const std::uint32_t rank =
      kFirstRank + (is_sequencer ? 0
                                 : 16 * (1 + static_cast<std::uint32_t>(slot.unit)) +
                                       4 * slot.number + static_cast<std::uint32_t>(slot.port));
  track.id = file_->writer().add_track(name, file_->core(core), rank);
  return track;
}

void PerfettoUnits::slice(Track& track, std::uint64_t begin, std::uint64_t end,
                          std::string_view name, std::string_view category,
                          const std::vector<PerfettoWriter::Argument>& arguments) {
  close(track, begin);
  file_->writer().begin_slice(track.id, file_->nanoseconds(begin), name, category, arguments, {});
  track.end = end;
  track.open = true;
  ++slices_;
}

void PerfettoUnits::close(Track& track, std::uint64_t at) {
  if (!track.open) return;
  file_->writer().end_slice(track.id, file_->nanoseconds(std::min(track.end, at)));
  track.open = false;
}

const std::string& PerfettoUnits::code_of(std::uint32_t kernel, std::uint32_t bundle) {
  std::string& code = codes_[{kernel, bundle}];
  if (code.empty()) {
    const isa::Kernel& of = program_.kernels[kernel];
    code = isa::format_bundle(of, of.bundles[bundle]);
  }
  return code;
}

PerfettoFile& PerfettoUnits::finish() {
  for (auto& [key, track] : tracks_) close(track, track.end);
  return *file_;
}

}  // namespace tpu::traces
