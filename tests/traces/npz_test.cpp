#include "traces/npz.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "sim/base/error.h"

namespace tpu::traces::npz_test {
namespace {

namespace fs = std::filesystem;
using hlo::ElementType;

class NpzTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-npz-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = (folder_ / "x.npz").string();
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::vector<char> bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void set_bytes(const std::vector<char>& all) const {
    std::ofstream(path_, std::ios::binary).write(all.data(), static_cast<long>(all.size()));
  }
  std::string error_of_reading() const {
    try {
      read_npz(path_);
    } catch (const WorkloadError& error) {
      return error.what();
    }
    return "";
  }
  fs::path folder_;
  std::string path_;
};

NpzArray floats(std::vector<std::int64_t> dimensions, const std::vector<float>& values) {
  NpzArray array;
  array.type = ElementType::kF32;
  array.dimensions = std::move(dimensions);
  array.bytes.resize(values.size() * 4);
  if (!values.empty()) std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

std::vector<std::uint8_t> npy(const std::string& header, std::size_t data_bytes,
                              std::uint8_t major = 1) {
  std::vector<std::uint8_t> image{0x93, 'N', 'U', 'M', 'P', 'Y', major, 0};
  image.push_back(static_cast<std::uint8_t>(header.size()));
  image.push_back(0);
  if (major > 1) image.insert(image.end(), {0, 0});
  image.insert(image.end(), header.begin(), header.end());
  for (std::size_t i = 0; i < data_bytes; ++i) image.push_back(static_cast<std::uint8_t>(i));
  return image;
}

std::string error_of_parsing(const std::vector<std::uint8_t>& image) {
  try {
    parse_npy(image, "f.npz: a");
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "";
}

TEST_F(NpzTest, MoreThanTheLimitIsRefused) {
  const NpzFile file{{"a", floats({1000}, std::vector<float>(1000, 0))},
                     {"b", floats({1000}, std::vector<float>(1000, 0))}};
  write_npz(path_, file);
  EXPECT_EQ(read_npz(path_, UnpackLimit{100, 1}).size(), 2u);
  EXPECT_EQ(read_npz(path_, UnpackLimit{10000, 0}).size(), 2u);
  // Each has a header of 128 bytes.
  EXPECT_EQ(read_npz(path_, UnpackLimit{8256, 0}).size(), 2u);
  try {
    read_npz(path_, UnpackLimit{8255, 0});
    FAIL() << "no error";
  } catch (const WorkloadError& error) {
    EXPECT_EQ(std::string(error.what()),
              path_ + ": b: expected arrays of at most 8255 bytes together, found more");
  }
}

/// APPNOTE.TXT 4.3.12: a central directory header begins with PK\\1\\2 and has its maker's system
/// in byte 5 (3: Unix) and the external attributes in bytes 38 to 41, of which Unix takes the upper
/// two for the file's mode.
TEST_F(NpzTest, UnpackedArraysMayBeReadByEverybody) {
  write_npz(path_, {{"a", floats({2}, {1, 2})}});
  const std::vector<char> all = bytes();
  const std::string zip(all.begin(), all.end());
  const std::size_t header = zip.find("PK\x01\x02");
  ASSERT_NE(header, std::string::npos);
  EXPECT_EQ(zip.at(header + 5), 3);
  const auto byte = [&](std::size_t at) {
    return static_cast<unsigned>(static_cast<unsigned char>(zip.at(header + at)));
  };
  EXPECT_EQ((byte(40) | byte(41) << 8) & 0777, 0644u);
}

TEST_F(NpzTest, EveryTypeComesBack) {
  NpzFile file;
  for (const ElementType type :
       {ElementType::kPred, ElementType::kS8, ElementType::kS16, ElementType::kS32,
        ElementType::kS64, ElementType::kU8, ElementType::kU16, ElementType::kU32,
        ElementType::kU64, ElementType::kF16, ElementType::kBf16, ElementType::kF32,
        ElementType::kF64, ElementType::kC64}) {
    NpzArray array;
    array.type = type;
    array.dimensions = {2, 3};
    array.bytes.resize(6 * static_cast<std::size_t>(hlo::byte_size(type)));
    for (std::size_t i = 0; i < array.bytes.size(); ++i) {
      array.bytes[i] = static_cast<std::uint8_t>(3 * i + 1);
    }
    file["a_" + std::string(hlo::to_string(type))] = array;
  }
  file["scalar"] = floats({}, {1.5F});
  file["vector"] = floats({3}, {1, 2, 3});
  file["empty"] = floats({0, 7}, {});
  write_npz(path_, file);
  const NpzFile back = read_npz(path_);
  ASSERT_EQ(back.size(), file.size());
  for (const auto& [name, array] : file) {
    EXPECT_EQ(back.at(name).type, array.type) << name;
    EXPECT_EQ(back.at(name).dimensions, array.dimensions) << name;
    EXPECT_EQ(back.at(name).bytes, array.bytes) << name;
  }
}

TEST_F(NpzTest, TheSameArraysGiveTheSameBytes) {
  write_npz(path_, {{"a", floats({2}, {1, 2})}});
  const std::vector<char> first = bytes();
  write_npz(path_, {{"a", floats({2}, {1, 2})}});
  EXPECT_EQ(bytes(), first);
}

TEST_F(NpzTest, NumpyReadsWhatIsWritten) {
  if (std::system("python3 -c 'import numpy' 2>/dev/null") != 0) GTEST_SKIP() << "no numpy here";
  write_npz(path_, {{"a", floats({2, 2}, {1, 2, 3, 4})}, {"s", floats({}, {5})}});
  const std::string command = "python3 -c \"import numpy as np; z=np.load('" + path_ +
                              "'); assert z['a'].tolist()==[[1,2],[3,4]]; "
                              "assert z['s'].shape==() and z['s']==5\"";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(NpzTest, WhatNumpyCompressesIsRead) {
  if (std::system("python3 -c 'import numpy' 2>/dev/null") != 0) GTEST_SKIP() << "no numpy here";
  const std::string command =
      "python3 -c \"import numpy as np; np.savez_compressed('" + path_ +
      "', f=np.arange(6,dtype='f4').reshape(2,3).T, b=np.array([True,False]), s=np.float64(2.5))\"";
  ASSERT_EQ(std::system(command.c_str()), 0);
  const NpzFile file = read_npz(path_);
  EXPECT_EQ(file.at("f").dimensions, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(to_doubles(file.at("f")), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(to_doubles(file.at("b")), (std::vector<double>{1, 0}));
  EXPECT_EQ(to_doubles(file.at("s")), (std::vector<double>{2.5}));
}

TEST_F(NpzTest, SixteenBitFloatsConvertExactly) {
  NpzArray half;
  half.type = ElementType::kF16;
  half.dimensions = {5};
  const std::uint16_t bits[] = {0x3c00, 0xc000, 0x0001, 0x7bff, 0x0400};
  half.bytes.resize(sizeof bits);
  std::memcpy(half.bytes.data(), bits, sizeof bits);
  EXPECT_EQ(to_doubles(half),
            (std::vector<double>{1, -2, std::ldexp(1.0, -24), 65504, std::ldexp(1.0, -14)}));
  NpzArray brain;
  brain.type = ElementType::kBf16;
  brain.dimensions = {2};
  brain.bytes = {0x80, 0x3f, 0x00, 0xc0};
  EXPECT_EQ(to_doubles(brain), (std::vector<double>{1, -2}));
}

TEST_F(NpzTest, AFileCutAnywhereIsAnError) {
  write_npz(path_, {{"a", floats({64}, std::vector<float>(64, 1))}});
  const std::vector<char> whole = bytes();
  for (std::size_t length = 0; length < whole.size(); length += 7) {
    set_bytes({whole.begin(), whole.begin() + static_cast<long>(length)});
    EXPECT_NE(error_of_reading(), "") << length;
  }
}

TEST_F(NpzTest, AFlippedByteNeverCrashes) {
  write_npz(path_, {{"a", floats({64}, std::vector<float>(64, 1))}});
  const std::vector<char> whole = bytes();
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    std::vector<char> changed = whole;
    changed[random() % changed.size()] ^= static_cast<char>(1 << (random() % 8));
    set_bytes(changed);
    error_of_reading();
  }
}

TEST_F(NpzTest, AChangedElementFailsTheChecksum) {
  write_npz(path_, {{"a", floats({64}, std::vector<float>(64, 1))}});
  std::vector<char> changed = bytes();
  changed[changed.size() / 2] ^= 1;
  set_bytes(changed);
  EXPECT_NE(error_of_reading().find("CRC"), std::string::npos) << error_of_reading();
}

TEST_F(NpzTest, ADirectoryIsNoNpzFile) {
  path_ = folder_.string();
  EXPECT_EQ(error_of_reading(), path_ + ": expected a .npz file, found a directory");
}

TEST_F(NpzTest, AMissingFileIsNamed) {
  EXPECT_EQ(error_of_reading(), path_ + ": expected a .npz file: No such file or directory");
}

TEST(Npy, VersionsOneToThreeAreRead) {
  const std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n";
  for (const std::uint8_t major : {1, 2, 3}) {
    EXPECT_EQ(parse_npy(npy(header, 8, major), "x").element_count(), 2);
  }
  EXPECT_EQ(error_of_parsing(npy(header, 8, 4)),
            "f.npz: a: expected .npy version 1, 2 or 3, found 4");
}

/// From version 2 on the length has four bytes: 16 MiB more than there are is not what the lower
/// three say.
TEST(Npy, AllBytesOfTheHeadersLengthCount) {
  const std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }\n";
  for (const std::size_t byte : {9, 10, 11}) {
    std::vector<std::uint8_t> image = npy(header, 8, 2);
    image[byte] = 1;
    EXPECT_EQ(error_of_parsing(image), "f.npz: a: the .npy header is cut") << byte;
  }
  // Twelve bytes hold a length of nothing; eleven hold none.
  const std::vector<std::uint8_t> empty{0x93, 'N', 'U', 'M', 'P', 'Y', 2, 0, 0, 0, 0, 0};
  EXPECT_NE(error_of_parsing(empty), "f.npz: a: the .npy header is cut");
  EXPECT_EQ(error_of_parsing({empty.begin(), empty.end() - 1}), "f.npz: a: the .npy header is cut");
}

TEST(Npy, BadHeadersAreNamed) {
  const auto error = [](const std::string& header) { return error_of_parsing(npy(header, 8)); };
  EXPECT_EQ(error("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}"),
            "f.npz: a: expected little-endian elements, found '>f4'; convert the array with "
            ".astype(x.dtype.newbyteorder('<'))");
  EXPECT_EQ(error("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}"),
            "f.npz: a: expected elements of type bool, (u)int8 to 64, float16, 32, 64, complex64 "
            "or bfloat16, "
            "found '|O'");
  EXPECT_EQ(error("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"),
            "f.npz: a: expected an array of numbers, found a structured array");
  EXPECT_EQ(error("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}"),
            "f.npz: a: expected 12 bytes of elements for its shape, found 8");
  EXPECT_EQ(error("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}"),
            "f.npz: a: .npy header \"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}\", "
            "column 35: expected True or False, found \"Maybe, 'shape': (2,)}\"");
  EXPECT_EQ(error("{'descr': '<f4', 'shape': (2,)}"),
            "f.npz: a: expected the keys descr, fortran_order and shape in the .npy header, found "
            "{'descr': '<f4', 'shape': (2,)}");
  EXPECT_EQ(
      error("{'descr': '<f4', 'fortran_order': False, 'shape': (72057594037927935, 1024, 1024)}"),
      "f.npz: a: the array's shape exceeds any memory");
  EXPECT_EQ(error_of_parsing({1, 2, 3}), "f.npz: a: expected a .npy array, found other bytes");
  // What would close the header is the first element.
  std::vector<std::uint8_t> open = npy("{'descr': '<i4', 'fortran_order': False, 'shape': (2,)", 8);
  open[open.size() - 8] = '}';
  EXPECT_NE(error_of_parsing(open).find("column 55: expected"), std::string::npos)
      << error_of_parsing(open);
}

/// IEEE 754's half: numbers grow with their bits up to infinity, each power of two has a step twice
/// that of the one below it, and the highest bit is the sign.
TEST(Npy, AllHalvesHaveTheirValues) {
  NpzArray array;
  array.type = ElementType::kF16;
  array.dimensions = {0x10000};
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    array.bytes.push_back(static_cast<std::uint8_t>(bits));
    array.bytes.push_back(static_cast<std::uint8_t>(bits >> 8));
  }
  const std::vector<double> values = to_doubles(array);
  ASSERT_EQ(values.size(), 0x10000u);
  EXPECT_EQ(values[0x3c00], 1);
  double step = std::ldexp(1.0, -24);
  for (std::uint32_t bits = 1; bits < 0x7c00; ++bits) {
    // Steps begin to grow behind the second power of two: below the first are the subnormals.
    if (bits > 0x800 && (bits & 0x3ff) == 1) step *= 2;
    ASSERT_EQ(values[bits] - values[bits - 1], step) << bits;
  }
  for (std::uint32_t bits = 0; bits <= 0x7c00; ++bits) {
    ASSERT_EQ(values[bits | 0x8000], -values[bits]) << bits;
  }
  EXPECT_TRUE(std::isinf(values[0x7c00]));
  for (std::uint32_t bits = 0x7c01; bits < 0x8000; ++bits) {
    ASSERT_TRUE(std::isnan(values[bits]) && std::isnan(values[bits | 0x8000])) << bits;
  }
}

TEST(Npy, IntegersHaveTheSignOfTheirType) {
  struct Case {
    ElementType type;
    double all_ones, highest;  ///< Of all bits, and of the highest one alone.
  };
  for (const Case& each : {Case{ElementType::kS8, -1, -128},
                           {ElementType::kS16, -1, -32768},
                           {ElementType::kS32, -1, -2147483648.0},
                           {ElementType::kS64, -1, -std::ldexp(1.0, 63)},
                           {ElementType::kU8, 255, 128},
                           {ElementType::kU16, 65535, 32768},
                           {ElementType::kU32, 4294967295.0, 2147483648.0},
                           {ElementType::kU64, std::ldexp(1.0, 64), std::ldexp(1.0, 63)}}) {
    const auto size = static_cast<std::size_t>(hlo::byte_size(each.type));
    NpzArray array;
    array.type = each.type;
    array.dimensions = {2};
    array.bytes.assign(2 * size, 0);
    std::fill_n(array.bytes.begin(), size, std::uint8_t{0xff});
    array.bytes.back() = 0x80;
    EXPECT_EQ(to_doubles(array), (std::vector<double>{each.all_ones, each.highest}))
        << hlo::to_string(each.type);
  }
}

/// NumPy's format: magic and version, the length of the header in two bytes, a literal of Python
/// that ends in a line end where the elements begin at a multiple of 64.
TEST(Npy, AnImageIsWhatNumpysFormatSays) {
  const std::pair<ElementType, std::string> types[] = {
      {ElementType::kPred, "|b1"}, {ElementType::kS8, "|i1"},  {ElementType::kU8, "|u1"},
      {ElementType::kS16, "<i2"},  {ElementType::kU16, "<u2"}, {ElementType::kS32, "<i4"},
      {ElementType::kU32, "<u4"},  {ElementType::kS64, "<i8"}, {ElementType::kU64, "<u8"},
      {ElementType::kF16, "<f2"},  {ElementType::kF32, "<f4"}, {ElementType::kF64, "<f8"},
      {ElementType::kBf16, "<V2"}, {ElementType::kC64, "<c8"}};
  for (const auto& [type, descr] : types) {
    for (std::size_t rank = 0; rank <= 24; ++rank) {
      NpzArray array;
      array.type = type;
      array.dimensions.assign(rank, 1);
      for (int i = 0; i < hlo::byte_size(type); ++i) array.bytes.push_back(0xe0);
      std::string shape;
      for (std::size_t d = 0; d < rank; ++d) shape += d > 0 ? ", 1" : "1";
      if (rank == 1) shape += ",";
      const std::vector<std::uint8_t> image = npy_image(array);
      const std::string text(image.begin(), image.end());
      const std::string head =
          "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
      EXPECT_EQ(text.substr(0, 8), std::string("\x93NUMPY\x01\0", 8));
      EXPECT_EQ(text.substr(10, head.size()), head);
      const std::size_t length = image[8] + 256U * image[9];
      EXPECT_EQ((10 + length) % 64, 0u) << head;
      EXPECT_LT(length, head.size() + 1 + 64) << head;
      EXPECT_EQ(text.substr(10 + head.size(), length - head.size()),
                std::string(length - head.size() - 1, ' ') + "\n");
      EXPECT_EQ(image.size(), 10 + length + array.bytes.size());
      const NpzArray back = parse_npy(image, "x");
      EXPECT_EQ(back.type, type);
      EXPECT_EQ(back.dimensions, array.dimensions);
      EXPECT_EQ(back.bytes, array.bytes);
    }
  }
}

/// In Fortran's order the first index moves fastest.
TEST(Npy, ElementsByColumnsAreTakenByRows) {
  const std::vector<std::uint8_t> image =
      npy("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3, 4), }\n", 48);
  const NpzArray array = parse_npy(image, "x");
  std::size_t at = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      for (std::size_t k = 0; k < 4; ++k) {
        EXPECT_EQ(array.bytes.at(at++), 2 * (i + 2 * j + 6 * k));
        EXPECT_EQ(array.bytes.at(at++), 2 * (i + 2 * j + 6 * k) + 1);
      }
    }
  }
  EXPECT_EQ(at, array.bytes.size());
}

TEST(Npy, ReferenceValuesAreRead) {
  const std::string path =
      std::string(TPUSIM_SOURCE_DIR) + "/../shared/xla/programs/mlp_small_b8/values.npz";
  if (!fs::exists(path)) GTEST_SKIP() << "no reference data beside the project";
  const NpzFile file = read_npz(path);
  EXPECT_EQ(file.at("arg_001").dimensions, (std::vector<std::int64_t>{784, 128}));
  EXPECT_EQ(file.at("arg_013").type, ElementType::kS32);
  EXPECT_EQ(file.at("out_012").dimensions.size(), 0u);
}

}  // namespace
}  // namespace tpu::traces::npz_test
