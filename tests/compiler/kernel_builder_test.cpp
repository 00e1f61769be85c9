#include "workloads/compiler/codegen/kernel_builder.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/compiler/kernel_harness.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"

namespace tpu::test::kernel_builder_test {
namespace {

using compiler::KernelBuilder;
using compiler::SReg;
using compiler::SVariable;
using compiler::Target;
using compiler::VmemAddress;
using compiler::VmemRegion;
using compiler::VReg;
using compiler::VVariable;
using isa::Opcode;

constexpr std::uint32_t kTileWords = 1024;

std::vector<std::uint32_t> random_floats(std::size_t count, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-2.0F, 2.0F);
  std::vector<std::uint32_t> words(count);
  for (std::uint32_t& word : words) word = compiler::float_bits(uniform(engine));
  return words;
}

float as_float(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Brings `tiles` tiles of 8x128 in, runs the body on them, and takes as many out.
template <class Body>
KernelHarness::Result run_on_tiles(std::uint32_t tiles, const std::vector<std::uint32_t>& input,
                                   std::vector<std::uint32_t>* output, Body&& body,
                                   Target target = {}) {
  KernelHarness harness(target);
  KernelBuilder builder("test", target);
  const VmemRegion in = builder.allocate_vmem(8 * tiles);
  const VmemRegion out = builder.allocate_vmem(8 * tiles);
  const std::uint32_t flag = builder.allocate_flag();
  const SReg source = builder.operand(0);
  const SReg destination = builder.operand(1);
  builder.dma_in(source, in, 4 * tiles, flag);
  builder.wait(flag, 4 * tiles);
  body(builder, in, out);
  builder.dma_out(out, destination, 4 * tiles, flag);
  builder.wait(flag, 4 * tiles);
  const isa::Kernel kernel = builder.finish();
  const std::uint32_t from = harness.place(input);
  const std::uint32_t to = harness.reserve(std::uint64_t{tiles} * 4096);
  const KernelHarness::Result result = harness.run(kernel, {from, to});
  *output = harness.read(to, std::uint64_t{tiles} * kTileWords);
  return result;
}

TEST(KernelBuilder, StraightCodeComputesOnTiles) {
  const auto input = random_floats(4 * kTileWords, 1);
  std::vector<std::uint32_t> output;
  run_on_tiles(4, input, &output, [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
    for (int i = 0; i < 4; ++i) {
      const VReg x = b.load({in, 8 * i});
      b.store({out, 8 * i}, b.add(b.mul(x, x), 1.0F));
    }
  });
  for (std::size_t i = 0; i < output.size(); ++i) {
    const float x = as_float(input[i]);
    const float square = x * x;
    ASSERT_EQ(as_float(output[i]), square + 1.0F) << i;
  }
}

/// A sum over the rows is read from any of them, and compared with what another kernel makes of it.
TEST(CombineSublanes, AllRowsRoundAlike) {
  const auto input = random_floats(kTileWords, 5);
  std::vector<std::uint32_t> output;
  run_on_tiles(1, input, &output, [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
    b.store(out, combine_sublanes(b, hlo::HloOpcode::kAdd, false, b.load(in)));
  });
  for (std::size_t i = 128; i < output.size(); ++i) ASSERT_EQ(output[i], output[i % 128]) << i;
}

TEST(KernelBuilder, UnrolledTilesReachOneLoadAndStorePerCycle) {
  const std::uint32_t tiles = 200;
  const auto input = random_floats(tiles * kTileWords, 2);
  std::vector<std::uint32_t> output;
  const auto result =
      run_on_tiles(tiles, input, &output, [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
        for (int i = 0; i < static_cast<int>(tiles); ++i) {
          const VReg x = b.load({in, 8 * i});
          b.store({out, 8 * i}, b.add(x, x));
        }
      });
  // One tile per cycle, and a few cycles for the DMAs and the way through the pipeline.
  EXPECT_GE(result.cycles, tiles);
  EXPECT_LE(result.cycles, tiles + 16);
  EXPECT_EQ(as_float(output[5]), 2 * as_float(input[5]));
}

TEST(KernelBuilder, MoreSumsThanRegistersAreDelayedNotLost) {
  const std::uint32_t tiles = 64;
  const auto input = random_floats(tiles * kTileWords, 3);
  std::vector<std::uint32_t> output;
  run_on_tiles(tiles, input, &output, [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
    for (int i = 0; i < static_cast<int>(tiles); ++i) {
      VReg sum = b.load({in, 8 * i});
      for (int k = 1; k < 8; ++k) sum = b.add(sum, b.load({in, 8 * ((i + k) % 64)}));
      b.store({out, 8 * i}, sum);
    }
  });
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    float sum = as_float(input[tile * kTileWords + 7]);
    for (std::size_t k = 1; k < 8; ++k) {
      sum += as_float(input[(tile + k) % tiles * kTileWords + 7]);
    }
    ASSERT_EQ(as_float(output[tile * kTileWords + 7]), sum) << tile;
  }
}

/// Forty products that live at once.
void keep_forty_products(KernelBuilder& builder, VmemRegion in, VmemRegion out) {
  std::vector<VReg> sums;
  for (int i = 0; i < 40; ++i) {
    sums.push_back(builder.transcendental(Opcode::kVtanhF32, builder.load({in, 8 * i})));
  }
  for (int i = 0; i < 40; ++i) builder.store({out, 8 * i}, sums[static_cast<std::size_t>(39 - i)]);
}

TEST(KernelBuilder, ValuesThatFindNoRegisterWaitInVmem) {
  const auto input = random_floats(40 * kTileWords, 3);
  std::vector<std::uint32_t> output;
  run_on_tiles(40, input, &output, keep_forty_products);
  for (std::size_t tile = 0; tile < 40; ++tile) {
    for (std::size_t i = 0; i < kTileWords; ++i) {
      ASSERT_NEAR(as_float(output[tile * kTileWords + i]),
                  std::tanh(as_float(input[(39 - tile) * kTileWords + i])), 1e-6);
    }
  }
}

TEST(KernelBuilder, MasksThatFindNoRegisterWaitInVmem) {
  const std::uint32_t tiles = 30;
  const auto input = random_floats(tiles * kTileWords, 4);
  std::vector<std::uint32_t> output;
  run_on_tiles(tiles, input, &output, [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
    std::vector<compiler::MReg> masks;
    for (int i = 0; i < 30; ++i) {
      // Computed from the result of a queue: not as late as its reader allows.
      const VReg x = b.transcendental(Opcode::kVtanhF32, b.load({in, 8 * i}));
      masks.push_back(b.vector_compare(Opcode::kVcmpGtF32, x, 0.0F));
    }
    for (int i = 0; i < 30; ++i) {
      b.store({out, 8 * i}, b.select(masks[static_cast<std::size_t>(29 - i)], 1.0F, 2.0F));
    }
  });
  for (std::size_t i = 0; i < output.size(); ++i) {
    const std::size_t tile = i / kTileWords, from = (tiles - 1 - tile) * kTileWords;
    ASSERT_EQ(as_float(output[i]), as_float(input[from + i % kTileWords]) > 0 ? 1.0F : 2.0F) << i;
  }
}

TEST(KernelBuilder, TooManyLiveValuesAreNoKernelWhereNoneMayWait) {
  KernelBuilder builder("greedy", Target{});
  const VmemRegion in = builder.allocate_vmem(8 * 40);
  keep_forty_products(builder, in, in);
  EXPECT_FALSE(builder.try_finish());
}

TEST(KernelBuilder, TooManyValuesAcrossBlocksAreReportedByName) {
  KernelBuilder builder("greedy", Target{});
  const VmemRegion in = builder.allocate_vmem(8 * 40);
  std::vector<VReg> values;
  for (int i = 0; i < 40; ++i) values.push_back(builder.load({in, 8 * i}));
  builder.new_block();
  for (int i = 0; i < 40; ++i) builder.store({in, 8 * i}, values[static_cast<std::size_t>(i)]);
  try {
    builder.finish();
    FAIL() << "40 values fit 32 registers";
  } catch (const SimulatorBug& bug) {
    EXPECT_NE(std::string(bug.what()).find("greedy"), std::string::npos);
  }
}

TEST(KernelBuilder, NestedLoopsSeeTheirIndices) {
  const std::uint32_t tiles = 24;
  const auto input = random_floats(tiles * kTileWords, 4);
  std::vector<std::uint32_t> output;
  run_on_tiles(tiles, input, &output, [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
    b.loop(6, [&](SReg i) {
      const SReg row = b.shift_left(i, 5);
      b.loop(4, [&](SReg j) {
        const SReg column = b.shift_left(j, 3);
        const VReg x = b.load({in, 0, row, column});
        const VReg scaled = b.vector(Opcode::kVcvtS32F32, b.splat(b.add(b.shift_left(i, 4), j)));
        b.store({out, 0, row, column}, b.add(x, scaled));
      });
    });
  });
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    const auto number = static_cast<float>(tile / 4 * 16 + tile % 4);
    ASSERT_EQ(as_float(output[tile * kTileWords]), as_float(input[tile * kTileWords]) + number);
  }
}

