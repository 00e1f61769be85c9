#include <gtest/gtest.h>

#include <random>

#include "isa/listing/listing_reader.h"
#include "sim/base/error.h"
#include "tests/spoil.h"
#include "workloads/xla/listing_files.h"

namespace tpu::test::listing_fuzz_test {
namespace {

const std::string kMlp = TPUSIM_SOURCE_DIR "/workloads/captured/mlp";

/// Reads a text that may be spoilt: it is a listing, or it is refused in one line with a place.
bool is_read_or_refused(const std::string& text, const std::string& packed) {
  try {
    isa::read_listing(text, "f.txt", isa::PackedListing::read(packed, "p.txt"), {0x400, 32});
    return true;
  } catch (const WorkloadError& error) {
    const std::string what = error.what();
    const bool placed = what.compare(0, 6, "f.txt:") == 0 || what.compare(0, 6, "p.txt:") == 0;
    EXPECT_TRUE(placed) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    EXPECT_LT(what.size(), 400u) << what;
    return false;
  }
}

TEST(ListingFuzz, SpoiltListingsAreReadOrRefusedInOneLine) {
  const xla::ListingFiles files = xla::read_listing_files(kMlp + "/v3.bundles.tar.xz");
  std::mt19937 random(20261121);
  int refused = 0;
  int runs = 0;
  for (const auto& [name, kernel] : files.kernels) {
    ASSERT_TRUE(is_read_or_refused(kernel.final_bundles.text, kernel.packed.text)) << name;
    for (int k = 0; k < 100; ++k) {
      const bool listing = random() % 4 != 0;
      const std::string text =
          listing ? spoil(kernel.final_bundles.text, random) : kernel.final_bundles.text;
      const std::string packed = listing ? kernel.packed.text : spoil(kernel.packed.text, random);
      refused += is_read_or_refused(text, packed) ? 0 : 1;
      ++runs;
    }
  }
  EXPECT_GT(refused, runs / 4);
}

TEST(ListingFuzz, ByteSoupIsRefused) {
  std::mt19937 random(42);
  for (int k = 0; k < 200; ++k) {
    std::string soup(random() % 4096, '\0');
    for (char& c : soup) c = static_cast<char>(random());
    EXPECT_FALSE(is_read_or_refused(soup, soup));
    EXPECT_FALSE(is_read_or_refused("= control target key start\n= control target key end\n" + soup,
                                    "$region0:\n"));
  }
}

}  // namespace
}  // namespace tpu::test::listing_fuzz_test
