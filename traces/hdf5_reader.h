#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "traces/hdf5_file.h"

namespace tpu::traces {

/// Reads the HDF5 data of a file, which is trusted in nothing: what is not of the form that
/// write_hdf5() gives is a WorkloadError. Only hard links to groups, tables and byte arrays are
/// followed, each object once, a few levels deep; their data have to be in the file itself, as the
/// filters of the HDF5 library pack them, and no larger than UnpackLimit allows.
/// `image` stays unchanged.
Hdf5Contents read_hdf5_image(std::vector<std::uint8_t>& image, const std::string& file);

}  // namespace tpu::traces