TEST(KernelBuilder, VariablesCarryValuesOverIterations) {
  const std::uint32_t tiles = 16;
  const auto input = random_floats(tiles * kTileWords, 5);
  std::vector<std::uint32_t> output;
  run_on_tiles(tiles, input, &output, [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
    const VVariable sum = b.vector_variable(0.0F);
    const VVariable previous = b.vector_variable(0.0F);
    b.loop(16, [&](SReg i) {
      const SReg row = b.shift_left(i, 3);
      const VReg before = b.get(sum);
      b.store({out, 0, row}, b.get(previous));
      b.set(sum, b.add(before, b.load({in, 0, row})));
      b.set(previous, before);
    });
  });
  // Tile i holds the sum of the first i - 1 tiles.
  float sum = 0;
  std::vector<float> sums{0};
  for (std::size_t i = 0; i < tiles; ++i) {
    ASSERT_EQ(as_float(output[i * kTileWords + 9]), i == 0 ? 0.0F : sums[i - 1]) << i;
    sum += as_float(input[i * kTileWords + 9]);
    sums.push_back(sum);
  }
}

/// A shift register: each variable takes the one before it, and the first to be moved is read last
/// of all. What is moved into the second waits until the first has taken its old value.
TEST(KernelBuilder, VariablesThatFollowEachOtherMoveInTurn) {
  const std::uint32_t tiles = 16;
  const auto input = random_floats(tiles * kTileWords, 8);
  std::vector<std::uint32_t> output;
  run_on_tiles(tiles, input, &output, [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
    const VVariable third = b.vector_variable(0.0F);
    const VVariable second = b.vector_variable(0.0F);
    const VVariable first = b.vector_variable(0.0F);
    b.loop(16, [&](SReg i) {
      const SReg row = b.shift_left(i, 3);
      const VReg x = b.get(third), y = b.get(second), z = b.get(first);
      const VReg late = b.transcendental(Opcode::kVtanhF32, b.load({in, 0, row}));
      b.store({out, 0, row}, b.add(late, x));
      b.set(third, y);
      b.set(second, z);
      b.set(first, b.load({in, 0, row}));
    });
  });
  for (std::size_t i = 0; i < tiles; ++i) {
    const float before = i < 3 ? 0.0F : as_float(input[(i - 3) * kTileWords + 5]);
    ASSERT_NEAR(as_float(output[i * kTileWords + 5]),
                before + std::tanh(as_float(input[i * kTileWords + 5])), 1e-5)
        << i;
  }
}

