#include "traces/hdf5_file.h"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "sim/base/error.h"

namespace tpu::traces::hdf5_file_test {
namespace {

namespace fs = std::filesystem;
const FileKind kKind{"run", 1};

class Hdf5FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-hdf5-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = (folder_ / "x.h5").string();
    contents_.attributes["workload"] = "mlp";
    contents_.attributes["empty"] = "";
    Table table;
    table.add("cycles", std::vector<std::uint64_t>{1, std::uint64_t{1} << 40, 3})
        .add("core", std::vector<std::uint32_t>{0, 1, 4000000000})
        .add("delta", std::vector<std::int32_t>{-1, 0, 1})
        .add("flag", std::vector<std::uint8_t>{0, 1, 255})
        .add("share", std::vector<double>{0.1, -1e300, 0})
        .add("name", std::vector<std::string>{"fusion.1", "", "µs"});
    contents_.tables["events/ops"] = table;
    contents_.tables["none"] = Table().add("a", std::vector<std::uint64_t>{});
    contents_.bytes["code/all"] = {1, 2, 3, 0, 255};
    contents_.bytes["code/nothing"] = {};
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::vector<char> bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void set_bytes(const std::vector<char>& all) const {
    std::ofstream(path_, std::ios::binary).write(all.data(), static_cast<long>(all.size()));
  }
  std::string error_of_reading(const FileKind& kind = kKind) const {
    try {
      read_hdf5(path_, kind);
    } catch (const WorkloadError& error) {
      return error.what();
    }
    return "";
  }
  fs::path folder_;
  std::string path_;
  Hdf5Contents contents_;
};

TEST_F(Hdf5FileTest, TablesBytesAndAttributesComeBack) {
  write_hdf5(path_, kKind, contents_);
  const Hdf5Contents back = read_hdf5(path_, kKind);
  EXPECT_EQ(back.attributes, contents_.attributes);
  EXPECT_EQ(back.bytes, contents_.bytes);
  ASSERT_EQ(back.tables.size(), 2u);
  const Table& table = back.table("events/ops");
  const Table& original = contents_.tables.at("events/ops");
  ASSERT_EQ(table.columns().size(), original.columns().size());
  for (std::size_t i = 0; i < table.columns().size(); ++i) {
    EXPECT_EQ(table.columns()[i].name, original.columns()[i].name);
    EXPECT_TRUE(table.columns()[i].values == original.columns()[i].values) << i;
  }
  EXPECT_EQ(back.table("none").rows(), 0u);
}

TEST_F(Hdf5FileTest, AFileIsReadWhateverStandsBesideIt) {
  write_hdf5(path_, kKind, contents_);
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  std::ofstream(folder_ / "tpusim") << "the program itself";
  EXPECT_EQ(error_of_reading(), "");
  fs::current_path(before);
}

/// The library packs, unpacks and shuffles whole chunks, filled or not: a table of three rows in a
/// chunk of 16,384 would take milliseconds to read.
TEST_F(Hdf5FileTest, ChunksAreNoLargerThanTheData) {
  std::vector<std::uint64_t> many(40000);
  contents_.tables["many"] = Table().add("a", many);
  write_hdf5(path_, kKind, contents_);
  const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  const auto chunk_rows = [&](const char* path) {
    const hid_t dataset = H5Dopen2(file, path, H5P_DEFAULT);
    const hid_t properties = H5Dget_create_plist(dataset);
    hsize_t rows = 0;
    EXPECT_EQ(H5Pget_chunk(properties, 1, &rows), 1) << path;
    H5Pclose(properties);
    H5Dclose(dataset);
    return rows;
  };
  EXPECT_EQ(chunk_rows("events/ops"), 3u);
  EXPECT_EQ(chunk_rows("none"), 1u);
  EXPECT_EQ(chunk_rows("code/all"), 5u);
  EXPECT_EQ(chunk_rows("many"), 16384u);
  H5Fclose(file);
}

TEST_F(Hdf5FileTest, TheSameContentsGiveTheSameBytes) {
  write_hdf5(path_, kKind, contents_);
  const std::vector<char> first = bytes();
  ::sleep(1);  // The clock of HDF5's modification times counts seconds.
  write_hdf5(path_, kKind, contents_);
  EXPECT_EQ(bytes(), first);
}

TEST_F(Hdf5FileTest, OtherProgramsReadTheTables) {
  if (std::system("python3 -c 'import h5py' 2>/dev/null") != 0) GTEST_SKIP() << "no h5py here";
  write_hdf5(path_, kKind, contents_);
  const std::string command =
      "python3 -c \"import h5py; f=h5py.File('" + path_ +
      "'); t=f['events/ops'][:]; assert t['cycles'].tolist()==[1,1<<40,3]; "
      "assert t['name'][0]==b'fusion.1'; assert f.attrs['workload'] in ('mlp', b'mlp')\"";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(Hdf5FileTest, PandasReadsTheTables) {
  if (std::system("python3 -c 'import pandas, tables' 2>/dev/null") != 0) {
    GTEST_SKIP() << "no pandas with PyTables here";
  }
  write_hdf5(path_, kKind, contents_);
  const std::string command = "python3 -c \"import pandas; t=pandas.read_hdf('" + path_ +
                              "', 'events/ops'); assert t['cycles'].tolist()==[1,1<<40,3]\"";
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(Hdf5FileTest, AFileCutAnywhereIsAnError) {
  write_hdf5(path_, kKind, contents_);
  const std::vector<char> whole = bytes();
  for (std::size_t length = 0; length < whole.size(); length += 101) {
    set_bytes({whole.begin(), whole.begin() + static_cast<long>(length)});
    EXPECT_NE(error_of_reading(), "") << length;
  }
  set_bytes({whole.begin(), whole.begin() + static_cast<long>(whole.size() / 2)});
  EXPECT_EQ(error_of_reading(), path_ + ": expected " + std::to_string(whole.size() - 512) +
                                    " bytes behind the first 512, found " +
                                    std::to_string(whole.size() / 2 - 512) +
                                    ": the file is not complete");
}

TEST_F(Hdf5FileTest, AChangedBitIsAnError) {
  write_hdf5(path_, kKind, contents_);
  const std::vector<char> whole = bytes();
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    std::vector<char> changed = whole;
    changed[512 + random() % (changed.size() - 512)] ^= static_cast<char>(1 << (random() % 8));
    set_bytes(changed);
    const std::string error = error_of_reading();
    EXPECT_EQ(error.substr(error.rfind(": ")), ": the file has changed since it was written");
  }
}

TEST_F(Hdf5FileTest, AnotherVersionIsRefused) {
  write_hdf5(path_, {"run", 2}, contents_);
  EXPECT_EQ(error_of_reading(), path_ + ": expected version 1 of a run file, found version 2; " +
                                    "write it again with this tpusim");
}

TEST_F(Hdf5FileTest, AnotherKindIsRefused) {
  write_hdf5(path_, {"program", 1}, contents_);
  EXPECT_EQ(error_of_reading(), path_ + ": expected a run file of tpusim, found a program file");
  EXPECT_EQ(kind_of_file(path_), "program");
}

TEST_F(Hdf5FileTest, OtherFilesAreRefused) {
  std::ofstream(path_) << "hello";
  EXPECT_EQ(error_of_reading(),
            path_ + ": expected a run file of tpusim, found another kind of " + "file");
  EXPECT_EQ(kind_of_file(path_), "");
  path_ = folder_.string();
  EXPECT_EQ(error_of_reading(), path_ + ": expected a run file of tpusim, found a directory");
  path_ = (folder_ / "no").string();
  EXPECT_EQ(error_of_reading(),
            path_ + ": expected a run file of tpusim: No such file or directory");
  EXPECT_EQ(kind_of_file(path_), "");
}

TEST_F(Hdf5FileTest, AMissingTableOrColumnIsNamed) {
  write_hdf5(path_, kKind, contents_);
  const Hdf5Contents back = read_hdf5(path_, kKind);
  const auto error_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const WorkloadError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of([&] { back.table("steps"); }), path_ + ": expected a table \"steps\"");
  EXPECT_EQ(error_of([&] { back.attribute("x"); }), path_ + ": expected an attribute \"x\"");
  EXPECT_EQ(error_of([&] { back.byte_array("x"); }), path_ + ": expected an array \"x\"");
  EXPECT_EQ(error_of([&] { back.table("events/ops").column<double>("cycles"); }),
            path_ + ": events/ops: expected a column \"cycles\"");
}

TEST_F(Hdf5FileTest, AFullDeviceIsAnErrorAndLeavesNothing) {
  EXPECT_THROW(write_hdf5("/dev/full", kKind, contents_), UsageError);
  EXPECT_THROW(write_hdf5(folder_.string(), kKind, contents_), UsageError);
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace tpu::traces::hdf5_file_test
