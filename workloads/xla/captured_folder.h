#pragma once

#include <optional>
#include <string>
#include <vector>

#include "isa/listing/listing_reader.h"
#include "isa/program.h"
#include "workloads/graph/graph.h"

namespace tpu::xla {

/// True for the path of a file that a captured folder consists of, with what is measured of it.
bool is_captured_file(const std::string& path);

/// True for a folder that holds listings of XLA's TPU compiler for any chip.
bool is_captured_folder(const std::string& path);

/// The path of the HLO before optimisation in a captured folder; empty where there is none. Of a
/// module that is there as a protobuf and as text the protobuf: a text may lack scopes and source
/// lines.
std::string hlo_before_optimisation(const std::string& folder);

/// The scheduled module beside the listings of a captured folder; none where it is among them.
std::optional<hlo::Module> scheduled_module(const std::string& folder, const std::string& chip);

/// The files that load_captured() reads, those of a folder of listings in the order of their names.
/// Throws WorkloadError where there are no listings for the chip.
std::vector<std::string> files_of_program(const std::string& folder, const std::string& chip);

/// Reads a captured folder (`{v2,v3}.bundles.tar.xz` or `{v2,v3}.bundles/`,
/// `{v2,v3}.scheduled.hlo.gz`) and links it into one program: kernels[0] is the top-level program.
///
/// Memory of a core's half of the HBM, in granules from 1 on: parameters in their order, outputs
/// that share no parameter's range, the table of output addresses (tuples), constants, temporaries
/// at the offsets that the compiler gave them, scratch of kernels. The windows at fixed addresses
/// that the multi-core launch uses are buffers of zeros.
///
/// Throws WorkloadError, `file:line:column: expected ..., found ...`.
isa::Program load_captured(const std::string& folder, const std::string& chip,
                           isa::CodeNames names = isa::CodeNames::kAll);

}  // namespace tpu::xla