/// A word of a table in SMEM, found by a register; a product with nothing is nothing.
TEST(KernelBuilder, WordsOfSmemAreFoundBehindARegister) {
  const std::uint32_t tiles = 4;
  const auto input = random_floats(tiles * kTileWords, 9);
  std::vector<std::uint32_t> output;
  run_on_tiles(tiles, input, &output, [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
    for (std::uint32_t i = 0; i < 4; ++i) b.store_smem(600 + i, b.constant(8 * (3 - i)));
    b.loop(4, [&](SReg i) {
      const SReg to = b.load_smem(600, i);
      b.store({out, 0, b.add(to, b.mul(i, 0))}, b.load({in, 0, b.shift_left(i, 3)}));
    });
  });
  for (std::size_t i = 0; i < tiles; ++i) {
    ASSERT_EQ(output[(3 - i) * kTileWords + 3], input[i * kTileWords + 3]) << i;
  }
}

/// VMEM that is full has no place where values could wait: no kernel that writes behind its end.
TEST(KernelBuilder, ValuesThatWaitNeedAPlaceInVmem) {
  for (const bool has_room : {true, false}) {
    Target target;
    target.vmem_bytes = (has_room ? 640ULL : 328ULL) * isa::kVmemRowBytes;
    KernelBuilder builder("greedy", target);
    const VmemRegion in = builder.allocate_vmem(8 * 40);
    keep_forty_products(builder, in, in);
    if (has_room) {
      // Each value that waits takes eight rows behind those of the kernel.
      const std::uint64_t rows = builder.finish().vmem_bytes / isa::kVmemRowBytes;
      EXPECT_GT(rows, 8u * 40);
      EXPECT_LE(rows, 640u);
      EXPECT_EQ(rows % 8, 0u);
    } else {
      EXPECT_THROW(builder.finish(), SimulatorBug);
    }
  }
}

