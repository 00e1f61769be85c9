#pragma once

#include "models/params.h"
#include "sim/config/compiler_target.h"

namespace tpu::test {

using config::target_of;

/// The published v2-8 beside the default parameters, which are v3-8.
inline MachineParams v2_8() {
  MachineParams params;
  params.name = "v2-8";
  params.chip = "v2";
  params.clock_mhz = 700;
  params.core.mxu.count = 1;
  params.hbm.gib = 16;
  params.hbm.pin_mbps = 1400;
  params.ici.link_mbps = 496000;
  return params;
}

}  // namespace tpu::test
