#pragma once

#include <string_view>

#include "workloads/graph/graph.h"

namespace tpu::hlo {

/// Reads an HloModuleProto, or the HloProto or HloSnapshot around one, in protobuf's wire format.
/// Field numbers are those of xla/service/hlo.proto and xla/xla_data.proto. The module is the one
/// that reading XLA's text of it gives, with the metadata that short text leaves out.
///
/// Throws WorkloadError with byte and field for bytes that are no such message, for ids that
/// nothing has, cycles and recursion.
Module read_hlo_proto(std::string_view file, std::string_view bytes);

}  // namespace tpu::hlo