/// A value that was read from a variable is the variable's register: a loop that reads the value,
/// be it in its first block, and sets the variable would find another one in its second trip.
TEST(KernelBuilder, AValueOfAVariableThatALoopSetsIsReported) {
  for (const bool sets : {false, true}) {
    Target target;
    KernelBuilder builder("stale", target);
    const VmemRegion out = builder.allocate_vmem(8);
    const SVariable variable = builder.scalar_variable(1);
    builder.if_(builder.less(2, builder.get(variable)), [&] { builder.set(variable, 2); });
    const SReg value = builder.get(variable);
    builder.loop(3, [&](SReg i) {
      builder.store({out, 0}, builder.splat(builder.add(value, i)));
      if (sets) builder.set(variable, builder.add(i, 5));
    });
    if (sets) {
      EXPECT_THROW(builder.finish(), SimulatorBug);
    } else {
      EXPECT_NO_THROW(builder.finish());
    }
  }
}

TEST(KernelBuilder, BranchesSkipTheirBody) {
  const std::uint32_t tiles = 8;
  const auto input = random_floats(tiles * kTileWords, 6);
  std::vector<std::uint32_t> output;
  run_on_tiles(tiles, input, &output, [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
    b.loop(8, [&](SReg i) {
      const SReg row = b.shift_left(i, 3);
      b.store({out, 0, row}, b.load({in, 0, row}));
      b.if_(b.equal(b.and_(i, 1), 1), [&] { b.store({out, 0, row}, 0.0F); });
      b.guarded(b.less(5, i), [&] { b.store({out, 0, row}, 7.0F); });
    });
  });
  for (std::size_t i = 0; i < tiles; ++i) {
    const float expected = i > 5 ? 7.0F : i % 2 == 1 ? 0.0F : as_float(input[i * kTileWords]);
    ASSERT_EQ(as_float(output[i * kTileWords]), expected) << i;
  }
}

