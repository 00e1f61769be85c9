#include "isa/listing/listing_reader.h"
#include "sim/base/error.h"
#include "tests/fuzz/one_input.h"
#include "tests/fuzz/text_mutator.h"

/// The two listings of a kernel, with a line "====" between them.
void tpu::fuzz::one_input(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find("\n====\n");
  const std::string_view packed = end == std::string_view::npos ? "" : text.substr(end + 6);
  try {
    std::vector<tpu::isa::UnknownInstruction> unknown;
    tpu::isa::read_listing(text.substr(0, end), "f.txt",
                           tpu::isa::PackedListing::read(packed, "p.txt"), {0x400, 32},
                           data[0] % 2 == 0 ? &unknown : nullptr);
  } catch (const tpu::WorkloadError&) {
  }
}
