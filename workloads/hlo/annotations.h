#pragma once

#include <string>

#include "workloads/graph/graph.h"

namespace tpu::hlo {

/// The first annotation that cuts an array over devices in a module whose shapes are still those of
/// all devices together, as "instruction \"x\" with sharding={devices=[8,1]<=[8]}"; empty when
/// there is none. XLA's SPMD partitioner names what it made "..._spmd", where parameters and
/// results keep their annotations beside the shapes of one device.
std::string unpartitioned_annotation(const Module& module);

}  // namespace tpu::hlo
