#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>

#include "isa/assembler.h"
#include "sim/base/error.h"
#include "tests/traces/synthetic_record.h"
#include "traces/hdf5_handle.h"
#include "traces/hdf5_object_header.h"
#include "traces/program_file.h"
#include "traces/run_file.h"

/// Programs and results as today's version writes them, changed by somebody who means harm and who
/// has put the checksum right. What is made here is the file of today, so that no test ends at its
/// version.

namespace tpu::traces::crafted_program_test {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kUserBlockBytes = 512;

std::string contents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class CraftedProgram : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-crafted-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = (folder_ / "x.h5").string();
    isa::Program program;
    program.name = "example";
    program.chip = "v3";
    program.kernels = isa::assemble("kernel top\n  { %s0 = smov 7 }\n  { vdelay 3 }\n", "example");
    write_program_file(path_, program);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Puts length and checksum right for what stands behind the block that the file began with.
  void seal(const std::string& block, const std::string& image) const {
    std::ostringstream sum;
    sum << std::hex
        << crc32_z(0, reinterpret_cast<const unsigned char*>(image.data()), image.size());
    std::string text = block.substr(0, block.find('\0'));
    text = std::regex_replace(text, std::regex("\nbytes: .*"),
                              "\nbytes: " + std::to_string(image.size()));
    text = std::regex_replace(text, std::regex("\ncrc32: .*"), "\ncrc32: " + sum.str());
    text.resize(kUserBlockBytes, '\0');
    std::ofstream(path_, std::ios::binary) << text << image;
  }
  /// Changes the HDF5 file behind the block.
  void change(const std::function<void(hid_t file)>& edit) const {
    const std::string block = contents_of(path_).substr(0, kUserBlockBytes);
    const std::string bare = (folder_ / "bare.h5").string();
    std::ofstream(bare, std::ios::binary) << contents_of(path_).substr(kUserBlockBytes);
    const hid_t file = H5Fopen(bare.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    edit(file);
    H5Fclose(file);
    seal(block, contents_of(bare));
  }
  /// Behind "x.h5: ".
  template <typename Read>
  std::string error_of(const Read& read) const {
    try {
      read(path_);
    } catch (const WorkloadError& error) {
      return std::string(error.what()).substr(path_.size() + 2);
    }
    return "";
  }
  std::string error_of_program() const { return error_of(read_program_file); }

  fs::path folder_;
  std::string path_;
};

/// In place of a dataset, one of so many rows without data; `set` changes its properties.
void replace_rows(
    hid_t file, const char* name, hsize_t rows,
    const std::function<void(hid_t)>& set = [](hid_t) {}) {
  const hid_t old = H5Dopen2(file, name, H5P_DEFAULT);
  ASSERT_GE(old, 0) << name;
  const hid_t type = H5Dget_type(old), space = H5Screate_simple(1, &rows, nullptr);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t chunk = std::min<hsize_t>(16, rows);
  H5Pset_chunk(properties, 1, &chunk);
  set(properties);
  H5Dclose(old);
  H5Ldelete(file, name, H5P_DEFAULT);
  const hid_t made = H5Dcreate2(file, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  EXPECT_GE(made, 0) << name;
  H5Dclose(made);
  H5Pclose(properties);
  H5Sclose(space);
  H5Tclose(type);
}

/// What the other tests rest on: a file that is opened, changed in what nobody reads, and sealed is
/// read.
TEST_F(CraftedProgram, ASealedFileIsRead) {
  change([](hid_t file) {
    H5Gclose(H5Gcreate2(file, "nobody", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  });
  EXPECT_EQ(error_of_program(), "");
  EXPECT_EQ(read_program_file(path_).name, "example");
}

/// HDF5 1.10 divides by the extents of a chunk where it opens a dataset, and ends the process where
/// one is 0; it copies elements of the size that a chunk says into those of the type. Two bytes are
/// changed everywhere in the header around each layout (version 3, in chunks): that crashed.
TEST_F(CraftedProgram, AChunkWithoutElementsIsRefused) {
  const std::string whole = contents_of(path_);
  const std::string begin{"\x03\x02\x02", 3};
  int layouts = 0, refused = 0;
  for (std::size_t at = whole.find(begin, kUserBlockBytes); at != std::string::npos;
       at = whole.find(begin, at + 1)) {
    ++layouts;
    for (std::size_t place = at - 8; place < at + 20; ++place) {
      for (const std::string& bytes :
           {std::string(2, '\0'), std::string("\x4e\x01"), std::string(2, '\xff')}) {
        std::string image = whole.substr(kUserBlockBytes);
        image.replace(place - kUserBlockBytes, 2, bytes);
        seal(whole.substr(0, kUserBlockBytes), image);
        const std::string error = error_of_program();
        refused += error.find("damaged behind a right checksum") != std::string::npos ? 1 : 0;
      }
    }
  }
  EXPECT_GE(layouts, 5);
  EXPECT_GE(refused, 8 * layouts);
}

/// HDF5 1.10 takes what its filters give for a whole chunk, and reads on behind it. A chunk that
/// was packed by nobody's filters is as good as any other; one that is a byte shorter than its
/// rows, or longer, packed or not, is none.
TEST_F(CraftedProgram, AChunkHasAllItsRows) {
  const std::string whole = contents_of(path_);
  std::size_t full = 0;
  const auto error_with = [&](int more, bool packed) {
    std::ofstream(path_, std::ios::binary) << whole;
    change([&](hid_t file) {
      const hid_t dataset = H5Dopen2(file, "kernels", H5P_DEFAULT);
      ASSERT_GE(dataset, 0);
      const hid_t type = H5Dget_type(dataset), properties = H5Dget_create_plist(dataset);
      hsize_t rows = 0;
      ASSERT_EQ(H5Pget_chunk(properties, 1, &rows), 1);
      full = H5Tget_size(type) * rows;
      std::vector<unsigned char> data(full + 8);
      ASSERT_GE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data()), 0);
      std::vector<unsigned char> stored(data.begin(), data.begin() + static_cast<int>(full) + more);
      if (packed) {
        uLongf size = compressBound(stored.size());
        std::vector<unsigned char> deflated(size);
        ASSERT_EQ(compress(deflated.data(), &size, stored.data(), stored.size()), Z_OK);
        deflated.resize(size);
        stored = deflated;
      }
      // Bits of filters that a chunk leaves out: of the two (shuffle, deflate) one or both.
      const hsize_t first = 0;
      ASSERT_GE(H5Dwrite_chunk(dataset, H5P_DEFAULT, packed ? 1 : 3, &first, stored.size(),
                               stored.data()),
                0);
      H5Pclose(properties);
      H5Tclose(type);
      H5Dclose(dataset);
    });
    return error_of_program();
  };
  for (const bool packed : {false, true}) {
    EXPECT_EQ(error_with(0, packed), "");
    EXPECT_EQ(read_program_file(path_).name, "example");
    for (const int more : {-1, 1, 1 - static_cast<int>(full)}) {
      EXPECT_NE(error_with(more, packed).find("damaged behind a right checksum"), std::string::npos)
          << more << packed;
    }
  }
}

/// HDF5 1.10 takes as much memory as a header says, before it finds that the file is shorter.
TEST_F(CraftedProgram, AHeaderBeyondTheFileIsRefusedBeforeTheLibraryReadsIt) {
  std::string image = contents_of(path_).substr(kUserBlockBytes);
  const auto check = [&image] {
    check_root_header(reinterpret_cast<const std::uint8_t*>(image.data()), image.size());
  };
  EXPECT_NO_THROW(check());
  std::uint64_t header = 0;
  std::memcpy(&header, image.data() + 64, sizeof header);
  const std::string whole = image;
  image.replace(header + 8, 4, 4, '\xff');
  EXPECT_THROW(check(), Hdf5Failure);
  image = whole.substr(0, header + 20);
  EXPECT_THROW(check(), Hdf5Failure);
}

/// No filter of somebody's plug-ins unpacks data: HDF5 looks for none, whatever it did before.
TEST_F(CraftedProgram, NoPluginIsLoaded) {
  H5PLset_loading_state(H5PL_ALL_PLUGIN);
  EXPECT_EQ(error_of_program(), "");
  unsigned int plugins = H5PL_ALL_PLUGIN;
  H5PLget_loading_state(&plugins);
  EXPECT_EQ(plugins, 0u);
}

/// The words of constants stand one after another; how many each has says the table of buffers.
TEST_F(CraftedProgram, WordsOfConstantsAreAsManyAsTheTableSays) {
  isa::Program program;
  program.name = "example";
  program.chip = "v3";
  program.kernels = isa::assemble("kernel top\n  { vdelay 3 }\n", "example");
  program.buffers.resize(2);
  for (isa::Buffer& buffer : program.buffers) {
    buffer.role = isa::BufferRole::kConstant;
    buffer.bytes = 1024;
    buffer.shape = "f32[2]";
  }
  program.buffers[0].data = {1, 2, 3};
  program.buffers[1].data = {4, 5};
  write_program_file(path_, program);
  const std::string original = contents_of(path_);
  const auto error_with = [&](hsize_t bytes) {
    std::ofstream(path_, std::ios::binary) << original;
    change([&](hid_t file) {
      replace_rows(file, "data", bytes);
      const hid_t data = H5Dopen2(file, "data", H5P_DEFAULT);
      const std::vector<std::uint8_t> words(bytes, 7);
      H5Dwrite(data, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, words.data());
      H5Dclose(data);
    });
    return error_of_program();
  };
  EXPECT_EQ(error_with(20), "");
  EXPECT_EQ(error_with(19), "data: expected 2 words, found 1");
  EXPECT_EQ(error_with(16), "data: expected 2 words, found 1");
  EXPECT_EQ(error_with(12), "data: expected 2 words, found 0");
  EXPECT_EQ(error_with(8), "data: expected 3 words, found 2");
  EXPECT_EQ(error_with(21), "data: expected 20 bytes, found 21");
}

TEST_F(CraftedProgram, GroupsThatContainThemselves) {
  const std::string original = contents_of(path_);
  change([](hid_t file) { H5Lcreate_hard(file, "/", file, "me", H5P_DEFAULT, H5P_DEFAULT); });
  EXPECT_EQ(error_of_program(), "me: expected an object that no other path leads to");
  std::ofstream(path_, std::ios::binary) << original;
  change([](hid_t file) {
    H5Gclose(H5Gcreate2(file, "a", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Lcreate_hard(file, "a", file, "a/b", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_EQ(error_of_program(), "a/b: expected an object that no other path leads to");
}

TEST_F(CraftedProgram, CodeInAnotherFile) {
  change([](hid_t file) {
    replace_rows(file, "code", 100, [](hid_t properties) {
      H5Pset_layout(properties, H5D_CONTIGUOUS);
      H5Pset_external(properties, "/etc/passwd", 0, 100);
    });
  });
  EXPECT_EQ(error_of_program(),
            "code: expected data in the file itself, found them in another file");
}

/// Its bytes are a small number modulo 2^64.
TEST_F(CraftedProgram, KernelsWhoseBytesOverflow) {
  hsize_t rows = 0;
  change([&rows](hid_t file) {
    const hid_t kernels = H5Dopen2(file, "kernels", H5P_DEFAULT), type = H5Dget_type(kernels);
    rows = ~hsize_t{0} / H5Tget_size(type) + 1;
    H5Tclose(type);
    H5Dclose(kernels);
    replace_rows(file, "kernels", rows);
  });
  const std::string error = error_of_program();
  EXPECT_EQ(error.rfind("kernels: expected data of at most 1073741824 bytes", 0), 0U) << error;
  EXPECT_NE(error.find("found " + std::to_string(rows) + " rows of "), std::string::npos) << error;
}

TEST_F(CraftedProgram, ADamagedHeapOfNames) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the HDF5 library itself is not clean on damaged data";
#endif
  const std::string file = contents_of(path_);
  for (const char* signature : {"HEAP", "SNOD", "TREE"}) {
    std::string image = file.substr(kUserBlockBytes);
    const std::size_t at = image.find(signature);
    ASSERT_NE(at, std::string::npos) << signature;
    image[at] = 'X';
    seal(file.substr(0, kUserBlockBytes), image);
    EXPECT_EQ(error_of_program(),
              "expected what tpusim writes, found HDF5 data that are damaged behind a right "
              "checksum; write the file again")
        << signature;
  }
}

/// A table of results that says it has 100,000 cores.
TEST_F(CraftedProgram, ResultsOfCoresThatDidNotRun) {
  write_run_file(path_, test::synthetic_record_with_events());
  change([](hid_t file) {
    replace_rows(file, "cores", 100000,
                 [](hid_t properties) { H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY); });
  });
  EXPECT_EQ(error_of(read_run_file),
            "op_counters: expected a row for each of 100000 cores and 3 ops, found 6 rows");
}

}  // namespace
}  // namespace tpu::traces::crafted_program_test
