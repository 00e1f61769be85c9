#include "traces/vcd.h"

#include <algorithm>
#include <map>
#include <vector>

#include "isa/disassembler.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "traces/core_events.h"
#include "traces/unit_use.h"

namespace tpu::traces {
namespace {

/// The code of a signal: printable letters, the shortest first.
std::string code_of(std::size_t number) {
  constexpr std::size_t kFirst = 33, kLetters = 94;
  std::string code;
  do {
    code += static_cast<char>(kFirst + number % kLetters);
    number /= kLetters;
  } while (number > 0);
  return code;
}

/// A text without blanks and control characters, which a string value can't have.
std::string word(std::string_view text) {
  std::string clean;
  for (const char letter : text) {
    clean += letter > ' ' && letter < 127 ? letter : '_';
  }
  return clean.empty() ? "-" : clean;
}

std::string binary(std::uint64_t value) {
  std::string digits;
  do {
    digits.insert(digits.begin(), static_cast<char>('0' + (value & 1)));
    value >>= 1;
  } while (value > 0);
  return digits;
}

/// Collects the changes of all signals and writes them in the order of time.
class Dump {
 public:
  explicit Dump(const Window& window) : window_(window) {}

  /// Declares a signal; `type` is "string 1" or "wire 32".
  std::string signal(const std::string& type, const std::string& name) {
    std::string code = code_of(signals_++);
    header_ += "    $var " + type + " " + code + " " + name + " $end\n";
    return code;
  }
  void open(const std::string& scope) { header_ += "  $scope module " + scope + " $end\n"; }
  void close() { header_ += "  $upscope $end\n"; }

  /// The value from a cycle on; the last one of a cycle holds.
  void change(std::uint64_t cycle, const std::string& code, const std::string& value) {
    if (cycle >= window_.end) return;
    changes_[std::max(cycle, window_.begin)][code] = value;
  }

  std::string text(std::uint64_t mhz, std::uint64_t last_cycle) const {
    const auto time = [&](std::uint64_t cycle) {
      return "#" + std::to_string(cycle / mhz * 1000000 + cycle % mhz * 1000000 / mhz) + "\n";
    };
    std::string text = "$timescale 1ps $end\n$scope module tpu $end\n" + header_ +
                       "$upscope $end\n$enddefinitions $end\n";
    std::map<std::string, std::string> values;
    for (const auto& [cycle, changed] : changes_) {
      std::string lines;
      for (const auto& [code, value] : changed) {
        std::string& old = values[code];
        if (old == value) continue;
        old = value;
        lines += value + " " + code + "\n";
      }
      if (!lines.empty()) text += time(cycle) + lines;
    }
    return text + time(std::min(window_.end, last_cycle));
  }

