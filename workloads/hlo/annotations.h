#pragma once

#include <string>

#include "workloads/graph/graph.h"

namespace tpu::hlo {

/// The first annotation that cuts an array over devices, or custom-call that enters a part written
/// for one of them, in a module whose shapes are still those of
/// all devices together, as "instruction \"x\" with sharding={devices=[8,1]<=[8]}"; empty when
/// there is none. XLA's SPMD partitioner names what it made "..._spmd", where parameters and
/// results keep their annotations beside the shapes of one device.
std::string unpartitioned_annotation(const Module& module);

/// Devices that run the module: as its header says, or else one more than the largest that the
/// groups of its collectives name.
std::int64_t stated_devices(const Module& module);

}  // namespace tpu::hlo
