#pragma once

#include <cstddef>
#include <cstdint>

namespace tpu::traces {

/// Reads of the header of an object in an HDF5 image what the library trusts before anybody can ask
/// it: HDF5 1.10 takes as much memory as a header says that it goes on for, and divides by the
/// extents of chunks where a dataset is opened, and copies elements of the size that a chunk has
/// into those of the type. The form is that of files that tpusim writes: a
/// superblock of version 0 at the begin, headers of version 1 (HDF5 File Format Specification 3.0,
/// II.A, IV.A.1.a, IV.A.2.i). Throws Hdf5Failure for another form, for a header that goes on beyond
/// the image, and for a chunk without elements or with others than the type's.
void check_object_header(const std::uint8_t* image, std::size_t bytes, std::uint64_t address);
/// The superblock, and the header of the root, which the library reads where it opens a file:
/// before any other object.
void check_root_header(const std::uint8_t* image, std::size_t bytes);

}  // namespace tpu::traces