 private:
  Window window_;
  std::size_t signals_ = 0;
  std::string header_;
  std::map<std::uint64_t, std::map<std::string, std::string>> changes_;
};

/// "mxu0", "mxu0_weights", "valu1".
std::string signal_name(const UnitSlot& slot) {
  std::string name;
  for (const char letter : std::string(unit_name(slot.unit))) {
    name += letter == ' ' ? '_' : static_cast<char>(letter | 0x20);
  }
  name += std::to_string(slot.number);
  return name + (slot.port == UnitPort::kPops      ? "_pops"
                 : slot.port == UnitPort::kWeights ? "_weights"
                                                   : "");
}

/// A signal for each unit and slot of a core that its bundles use.
void dump_units(const MachineParams& params, const UnitBundles& units, std::uint32_t core,
                Dump& dump) {
  struct Use {
    std::uint64_t begin = 0, end = 0;
    std::string name;
  };
  std::map<UnitSlot, std::vector<Use>> slots;
  const isa::Latencies latencies = unit_latencies(params);
  for (const BundleEvent& event : units.log->bundles) {
    if (event.core != core) continue;
    const isa::Kernel& kernel = units.program->kernels[event.kernel];
    visit_unit_uses(kernel, kernel.bundles[event.number], latencies,
                    [&](const UnitSlot& slot, const isa::Instruction& i, std::uint32_t cycles) {
                      slots[slot].push_back(
                          {event.cycle, event.cycle + cycles, isa::opcode_text(i.opcode, i.unit)});
                    });
  }
  for (const auto& [slot, uses] : slots) {
    const std::string code = dump.signal("string 1", signal_name(slot));
    dump.change(units.log->bundles.front().cycle, code, "s-");
    for (std::size_t i = 0; i < uses.size(); ++i) {
      dump.change(uses[i].begin, code, "s" + word(uses[i].name));
      const bool goes_on = i + 1 < uses.size() && uses[i + 1].begin <= uses[i].end;
      if (!goes_on) dump.change(uses[i].end, code, "s-");
    }
  }
}

/// The signals of one core; `begin`: where events begin.
void dump_core(const RunRecord& record, std::size_t core, const UnitBundles& units,
               std::uint64_t begin, Dump& dump) {
  const CoreEvents events = core_events(record, core);
  dump.open("core" + std::to_string(events.number));
  const std::string step = dump.signal("wire 32", "step"), op = dump.signal("string 1", "op"),
                    wait = dump.signal("string 1", "waits_for"),
                    dmas = dump.signal("wire 32", "dmas_on_their_way"),
                    bytes = dump.signal("wire 64", "bytes_on_their_way");
  if (units.log != nullptr) dump_units(record.params, units, events.number, dump);
  dump.close();
  for (const std::string& text : {op, wait}) dump.change(begin, text, "s-");
  for (const std::string& number : {dmas, bytes}) dump.change(begin, number, "b0");
  for (std::size_t i = 0; i < events.result->steps.size(); ++i) {
    dump.change(events.result->steps[i].begin, step, "b" + binary(i));
  }
  for (const OpEvent* each : events.ops) dump.change(each->end, op, "s-");
  for (const OpEvent* each : events.ops) {
    dump.change(each->begin, op, "s" + word(record.ops[each->op].name));
  }
  for (const WaitEvent* each : events.waits) dump.change(each->end, wait, "s-");
  for (const WaitEvent* each : events.waits) {
    dump.change(each->begin, wait, "s" + word(wait_name(each->reason)));
  }
  std::map<std::uint64_t, std::pair<std::int64_t, std::int64_t>> under_way;
  for (const DmaEvent* dma : events.dmas) {
    const auto size = static_cast<std::int64_t>(dma->bytes);
    under_way[dma->begin].first += 1;
    under_way[dma->begin].second += size;
    under_way[dma->end].first -= 1;
    under_way[dma->end].second -= size;
  }
  std::int64_t count = 0, total = 0;
  for (const auto& [cycle, difference] : under_way) {
    count += difference.first;
    total += difference.second;
    dump.change(cycle, dmas, "b" + binary(static_cast<std::uint64_t>(count)));
    dump.change(cycle, bytes, "b" + binary(static_cast<std::uint64_t>(total)));
  }
}

/// Events are of the steps that count alone; a run without steps has them from its first cycle on.
std::uint64_t begin_of_events(const RunRecord& record) {
  std::vector<std::uint64_t> begins;
  for (const CoreResult& core : record.result.cores) {
    if (!core.steps.empty()) begins.push_back(core.steps.front().begin);
  }
  return begins.empty() ? 0 : *std::min_element(begins.begin(), begins.end());
}

void check_window(const RunRecord& record, const Window& window) {
  const std::uint64_t begin = begin_of_events(record);
  if (window.begin < record.result.cycles && window.end > begin) return;
  throw UsageError("--window: expected cycles of the steps that count, " + std::to_string(begin) +
                   " to " + std::to_string(record.result.cycles) + ", found " +
                   std::to_string(window.begin) + " to " + std::to_string(window.end));
}

}  // namespace

void export_vcd(const RunRecord& record, const Window& window, const std::string& path,
                const UnitBundles& units) {
  check_events(record);
  check_window(record, window);
  OutputFile file(path);
  Dump dump(window);
  for (std::size_t core = 0; core < record.result.cores.size(); ++core) {
    dump_core(record, core, units, begin_of_events(record), dump);
  }
  file.write(dump.text(record.params.clock_mhz, record.result.cycles));
  file.commit();
}

}  // namespace tpu::traces
