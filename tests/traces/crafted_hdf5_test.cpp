#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "traces/hdf5_file.h"

/// HDF5 files that somebody made in order to do harm, behind a right checksum.

namespace tpu::traces::crafted_hdf5_test {
namespace {

namespace fs = std::filesystem;
const FileKind kKind{"run", 1};
using Craft = std::function<void(hid_t file)>;

std::vector<char> image_of(const Craft& craft) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_core(access, 4096, 0);
  const hid_t file = H5Fcreate("/dev/null/crafted", H5F_ACC_TRUNC, H5P_DEFAULT, access);
  craft(file);
  H5Fflush(file, H5F_SCOPE_GLOBAL);
  std::vector<char> image(static_cast<std::size_t>(H5Fget_file_image(file, nullptr, 0)));
  H5Fget_file_image(file, image.data(), image.size());
  H5Fclose(file);
  H5Pclose(access);
  return image;
}

/// A dataset without data; `set` changes its properties.
void create_dataset(
    hid_t file, hid_t type, hsize_t rows, const std::function<void(hid_t)>& set = [](hid_t) {}) {
  const hsize_t chunk = 16;
  const hid_t space = H5Screate_simple(1, &rows, nullptr);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, 1, &chunk);
  set(properties);
  const hid_t dataset = H5Dcreate2(file, "x", type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
  EXPECT_GE(dataset, 0);
  H5Dclose(dataset);
  H5Pclose(properties);
  H5Sclose(space);
}

class CraftedHdf5 : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-crafted-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = (folder_ / "x.h5").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// Puts the block that our files begin with in front of an image.
  void write_file(const std::vector<char>& image) const {
    std::ostringstream block;
    block << "tpusim file\nkind: run\nversion: 1\nbytes: " << image.size()
          << "\ncrc32: " << std::hex
          << crc32_z(0, reinterpret_cast<const unsigned char*>(image.data()), image.size())
          << "\nAn HDF5 file with a user block of 512 bytes: h5py and pandas.read_hdf read it.\n";
    std::string text = block.str();
    text.resize(512, '\0');
    std::ofstream out(path_, std::ios::binary);
    out << text;
    out.write(image.data(), static_cast<long>(image.size()));
  }
  std::string error_of(const Craft& craft) const {
    write_file(image_of(craft));
    return error_of_reading();
  }
  std::string error_of_reading() const {
    try {
      read_hdf5(path_, kKind);
    } catch (const WorkloadError& error) {
      return std::string(error.what()).substr(path_.size() + 2);
    }
    return "";
  }
  fs::path folder_;
  std::string path_;
};

