#include "isa/dma_descriptor.h"

#include <gtest/gtest.h>

#include <random>

#include "sim/base/error.h"

namespace tpu::isa::dma_descriptor_test {
namespace {

DmaDescriptor hbm_to_vmem() {
  DmaDescriptor d;
  d.source = {3, 1, MemorySpace::kHbm, 0x12345, 64, 32};
  d.destination = {3, 1, MemorySpace::kVmem, 0x400, 32, 32};
  d.granules = 2048;
  d.destination_flag = 34;
  return d;
}

TEST(DmaDescriptor, LocalWordsAreThoseOfTheListings) {
  const DmaWords expected = {0x400,
                             3u << 19 | 1u << 16 | 4u << 8,
                             32u << 16 | 32u,
                             0x12345,
                             3u << 19 | 1u << 16 | 2u << 8,
                             64u << 16 | 32u,
                             0x01400800,
                             0x1c00u | 34u};
  EXPECT_EQ(encode(hbm_to_vmem()), expected);
}

TEST(DmaDescriptor, RemoteWordsCarryTheReceiversFlagTwice) {
  DmaDescriptor d = hbm_to_vmem();
  d.remote = true;
  d.source_flag = 35;
  d.destination.chip = 2;
  const DmaWords to_vmem = encode(d);
  EXPECT_EQ(to_vmem[1], 2u << 19 | 1u << 16 | (64u + 34u) << 8);
  EXPECT_EQ(to_vmem[6], 0x81400800u);
  EXPECT_EQ(to_vmem[7], 1u << 30 | 35u << 10 | 34u);
  d.destination.space = MemorySpace::kHbm;
  EXPECT_EQ(encode(d)[1], 2u << 19 | 1u << 16 | 34u << 8);
}

TEST(DmaDescriptor, DecodingInvertsEncodingForRandomDescriptors) {
  std::mt19937 engine(1);
  const auto random = [&engine] { return static_cast<std::uint32_t>(engine()); };
  for (int i = 0; i < 2000; ++i) {
    DmaDescriptor d;
    d.remote = random() % 2 != 0;
    for (DmaEndpoint* end : {&d.source, &d.destination}) {
      *end = {random() % 8192, random() % 8,     MemorySpace::kHbm,
              random(),        random() % 65536, random() % 65536};
    }
    const bool up = random() % 2 != 0;
    d.source.space = up ? MemorySpace::kVmem : MemorySpace::kHbm;
    d.destination.space = up ? MemorySpace::kHbm : MemorySpace::kVmem;
    if (d.remote && random() % 2 != 0) d.destination.space = d.source.space;
    d.granules = random() % (1 << 20);
    d.destination_flag = random() % (d.remote ? 64 : 1024);
    d.source_flag = d.remote ? random() % 1024 : 7;
    EXPECT_EQ(decode(encode(d)), d);
  }
}

TEST(DmaDescriptor, EveryWordThatDecodesEncodesToItself) {
  std::mt19937 random(2);
  int decoded = 0;
  for (int i = 0; i < 20000; ++i) {
    DmaWords words = encode(hbm_to_vmem());
    for (int flips = static_cast<int>(random() % 4); flips >= 0; --flips) {
      words[random() % 8] ^= 1u << random() % 32;
    }
    try {
      const DmaDescriptor d = decode(words);
      ++decoded;
      EXPECT_EQ(encode(d), words);
    } catch (const ProgramFault&) {
    }
  }
  EXPECT_GT(decoded, 1000);
}

TEST(DmaDescriptor, WordsThatAreNoDescriptorAreFaultsThatNameTheWord) {
  const auto fault = [](std::size_t index, std::uint32_t word) -> std::string {
    DmaWords words = encode(hbm_to_vmem());
    words[index] = word;
    try {
      decode(words);
    } catch (const ProgramFault& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(fault(1, 0x500).find("DMA descriptor: expected code 2 (HBM) or 4 (VMEM) in word 1, "
                                 "found 0x500 (words 0x400 0x500 "),
            0u);
  EXPECT_NE(fault(1, 0x401).find("in word 1"), std::string::npos);
  EXPECT_NE(fault(4, 0x400).find("HBM to VMEM or VMEM to HBM"), std::string::npos);
  EXPECT_NE(fault(6, 0x02400001).find("in word 6, found 0x2400001"), std::string::npos);
  EXPECT_NE(fault(7, 34).find("expected 0x1c00 | destination flag in word 7"), std::string::npos);
  EXPECT_NE(fault(6, 0x81400800).find("in word 7"), std::string::npos);
  DmaWords zeros{};
  EXPECT_THROW(decode(zeros), ProgramFault);
}

TEST(DmaDescriptor, AFieldThatDoesNotFitIsABugOfTheCaller) {
  DmaDescriptor d = hbm_to_vmem();
  d.granules = 1 << 20;
  EXPECT_THROW(encode(d), SimulatorBug);
  d = hbm_to_vmem();
  d.source.stride = 65536;
  EXPECT_THROW(encode(d), SimulatorBug);
  d = hbm_to_vmem();
  d.destination.space = MemorySpace::kSmem;
  EXPECT_THROW(encode(d), SimulatorBug);
  d = hbm_to_vmem();
  d.remote = true;
  d.destination_flag = 64;
  EXPECT_THROW(encode(d), SimulatorBug);
}

}  // namespace
}  // namespace tpu::isa::dma_descriptor_test
