#include "traces/bundle_recorder.h"

#include <algorithm>
#include <cstdio>

#include "isa/disassembler.h"
#include "isa/opcode_table.h"

namespace tpu::traces {

/// A wait comes in pieces, one behind the other; the longest one names it.
void BundleRecorder::on_wait(std::uint32_t core, CoreState reason, std::uint64_t begin,
                             std::uint64_t end) {
  const auto [found, first] = waits_.try_emplace(core, Wait{begin, end, reason});
  Wait& wait = found->second;
  if (first) return;
  if (wait.end != begin) {
    wait = {begin, end, reason};
    return;
  }
  if (end - begin > wait.end - wait.begin) wait.reason = reason;
  wait.end = end;
}

void BundleRecorder::on_bundles(const IssuedBundles& bundles) {
  if (bundles.cycle >= window_.second) return;
  const isa::Kernel& kernel = program_.kernels[bundles.kernel];
  std::uint64_t cycle = bundles.cycle;
  for (std::uint32_t b = bundles.first; b < bundles.end && cycle < window_.second; ++b) {
    const isa::Bundle& bundle = kernel.bundles[b];
    if (cycle >= window_.first) {
      if (log_.bundles.size() == kMostBundles) {
        ++log_.left_out;
      } else {
        const auto wait = waits_.find(bundles.core);
        BundleEvent event;
        event.core = bundles.core;
        event.op = bundles.op;
        event.cycle = cycle;
        event.delay = bundle.delay;
        event.result = result_cycles(kernel, bundle);
        event.text = text_of(bundles.kernel, b);
        event.kernel = bundles.kernel;
        event.number = b;
        if (wait != waits_.end() && wait->second.end == cycle) {
          event.waited = cycle - wait->second.begin;
          event.reason = wait->second.reason;
        }
        log_.bundles.push_back(event);
      }
    }
    cycle += 1 + bundle.delay;
  }
}

std::uint32_t BundleRecorder::text_of(std::uint32_t kernel, std::uint32_t bundle) {
  const auto [found, first] =
      text_numbers_.try_emplace({kernel, bundle}, static_cast<std::uint32_t>(log_.texts.size()));
  if (first) {
    const isa::Kernel& code = program_.kernels[kernel];
    char number[16];
    std::snprintf(number, sizeof number, " 0x%x: ", bundle);
    log_.texts.push_back(code.name + number + isa::format_bundle(code, code.bundles[bundle]));
  }
  return found->second;
}

/// Until the last result of the bundle may be read or popped.
std::uint32_t BundleRecorder::result_cycles(const isa::Kernel& kernel,
                                            const isa::Bundle& bundle) const {
  isa::Latencies latencies;
  latencies.xlu_cycles = params_.core.xlu_latency_cycles;
  latencies.eup_cycles = params_.core.eup_latency_cycles;
  std::uint32_t most = 0;
  for (const isa::Instruction* i = kernel.begin(bundle); i != kernel.end(bundle); ++i) {
    const isa::OpcodeInfo& row = isa::info(i->opcode);
    const bool multiplies = row.queue == isa::Queue::kMxuResult && !row.pops;
    most = std::max(most, row.pops     ? 1
                          : multiplies ? params_.core.mxu.latency_cycles(0)
                                       : isa::result_latency(i->opcode, latencies));
  }
  return most;
}

void BundleRecorder::forget() {
  log_ = {};
  text_numbers_.clear();
  waits_.clear();
}

BundleLog BundleRecorder::take() {
  std::stable_sort(log_.bundles.begin(), log_.bundles.end(),
                   [](const BundleEvent& a, const BundleEvent& b) { return a.cycle < b.cycle; });
  return std::move(log_);
}

}  // namespace tpu::traces
