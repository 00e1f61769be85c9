#include "isa/buffer_lifetimes.h"

#include <gtest/gtest.h>

namespace tpu::isa::buffer_lifetimes_test {
namespace {

Buffer buffer(const std::string& name, BufferRole role, std::uint64_t granule) {
  Buffer made;
  made.name = name;
  made.role = role;
  made.granule = granule;
  made.bytes = 2048;
  return made;
}

/// The op in the name of a buffer makes it; a temporary lives until another one is made in its
/// place, an output to the end, and what no op makes from the first one on.
TEST(BufferLifetimes, ABufferLivesFromTheOpInItsNameToTheNextInItsPlace) {
  std::vector<OpInfo> ops(4);
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i].name = "op." + std::to_string(i);
  const std::vector<Lifetime> lifetimes = overwritten_lifetimes(
      ops, {buffer("w", BufferRole::kParameter, 0), buffer("op.1{0}", BufferRole::kTemporary, 8),
            buffer("op.3", BufferRole::kTemporary, 9), buffer("op.2@1", BufferRole::kOutput, 16),
            buffer("nobody's", BufferRole::kTemporary, 32)});
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> expected{
      {0, 3}, {1, 2}, {3, 3}, {2, 3}, {0, 3}};
  ASSERT_EQ(lifetimes.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(lifetimes[i].first_op, expected[i].first) << i;
    EXPECT_EQ(lifetimes[i].last_op, expected[i].second) << i;
  }
}

}  // namespace
}  // namespace tpu::isa::buffer_lifetimes_test
