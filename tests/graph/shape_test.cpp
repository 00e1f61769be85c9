#include "workloads/graph/shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "sim/base/error.h"
#include "workloads/graph/tiled_layout.h"

namespace tpu::hlo::shape_test {
namespace {

std::string error_of(std::string_view text) {
  try {
    parse_shape(text);
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "no error";
}

template <class Element>
std::vector<std::uint8_t> bytes_of(const std::vector<Element>& values) {
  std::vector<std::uint8_t> bytes(values.size() * sizeof(Element));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class Element>
std::vector<Element> count_up(std::size_t size) {
  std::vector<Element> values(size);
  std::iota(values.begin(), values.end(), Element{1});
  return values;
}

TEST(Shape, TextIsReadAndWrittenUnchanged) {
  for (const char* text :
       {"f32[]", "f32[512,512]", "f32[512,512]{1,0:T(8,128)}", "bf16[4,8]{0,1:T(8,128)(2,1)S(1)}",
        "pred[3]{0:T(1024)(128)(4,1)}", "f32[]{:T(256)}", "s32[0,4]{1,0}", "(f32[2], s32[])", "()",
        "((bf16[1], u8[2]), token[])", "f32[2]{0:S(6)}"}) {
    EXPECT_EQ(to_string(parse_shape(text)), text);
  }
  EXPECT_EQ(to_string(parse_shape("f32[2,3]{1,0:T(8,128)}"), false), "f32[2,3]");
}

TEST(Shape, BlanksAndIndexCommentsAreReadOverAttributesOfOtherChipsKept) {
  EXPECT_EQ(to_string(parse_shape(" ( f32[ 2 ] , /*index=5*/ s32[<=3]{0:T(128)SC(0:3)L(1)} ) ")),
            "(f32[2], s32[<=3]{0:T(128)SC(0:3)L(1)})");
  EXPECT_EQ(to_string(parse_shape("f32[3,2]{0, 1:D(D,C)T(8,128)E(32)#(u32)*(u32)S(1)}")),
            "f32[3,2]{0,1:T(8,128)D(D,C)E(32)#(u32)*(u32)S(1)}");
}

TEST(Shape, AnErrorNamesTheColumnAndWhatWasExpected) {
  EXPECT_EQ(
      error_of("f33[2]"),
      "shape \"f33[2]\", column 1: expected an element type (pred, s8, ... u64, f16, bf16, f32, "
      "f64, c64, token, opaque), found \"f33[2]\"");
  EXPECT_EQ(error_of("f32[2,]"),
            "shape \"f32[2,]\", column 7: expected a dimension, a whole number, found \"]\"");
  EXPECT_EQ(error_of("f32[2"),
            "shape \"f32[2\", column 6: expected \"]\", found the end of the text");
  EXPECT_EQ(
      error_of("f32[2,3]{1,1}"),
      "shape \"f32[2,3]{1,1}\", column 12: expected each dimension number below 2 once, found "
      "\"1}\"");
  EXPECT_EQ(error_of("f32[2,3]{1}"),
            "shape \"f32[2,3]{1}\", column 10: expected 2 dimension numbers, found \"1}\"");
  EXPECT_EQ(error_of("f32[2]{0:T(0)}"),
            "shape \"f32[2]{0:T(0)}\", column 12: expected a tile extent from 1 to 1048576, found "
            "\"0)}\"");
  EXPECT_EQ(
      error_of("f32[2]{0:Q(0)}"),
      "shape \"f32[2]{0:Q(0)}\", column 10: expected T(...) for tiles or S(...) for the memory "
      "space, found \"Q(0)}\"");
  EXPECT_EQ(
      error_of("f32[9999999999,9999999999]"),
      "shape \"f32[9999999999,9999999999]\", column 5: expected dimensions of fewer than 2^63 "
      "bytes, found \"9999999999,9999999999]\"");
  EXPECT_EQ(error_of("f32[99999999999999999999]"),
            "shape \"f32[99999999999999999999]\", column 5: expected a dimension of at most "
            "9223372036854775807, found \"99999999999999999999]\"");
  EXPECT_EQ(error_of("(f32[2]"),
            "shape \"(f32[2]\", column 8: expected \")\", found the end of the text");
  EXPECT_EQ(error_of("f32[2] x"),
            "shape \"f32[2] x\", column 8: expected the end of the shape, found \"x\"");
  EXPECT_NE(error_of(std::string(100000, '(')).find("at most 64 nested tuples"), std::string::npos);
}

TEST(Shape, TextsCutAnywhereAreRefusedWithAnError) {
  const std::string text = "(f32[5,12]{1,0:T(8,128)S(1)}, bf16[3]{0:T(512)(128)(2,1)})";
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_THROW(parse_shape(text.substr(0, length)), WorkloadError) << text.substr(0, length);
  }
}

/// The short way for the usual tiles against the layout that knows all.
TEST(Shape, BytesOfTheUsualTilesAreThoseOfTheLayout) {
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    Shape shape;
    shape.type = random() % 2 == 0 ? ElementType::kF32 : ElementType::kBf16;
    const std::size_t rank = 1 + random() % 5;
    for (std::size_t d = 0; d < rank; ++d) shape.dimensions.push_back(1 + random() % 300);
    shape.layout.minor_to_major.resize(rank);
    std::iota(shape.layout.minor_to_major.begin(), shape.layout.minor_to_major.end(), 0);
    std::shuffle(shape.layout.minor_to_major.begin(), shape.layout.minor_to_major.end(), random);
    const std::vector<std::vector<std::int64_t>> tiles{{8, 128}, {4, 128}, {3, 128}, {1024}, {256}};
    shape.layout.tiles = {tiles[random() % tiles.size()]};
    if (shape.type == ElementType::kBf16) shape.layout.tiles.push_back({2, 1});
    EXPECT_EQ(shape.padded_bytes(), TiledLayout(shape).padded_elements() * byte_size(shape.type))
        << to_string(shape);
  }
}

TEST(Shape, BytesWithAndWithoutThePaddingOfTheTiles) {
  EXPECT_EQ(parse_shape("f32[9,129]{1,0:T(8,128)}").unpadded_bytes(), 9 * 129 * 4);
  EXPECT_EQ(parse_shape("f32[9,129]{1,0:T(8,128)}").padded_bytes(), 16 * 256 * 4);
  EXPECT_EQ(parse_shape("f32[9,129]{0,1:T(8,128)}").padded_bytes(), 136 * 128 * 4);
  EXPECT_EQ(parse_shape("f32[3,9,129]{2,0,1:T(8,128)}").padded_bytes(), 9 * 8 * 256 * 4);
  EXPECT_EQ(parse_shape("bf16[3,5]{1,0:T(4,128)(2,1)}").padded_bytes(), 4 * 128 * 2);
  EXPECT_EQ(parse_shape("f32[]{:T(256)}").padded_bytes(), 256 * 4);
  EXPECT_EQ(parse_shape("bf16[300]{0:T(512)(128)(2,1)}").padded_bytes(), 512 * 2);
  EXPECT_EQ(parse_shape("pred[2,3]{1,0:T(8,128)(4,1)}").padded_bytes(), 8 * 128);
  EXPECT_EQ(parse_shape("(f32[9,129]{1,0:T(8,128)}, f32[3])").padded_bytes(), 16 * 256 * 4 + 12);
  EXPECT_EQ(parse_shape("f32[0,129]{1,0:T(8,128)}").padded_bytes(), 0);
}

TEST(Pack, RowsOfAnF32TileFollowEachOtherAndTilesGoAlongTheMinorDimension) {
  const Shape shape = parse_shape("f32[16,256]{1,0:T(8,128)}");
  const std::vector<std::uint32_t> words = pack(shape, bytes_of(count_up<std::uint32_t>(16 * 256)));
  ASSERT_EQ(words.size(), 16u * 256u);
  for (std::size_t row : {0u, 1u, 7u, 8u, 15u}) {
    for (std::size_t column : {0u, 127u, 128u, 255u}) {
      const std::size_t tile = row / 8 * 2 + column / 128;
      EXPECT_EQ(words[tile * 1024 + row % 8 * 128 + column % 128], row * 256 + column + 1);
    }
  }
}

TEST(Pack, Bf16RowsShareAWordEvenRowLow) {
  const Shape shape = parse_shape("bf16[8,128]{1,0:T(8,128)(2,1)}");
  const std::vector<std::uint32_t> words = pack(shape, bytes_of(count_up<std::uint16_t>(8 * 128)));
  ASSERT_EQ(words.size(), 512u);
  for (std::size_t row = 0; row < 8; row += 2) {
    for (std::size_t column : {0u, 5u, 127u}) {
      const std::uint32_t low = static_cast<std::uint32_t>(row * 128 + column + 1);
      EXPECT_EQ(words[row / 2 * 128 + column], low | (low + 128) << 16);
    }
  }
}

TEST(Pack, Bf16VectorsPairElements128Apart) {
  const Shape shape = parse_shape("bf16[512]{0:T(512)(128)(2,1)}");
  const std::vector<std::uint32_t> words = pack(shape, bytes_of(count_up<std::uint16_t>(512)));
  ASSERT_EQ(words.size(), 256u);
  EXPECT_EQ(words[0], 1u | 129u << 16);
  EXPECT_EQ(words[127], 128u | 256u << 16);
  EXPECT_EQ(words[128], 257u | 385u << 16);
}

TEST(Pack, BytesInFourRowsShareAWord) {
  const Shape shape = parse_shape("pred[8,128]{1,0:T(8,128)(4,1)}");
  std::vector<std::uint8_t> values(8 * 128);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::uint8_t>(i / 128);
  const std::vector<std::uint32_t> words = pack(shape, values);
  ASSERT_EQ(words.size(), 256u);
  EXPECT_EQ(words[0], 0x03020100u);
  EXPECT_EQ(words[128], 0x07060504u);
}

TEST(Pack, AScalarIsTheFirstWordOfAGranule) {
  const std::vector<std::uint32_t> words =
      pack(parse_shape("f32[]{:T(256)}"), bytes_of(std::vector<std::uint32_t>{77}));
  ASSERT_EQ(words.size(), 256u);
  EXPECT_EQ(words[0], 77u);
  EXPECT_EQ(words[1], 0u);
}

TEST(Pack, TheMinorDimensionMayBeAnyAndTheBatchSecond) {
  const Shape shape = parse_shape("f32[9,2,3,130]{3,0,2,1:T(8,128)}");
  const std::vector<std::uint32_t> words =
      pack(shape, bytes_of(count_up<std::uint32_t>(9 * 2 * 3 * 130)));
  ASSERT_EQ(words.size(), 2u * 3 * 2 * 2 * 1024);
  const std::size_t n = 8, h = 1, w = 2, c = 129;
  const std::size_t tile = ((h * 3 + w) * 2 + n / 8) * 2 + c / 128;
  EXPECT_EQ(words[tile * 1024 + n % 8 * 128 + c % 128], ((n * 2 + h) * 3 + w) * 130 + c + 1);
}

TEST(Pack, PaddingIsZero) {
  const Shape shape = parse_shape("f32[3,5]{1,0:T(8,128)}");
  const std::vector<std::uint32_t> words =
      pack(shape, bytes_of(std::vector<std::uint32_t>(15, 0xffffffff)));
  EXPECT_EQ(std::count(words.begin(), words.end(), 0u), 8 * 128 - 15);
}

/// The definition of a tiled layout applied one tile at a time to an array of element numbers:
/// pad, split, transpose; slow and independent of TiledLayout.
std::vector<std::int64_t> elements_in_memory_order(const Shape& shape) {
  std::vector<std::int64_t> dims;
  std::vector<std::int64_t> order(shape.layout.minor_to_major.rbegin(),
                                  shape.layout.minor_to_major.rend());
  for (std::int64_t d : order) dims.push_back(shape.dimensions[static_cast<std::size_t>(d)]);
  const auto product = [](const std::vector<std::int64_t>& v) {
    return std::accumulate(v.begin(), v.end(), std::int64_t{1}, std::multiplies<>());
  };
  std::vector<std::int64_t> values(static_cast<std::size_t>(product(dims)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::int64_t rest = static_cast<std::int64_t>(i);
    std::vector<std::int64_t> index(dims.size());
    for (std::size_t d = dims.size(); d-- > 0;) {
      index[static_cast<std::size_t>(order[d])] = rest % dims[d];
      rest /= dims[d];
    }
    std::int64_t linear = 0;
    for (std::size_t d = 0; d < dims.size(); ++d) linear = linear * shape.dimensions[d] + index[d];
    values[i] = linear;
  }
  for (const std::vector<std::int64_t>& tile : shape.layout.tiles) {
    while (dims.size() < tile.size()) dims.insert(dims.begin(), 1);
    const std::size_t lead = dims.size() - tile.size();
    std::vector<std::int64_t> next(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(lead));
    for (std::size_t j = 0; j < tile.size(); ++j) {
      next.push_back((dims[lead + j] + tile[j] - 1) / tile[j]);
    }
    next.insert(next.end(), tile.begin(), tile.end());
    std::vector<std::int64_t> moved(static_cast<std::size_t>(product(next)), -1);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::int64_t rest = static_cast<std::int64_t>(i);
      std::vector<std::int64_t> index(dims.size());
      for (std::size_t d = dims.size(); d-- > 0;) {
        index[d] = rest % dims[d];
        rest /= dims[d];
      }
      std::vector<std::int64_t> to(index.begin(),
                                   index.begin() + static_cast<std::ptrdiff_t>(lead));
      for (std::size_t j = 0; j < tile.size(); ++j) to.push_back(index[lead + j] / tile[j]);
      for (std::size_t j = 0; j < tile.size(); ++j) to.push_back(index[lead + j] % tile[j]);
      std::int64_t linear = 0;
      for (std::size_t d = 0; d < next.size(); ++d) linear = linear * next[d] + to[d];
      moved[static_cast<std::size_t>(linear)] = values[i];
    }
    values = std::move(moved);
    dims = std::move(next);
  }
  return values;
}

TEST(Pack, RandomShapesAndLayoutsLieWhereTheDefinitionSays) {
  std::mt19937 random(7);
  const std::vector<std::pair<ElementType, std::string>> tilings = {
      {ElementType::kF32, "T(8,128)"},       {ElementType::kF32, "T(4,128)"},
      {ElementType::kF32, "T(2,128)"},       {ElementType::kF32, "T(256)"},
      {ElementType::kF32, "T(1024)"},        {ElementType::kBf16, "T(8,128)(2,1)"},
      {ElementType::kBf16, "T(4,128)(2,1)"}, {ElementType::kBf16, "T(512)(128)(2,1)"},
      {ElementType::kPred, "T(8,128)(4,1)"}, {ElementType::kPred, "T(1024)(128)(4,1)"},
      {ElementType::kF32, "T(5,3)(2,2)"},    {ElementType::kF32, "T(7)(2,1)"},
      {ElementType::kF32, "T(2,3,4)(3,1)"},  {ElementType::kF32, ""},
  };
  for (int trial = 0; trial < 140; ++trial) {
    const auto& [type, tiling] = tilings[static_cast<std::size_t>(trial) % tilings.size()];
    const std::size_t rank = random() % 4 + (trial % 10 == 0 ? 0 : 1);
    Shape shape = array_shape(type, {});
    for (std::size_t d = 0; d < rank; ++d) {
      shape.dimensions.push_back(1 +
                                 static_cast<std::int64_t>(random() % (d + 1 == rank ? 270 : 7)));
      shape.layout.minor_to_major.push_back(static_cast<std::int64_t>(d));
    }
    std::shuffle(shape.layout.minor_to_major.begin(), shape.layout.minor_to_major.end(), random);
    if (!tiling.empty()) shape.layout.tiles = parse_shape("f32[]{:" + tiling + "}").layout.tiles;
    const std::string text = to_string(shape);
    const std::size_t size = static_cast<std::size_t>(byte_size(type));
    const std::size_t count = static_cast<std::size_t>(shape.element_count());
    std::vector<std::uint8_t> data(count * size);
    for (std::uint8_t& byte : data) byte = static_cast<std::uint8_t>(1 + random() % 255);

    const std::vector<std::uint32_t> words = pack(shape, data);
    const std::vector<std::int64_t> expected = elements_in_memory_order(shape);
    ASSERT_EQ(static_cast<std::int64_t>(expected.size() * size), shape.padded_bytes()) << text;
    ASSERT_EQ(words.size(), (expected.size() * size + 1023) / 1024 * 256) << text;
    std::vector<std::uint8_t> image(words.size() * 4, 0);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] < 0) continue;
      std::memcpy(&image[i * size], &data[static_cast<std::size_t>(expected[i]) * size], size);
    }
    ASSERT_EQ(std::memcmp(image.data(), words.data(), image.size()), 0) << text;
    ASSERT_EQ(unpack(shape, words), data) << text;
  }
}

