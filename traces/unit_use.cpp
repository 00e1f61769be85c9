#include "traces/unit_use.h"

namespace tpu::traces {

const char* unit_name(isa::UnitKind unit) {
  static const std::array<const char*, static_cast<std::size_t>(isa::UnitKind::kCount)> kNames{
      "scalar ALU", "branch", "VALU", "VLD", "VST",  "CMEM",
      "MXU",        "XLU",    "EUP",  "DMA", "sync", "trace"};
  return kNames.at(static_cast<std::size_t>(unit));
}

isa::Latencies unit_latencies(const MachineParams& params) {
  isa::Latencies latencies;
  latencies.mxu_interval_cycles = MxuParams::push_interval_cycles;
  latencies.xlu_interval_cycles = params.core.xlu_interval_cycles;
  return latencies;
}

}  // namespace tpu::traces
