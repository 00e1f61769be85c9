#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "traces/hdf5_file.h"

namespace tpu::traces {

/// Reads the HDF5 data of a file, which is trusted in nothing: what is not of the form that
/// write_hdf5() gives is a WorkloadError. Only hard links to groups, tables and byte arrays are
/// followed, each object once, a few levels deep; their data have to be in the file itself, as the
/// filters of the HDF5 library pack them, and no larger than UnpackLimit allows.
/// The library reads the image where it is, without a copy of its own; it stays unchanged.
Hdf5Contents read_hdf5_image(std::uint8_t* image, std::size_t bytes, const std::string& file);

}  // namespace tpu::traces
