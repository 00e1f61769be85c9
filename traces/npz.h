#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/unpack_limit.h"
#include "workloads/graph/shape.h"

namespace tpu::traces {

/// One array of a .npz file: elements in row-major order, little-endian. A scalar has no
/// dimensions.
struct NpzArray {
  hlo::ElementType type = hlo::ElementType::kF32;
  std::vector<std::int64_t> dimensions;
  std::vector<std::uint8_t> bytes;

  std::int64_t element_count() const;
};

using NpzFile = std::map<std::string, NpzArray>;

/// Reads a .npz file (zip of .npy members, versions 1 to 3), as numpy.savez and savez_compressed
/// write it. bfloat16 is the type that numpy with ml_dtypes stores: '<V2'. Arrays in Fortran order
/// become row-major. Throws WorkloadError with file and member for anything that is no such file:
/// cut, wrong checksum, big-endian, object arrays, more bytes than the limit.
NpzFile read_npz(const std::string& path, const UnpackLimit& limit = {});

/// The element values as double: any numeric type.
std::vector<double> to_doubles(const NpzArray& array);

/// Writes a .npz file that numpy.load reads; the same arrays give the same bytes.
void write_npz(const std::string& path, const NpzFile& arrays);

/// One .npy image, the member format of .npz; `where` names it in errors.
NpzArray parse_npy(const std::vector<std::uint8_t>& image, const std::string& where);
std::vector<std::uint8_t> npy_image(const NpzArray& array);

}  // namespace tpu::traces