TEST(KernelBuilder, StoresAndLoadsOfOneTileKeepTheirOrder) {
  const auto input = random_floats(2 * kTileWords, 7);
  std::vector<std::uint32_t> output;
  run_on_tiles(2, input, &output, [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
    const VReg first = b.load({in, 0});
    b.store({in, 0}, b.load({in, 8}));
    const VReg second = b.load({in, 0});
    b.store({in, 0}, 3.0F);
    b.store({out, 0}, first);
    b.store({out, 8}, second);
  });
  EXPECT_EQ(output[11], input[11]);
  EXPECT_EQ(output[kTileWords + 11], input[kTileWords + 11]);
}

TEST(KernelBuilder, MatmulsOfAnUnrolledBlockFollowEveryEightCycles) {
  const std::uint32_t tiles = 64;
  const auto input = random_floats((tiles + 16) * kTileWords, 8);
  std::vector<std::uint32_t> output;
  const auto result =
      run_on_tiles(tiles + 16, input, &output, [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
        for (int k = 15; k >= 0; --k) {
          const VReg rows = b.load(VmemAddress(in, 8 * 64 + 8 * k + 7).stride(-1));
          b.push_weights(0, rows);
          b.push_weights(1, rows);
        }
        b.swap_weights(0);
        b.swap_weights(1);
        for (int i = 0; i < 32; ++i) {
          for (std::uint32_t mxu : {0U, 1U}) {
            b.matmul(mxu, b.load({in, 8 * (2 * i + static_cast<int>(mxu))}));
          }
          for (std::uint32_t mxu : {0U, 1U}) {
            b.store({out, 8 * (2 * i + static_cast<int>(mxu))}, b.pop_result(mxu));
          }
        }
        for (int i = 64; i < 80; ++i) b.store({out, 8 * i}, 0.0F);
      });
  EXPECT_EQ(result.matmuls, 64U);
  // 16 weight pushes, then 32 pushes per MXU, all eight cycles apart, then the last result.
  const std::uint64_t bound = 8 * 16 + 8 * 31 + 105;
  EXPECT_GE(result.cycles, bound);
  EXPECT_LE(result.cycles, bound + 24);
  float expected = 0;
  const auto rounded = [](std::uint32_t word) {
    return as_float((word + 0x7fff + (word >> 16 & 1)) & 0xffff0000U);
  };
  for (std::size_t k = 0; k < 128; ++k) {
    expected += rounded(input[5 * kTileWords + 128 * 3 + k]) *
                rounded(input[(64 + k / 8) * kTileWords + k % 8 * 128 + 77]);
  }
  EXPECT_EQ(as_float(output[5 * kTileWords + 128 * 3 + 77]), expected);
}

TEST(KernelBuilder, MxuResultsMayWaitForTheNextIteration) {
  const std::uint32_t tiles = 64;
  const auto input = random_floats((tiles + 16) * kTileWords, 9);
  std::vector<std::uint32_t> output;
  const auto body = [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
    for (int k = 15; k >= 0; --k) {
      b.push_weights(0, b.load(VmemAddress(in, 8 * 64 + 8 * k + 7).stride(-1)));
    }
    b.swap_weights(0);
    for (int i = 0; i < 16; ++i) b.matmul(0, b.load({in, 8 * i}));
    b.loop(3, [&](SReg chunk) {
      const SReg row = b.shift_left(chunk, 7);
      for (int i = 0; i < 16; ++i) {
        b.matmul(0, b.load({in, 128 + 8 * i, row}));
        b.store({out, 8 * i, row}, b.pop_result(0));
      }
    });
    for (int i = 0; i < 16; ++i) b.store({out, 8 * (48 + i)}, b.pop_result(0));
    for (int i = 64; i < 80; ++i) b.store({out, 8 * i}, 0.0F);
  };
  const auto result = run_on_tiles(tiles + 16, input, &output, body);
  EXPECT_EQ(result.matmuls, 64U);
  const std::uint64_t bound = 8 * 16 + 8 * 63 + 105;
  EXPECT_LE(result.cycles, bound + 4 * 12 + 16);
  std::vector<std::uint32_t> straight;
  run_on_tiles(tiles + 16, input, &straight, [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
    for (int k = 15; k >= 0; --k) {
      b.push_weights(0, b.load(VmemAddress(in, 8 * 64 + 8 * k + 7).stride(-1)));
    }
    b.swap_weights(0);
    for (int i = 0; i < 64; ++i) {
      b.matmul(0, b.load({in, 8 * i}));
      b.store({out, 8 * i}, b.pop_result(0));
    }
    for (int i = 64; i < 80; ++i) b.store({out, 8 * i}, 0.0F);
  });
  EXPECT_EQ(output, straight);
}