TEST_F(CraftedHdf5, AGroupThatContainsItself) {
  EXPECT_EQ(
      error_of([](hid_t file) { H5Lcreate_hard(file, "/", file, "me", H5P_DEFAULT, H5P_DEFAULT); }),
      "me: expected an object that no other path leads to");
  EXPECT_EQ(error_of([](hid_t file) {
              H5Gclose(H5Gcreate2(file, "a", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
              H5Lcreate_hard(file, "a", file, "a/b", H5P_DEFAULT, H5P_DEFAULT);
            }),
            "a/b: expected an object that no other path leads to");
}

TEST_F(CraftedHdf5, LinksToOtherPlaces) {
  EXPECT_EQ(error_of([](hid_t file) { H5Lcreate_soft("/", file, "s", H5P_DEFAULT, H5P_DEFAULT); }),
            "s: expected data in the file itself, found a symbolic link");
  EXPECT_EQ(error_of([](hid_t file) {
              H5Lcreate_external("/etc/passwd", "/", file, "e", H5P_DEFAULT, H5P_DEFAULT);
            }),
            "e: expected data in the file itself, found a link to another file");
}

TEST_F(CraftedHdf5, DataInOtherFiles) {
  const std::string text = "x: expected data in the file itself, found them in another file";
  const auto external = [](hid_t properties) {
    H5Pset_layout(properties, H5D_CONTIGUOUS);
    H5Pset_external(properties, "/etc/passwd", 0, 100);
  };
  EXPECT_EQ(error_of([&](hid_t file) { create_dataset(file, H5T_STD_U8LE, 100, external); }), text);
  const auto mapped = [](hid_t properties) {
    const hsize_t rows = 100;
    const hid_t space = H5Screate_simple(1, &rows, nullptr);
    H5Pset_layout(properties, H5D_VIRTUAL);
    H5Pset_virtual(properties, space, "other.h5", "x", space);
    H5Sclose(space);
  };
  EXPECT_EQ(error_of([&](hid_t file) { create_dataset(file, H5T_STD_U8LE, 100, mapped); }), text);
}

TEST_F(CraftedHdf5, AFilterThatIsNotOurs) {
  EXPECT_EQ(
      error_of([&](hid_t file) { create_dataset(file, H5T_STD_U8LE, 100, H5Pset_fletcher32); }),
      "x: expected data that are packed with deflate, found filter 3");
}

/// HDF5 takes a kilobyte for each chunk that rows need: a gigabyte for a file of a few.
TEST_F(CraftedHdf5, MoreChunksThanTheFileHasPlacesFor) {
  const auto single = [](hid_t properties) {
    const hsize_t extent = 1;
    H5Pset_chunk(properties, 1, &extent);
  };
  EXPECT_NE(error_of([&](hid_t file) {
              create_dataset(file, H5T_STD_U8LE, 1000000, single);
            }).find("damaged behind a right checksum"),
            std::string::npos);
}

TEST_F(CraftedHdf5, GroupsInGroupsInGroups) {
  const Craft craft = [](hid_t file) {
    std::string path;
    for (int level = 0; level < 9; ++level) {
      path += "/g";
      H5Gclose(H5Gcreate2(file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    }
  };
  EXPECT_EQ(error_of(craft), "g/g/g/g/g/g/g/g: expected groups at most 8 levels deep");
}

TEST_F(CraftedHdf5, MoreRowsThanMemoryHas) {
  const Craft overflow = [](hid_t file) {
    const hid_t type = H5Tcreate(H5T_COMPOUND, 23);
    H5Tinsert(type, "a", 0, H5T_STD_U64LE);
    create_dataset(file, type, ~hsize_t{0} / 23 + 1);  // 23 times that is 8 modulo 2^64.
    H5Tclose(type);
  };
  EXPECT_NE(error_of(overflow).find("found 802032351030850071 rows of 31"), std::string::npos)
      << error_of(overflow);
  const Craft zeros = [](hid_t file) { create_dataset(file, H5T_STD_U8LE, hsize_t{1} << 40); };
  EXPECT_NE(error_of(zeros).find("x: expected data of at most 1073741824 bytes in a file of"),
            std::string::npos)
      << error_of(zeros);
}

TEST_F(CraftedHdf5, ShortStringsCountWithWhatTheyTakeOfMemory) {
  const Craft strings = [](hid_t file) {
    const hid_t type = H5Tcreate(H5T_COMPOUND, 1), text = H5Tcopy(H5T_C_S1);
    H5Tinsert(type, "a", 0, text);
    create_dataset(file, type, hsize_t{1} << 28);
    H5Tclose(text);
    H5Tclose(type);
  };
  EXPECT_NE(error_of(strings).find("found 268435456 rows of 34"), std::string::npos)
      << error_of(strings);
}

TEST_F(CraftedHdf5, AnAttributeOfManyTexts) {
  write_file(image_of([](hid_t file) {
    const hsize_t count = 1000;
    const hid_t space = H5Screate_simple(1, &count, nullptr), type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, 10);
    H5Aclose(H5Acreate2(file, "a", type, space, H5P_DEFAULT, H5P_DEFAULT));
    H5Tclose(type);
    H5Sclose(space);
  }));
  EXPECT_TRUE(read_hdf5(path_, kKind).attributes.empty());
}

TEST_F(CraftedHdf5, DamageBehindARightChecksumIsAnErrorOfTheFile) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the HDF5 library itself is not clean on damaged data";
#endif
  Hdf5Contents contents;
  contents.attributes["workload"] = "mlp";
  contents.tables["events/ops"]
      .add("cycles", std::vector<std::uint64_t>(100, 7))
      .add("name", std::vector<std::string>(100, "fusion"));
  contents.bytes["code"] = std::vector<std::uint8_t>(1000, 1);
  write_hdf5(path_, kKind, contents);
  std::ifstream in(path_, std::ios::binary);
  const std::vector<char> file{std::istreambuf_iterator<char>(in), {}};
  const std::vector<char> image(file.begin() + 512, file.end());
  // Trees, their leaves and the heaps of names.
  for (const std::string_view signature : {"TREE", "SNOD", "HEAP"}) {
    const auto at = std::search(image.begin(), image.end(), signature.begin(), signature.end());
    ASSERT_NE(at, image.end()) << signature;
    std::vector<char> damaged = image;
    damaged[static_cast<std::size_t>(at - image.begin())] = 'X';
    write_file(damaged);
    EXPECT_EQ(error_of_reading(),
              "expected what tpusim writes, found HDF5 data that are damaged behind a right "
              "checksum; write the file again")
        << signature;
  }
}

}  // namespace
}  // namespace tpu::traces::crafted_hdf5_test