TEST(Packing, LowWordsOfSixtyFourBitsStandBeforeTheHighOnes) {
  const Shape shape = parse_shape("s64[3]{0:T(256)}");
  const std::int64_t values[] = {1, -2, std::int64_t{5} << 32};
  std::vector<std::uint8_t> data(sizeof values);
  std::memcpy(data.data(), values, sizeof values);
  const std::vector<std::uint32_t> words = pack(shape, data);
  ASSERT_EQ(words.size(), 512u);
  EXPECT_EQ((std::vector<std::uint32_t>(words.begin(), words.begin() + 3)),
            (std::vector<std::uint32_t>{1, 0xfffffffe, 0}));
  EXPECT_EQ((std::vector<std::uint32_t>(words.begin() + 256, words.begin() + 259)),
            (std::vector<std::uint32_t>{0, 0xffffffff, 5}));
  EXPECT_EQ(unpack(shape, words), data);
}

TEST(Packing, DoublesAreSumsOfTwoFloats) {
  const Shape shape = parse_shape("f64[4]{0:T(256)}");
  const double values[] = {1.0 / 3, -2e-9, 1e300, 0x1.0000000000001p0};
  std::vector<std::uint8_t> data(sizeof values);
  std::memcpy(data.data(), values, sizeof values);
  const std::vector<std::uint32_t> words = pack(shape, data);
  ASSERT_EQ(words.size(), 512u);
  const auto number = [&](std::size_t word) {
    float value = 0;
    std::memcpy(&value, &words[word], 4);
    return value;
  };
  EXPECT_EQ(number(0), static_cast<float>(values[0]));
  EXPECT_EQ(number(256), static_cast<float>(values[0] - static_cast<double>(number(0))));
  EXPECT_EQ(number(256 + 3), 0x1p-52F);
  std::vector<double> back(4);
  std::memcpy(back.data(), unpack(shape, words).data(), sizeof values);
  EXPECT_NEAR(back[0], values[0], 1e-15);
  EXPECT_NEAR(back[1], values[1], 2e-9 * 0x1p-48);
  // Beyond the range of the chip's floats.
  EXPECT_TRUE(std::isinf(back[2]));
  EXPECT_EQ(back[3], values[3]);
}

TEST(Pack, AWrongNumberOfBytesIsABugOfTheCaller) {
  EXPECT_THROW(pack(parse_shape("f32[2]"), std::vector<std::uint8_t>(7)), SimulatorBug);
  EXPECT_THROW(unpack(parse_shape("f32[512]"), std::vector<std::uint32_t>(256)), SimulatorBug);
}

TEST(Pack, ATokenHasNoElementsToPack) {
  EXPECT_THROW(pack(parse_shape("token[]"), {}), WorkloadError);
}

}  // namespace
}  // namespace tpu::hlo::shape_test