TEST(KernelBuilder, UnequalQueuesAtALoopsEndsAreReported) {
  Target target;
  KernelBuilder builder("uneven", target);
  const VmemRegion in = builder.allocate_vmem(8);
  builder.loop(3, [&](SReg) { builder.matmul(0, builder.load({in, 0})); });
  EXPECT_THROW(builder.finish(), SimulatorBug);
}

TEST(KernelBuilder, QueuesOfTheOtherUnitsKeepTheirOrder) {
  const std::uint32_t tiles = 24;
  const auto input = random_floats(tiles * kTileWords, 10);
  std::vector<std::uint32_t> output;
  run_on_tiles(tiles, input, &output, [](KernelBuilder& b, VmemRegion in, VmemRegion out) {
    for (int i = 0; i < 24; ++i) {
      const VReg x = b.load({in, 8 * i});
      const VReg sum = b.lane_sum(x);
      const VReg power = b.transcendental(Opcode::kVpow2F32, x);
      const VReg turned = b.rotate_lanes(x, 3);
      b.store({out, 8 * i}, b.add(b.add(sum, power), turned));
    }
  });
  for (std::size_t i = 0; i < tiles; ++i) {
    for (std::size_t row : {0U, 7U}) {
      double sum = 0;
      for (std::size_t lane = 0; lane < 128; ++lane) {
        sum += as_float(input[i * kTileWords + row * 128 + lane]);
      }
      const std::size_t at = i * kTileWords + row * 128 + 20;
      const double expected = sum + std::exp2(as_float(input[at])) + as_float(input[at - 3]);
      ASSERT_NEAR(as_float(output[at]), expected, 1e-3) << i;
    }
  }
}

TEST(KernelBuilder, StridedDmaMovesTiles) {
  Target target;
  KernelHarness harness(target);
  KernelBuilder builder("strided", target);
  const VmemRegion space = builder.allocate_vmem(16);
  const std::uint32_t flag = builder.allocate_flag();
  const SReg source = builder.operand(0);
  const SReg destination = builder.operand(1);
  // Two tiles out of two rows of three tiles each.
  const auto in = builder.descriptor(true, {4, 2, 12});
  const auto out = builder.descriptor(false, {8});
  builder.loop(3, [&](SReg column) {
    builder.start(in, builder.add(source, builder.shift_left(column, 2)), space, flag);
    builder.wait(flag, 8);
    builder.start(out, builder.add(destination, builder.shift_left(column, 3)), space, flag, 8);
    builder.wait(flag, 8);
  });
  const isa::Kernel kernel = builder.finish();
  const auto input = random_floats(6 * kTileWords, 11);
  const std::uint32_t from = harness.place(input);
  const std::uint32_t to = harness.reserve(6 * 4096);
  for (DmaTiming timing : {DmaTiming::kAtOnce, DmaTiming::kLate}) {
    harness.run(kernel, {from, to}, timing);
    const auto output = harness.read(to, 6 * kTileWords);
    for (std::size_t column = 0; column < 3; ++column) {
      for (std::size_t row = 0; row < 2; ++row) {
        for (std::size_t i = 0; i < kTileWords; i += 101) {
          ASSERT_EQ(output[(2 * column + row) * kTileWords + i],
                    input[(3 * row + column) * kTileWords + i]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tpu::test::kernel_builder_test
