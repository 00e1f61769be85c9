#include "sim/base/error.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/one_input.h"
#include "traces/npz.h"

/// An archive, or the image of one array: read or refused; what was read can be written.
void tpu::fuzz::one_input(const std::uint8_t* data, std::size_t size) {
  using namespace tpu::traces;
  static tpu::fuzz::MemoryFile file;
  try {
    if (size > 2 && data[0] == 'P' && data[1] == 'K') {
      file.set(data, size);
      for (const auto& [name, array] : read_npz(file.path())) {
        if (array.element_count() < 100000) to_doubles(array);
      }
      return;
    }
    const NpzArray array = parse_npy({data, data + size}, "f.npy");
    const NpzArray again = parse_npy(npy_image(array), "again.npy");
    if (again.bytes != array.bytes || again.dimensions != array.dimensions) std::abort();
  } catch (const tpu::WorkloadError&) {
  }
}
