#include "sim/app/listing_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/app/program_fixture.h"
#include "traces/program_file.h"
#include "workloads/xla/captured_folder.h"

namespace tpu::app::listing_cache_test {
namespace {

class ListingCacheTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    captured_ = folder_ / "mlp";
    cache_ = folder_ / "kept" / "listings";
    fs::copy(TPUSIM_SOURCE_DIR "/workloads/captured/mlp", captured_);
  }

  isa::Program load(const ListingCache::Limits& limits = {1, 1 << 30}) const {
    return ListingCache(cache_.string(), limits).load(captured_.string(), "v3");
  }
  /// The bytes of its program file: everything that a program is.
  std::string bytes_of(const isa::Program& program) const {
    const fs::path path = folder_ / "program.h5";
    traces::write_program_file(path.string(), program);
    return text_of(path);
  }
  std::string read_text() const { return bytes_of(xla::load_captured(captured_.string(), "v3")); }
  std::vector<fs::path> kept() const {
    std::vector<fs::path> files;
    if (!fs::exists(cache_)) return files;
    for (const auto& entry : fs::directory_iterator(cache_)) files.push_back(entry.path());
    return files;
  }

  fs::path captured_, cache_;
};

TEST_F(ListingCacheTest, TheProgramIsTheSameAsTheOneThatWasRead) {
  const std::string expected = read_text();
  EXPECT_EQ(bytes_of(load()), expected);
  ASSERT_EQ(kept().size(), 1u);
  EXPECT_EQ(bytes_of(load()), expected);
  EXPECT_EQ(kept().size(), 1u);
}

/// What lies under the right name is what is taken: the second time nothing is read.
TEST_F(ListingCacheTest, TheSecondTimeTheKeptProgramIsTaken) {
  load();
  isa::Program marked = traces::read_program_file(kept().at(0).string());
  marked.name = "out of the cache";
  traces::write_program_file(kept().at(0).string(), marked);
  EXPECT_EQ(load().name, "out of the cache");
}

TEST_F(ListingCacheTest, OtherContentsHaveAnotherName) {
  load();
  std::string facts = text_of(captured_ / "facts.json");
  const std::size_t at = facts.find("\"batch\":");
  ASSERT_NE(at, std::string::npos);
  facts.insert(facts.find_first_of("0123456789", at), "9");
  std::ofstream(captured_ / "facts.json") << facts;
  EXPECT_EQ(bytes_of(load()), read_text());
  EXPECT_EQ(kept().size(), 2u);
  ListingCache(cache_.string(), {1, 1 << 30}).load(captured_.string(), "v2");
  EXPECT_EQ(kept().size(), 3u);
}

/// Without names a program is another file, and has no name in it, out of the cache or not.
TEST_F(ListingCacheTest, NamesAreKeptForWhoeverAsksForThem) {
  const auto without = [&](const std::string& folder) {
    return ListingCache(folder, {1, 1 << 30}).load(captured_.string(), "v3", isa::CodeNames::kNone);
  };
  const std::string expected = read_text();
  const std::string nameless = bytes_of(without(cache_.string()));
  EXPECT_LT(nameless.size(), expected.size());
  ASSERT_EQ(kept().size(), 1u);
  EXPECT_EQ(bytes_of(load()), expected);
  EXPECT_EQ(kept().size(), 2u);
  EXPECT_EQ(bytes_of(without(cache_.string())), nameless);
  EXPECT_EQ(bytes_of(without("")), nameless);
  EXPECT_EQ(kept().size(), 2u);
  const isa::Program program = without(cache_.string());
  for (const isa::Kernel& kernel : program.kernels) {
    EXPECT_TRUE(kernel.names.empty() && kernel.renamings.empty() && kernel.operand_names.empty());
  }
  for (const isa::CallSite& site : program.call_sites) EXPECT_TRUE(site.operand_names.empty());
}

/// A run that computes values checks names, and so has to get them; `compile` writes them.
TEST_F(ListingCacheTest, RunsWithValuesAndCompiledProgramsHaveNames) {
  fs::create_directory(captured_ / "v3.bundles");
  const std::string unpack = "tar -xJf " + (captured_ / "v3.bundles.tar.xz").string() +
                             " --strip-components=1 -C " + (captured_ / "v3.bundles").string();
  ASSERT_EQ(std::system(unpack.c_str()), 0);
  fs::remove(captured_ / "v3.bundles.tar.xz");
  std::ofstream(captured_ / "v3.bundles" / "padding.txt") << std::string(1 << 20, ' ');
  ::setenv("TPUSIM_CACHE", cache_.c_str(), 1);
  EXPECT_EQ(tpusim("run ./mlp --cores 1").exit_code, 0);
  ASSERT_EQ(kept().size(), 1u);
  EXPECT_TRUE(traces::read_program_file(kept()[0].string()).kernels.at(0).names.empty());
  fs::remove(kept()[0]);
  EXPECT_EQ(tpusim("run ./mlp --cores 1 --check").exit_code, 0);
  ASSERT_EQ(kept().size(), 1u);
  EXPECT_FALSE(traces::read_program_file(kept()[0].string()).kernels.at(0).names.empty());
  EXPECT_EQ(tpusim("compile ./mlp --cores 1 -o p.h5").exit_code, 0);
  EXPECT_FALSE(traces::read_program_file((folder_ / "p.h5").string()).kernels.at(0).names.empty());
  EXPECT_EQ(kept().size(), 1u);
  ::unsetenv("TPUSIM_CACHE");
}

TEST_F(ListingCacheTest, ADamagedFileIsReadAnewAndReplaced) {
  const std::string expected = bytes_of(load());
  const fs::path path = kept().at(0);
  const std::string whole = text_of(path);
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{100}, whole.size() / 2, whole.size()}) {
    std::string damaged = whole.substr(0, bytes);
    if (bytes == whole.size()) damaged[bytes / 3] ^= 1;
    std::ofstream(path, std::ios::binary) << damaged;
    EXPECT_EQ(bytes_of(load()), expected) << bytes;
    EXPECT_EQ(text_of(path), whole) << bytes;
  }
}

TEST_F(ListingCacheTest, AFolderThatCantBeIsNoError) {
  std::ofstream(folder_ / "kept") << "a file where the folder would be";
  EXPECT_EQ(bytes_of(load()), read_text());
  EXPECT_EQ(text_of(folder_ / "kept"), "a file where the folder would be");
}

TEST_F(ListingCacheTest, SmallListingsAreNotKept) {
  load({1 << 20, 1 << 30});
  EXPECT_TRUE(kept().empty());
}

TEST_F(ListingCacheTest, TheOldestGoWhereThereIsNoRoom) {
  load();
  const fs::path first = kept().at(0);
  const auto bytes = fs::file_size(first);
  fs::last_write_time(first, fs::file_time_type::clock::now() - std::chrono::hours(1));
  std::ofstream(cache_ / "of somebody else.h5") << std::string(2 * bytes, 'x');
  ListingCache(cache_.string(), {1, bytes + bytes / 2}).load(captured_.string(), "v2");
  EXPECT_FALSE(fs::exists(first));
  EXPECT_EQ(kept().size(), 2u);
  EXPECT_TRUE(fs::exists(cache_ / "of somebody else.h5"));
}

TEST_F(ListingCacheTest, ProcessesShareAFolder) {
  const std::string expected = read_text();
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int round = 0; round < 5; ++round) {
        // With room for nothing each throws away what the others have just written.
        const isa::Program program = load({1, round % 2 == 0 ? std::uint64_t{1} << 30 : 1});
        if (program.kernels.empty()) ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  EXPECT_EQ(bytes_of(load()), expected);
}

TEST_F(ListingCacheTest, ReportsAreTheSameWithAndWithout) {
  // Listings large enough to be kept.
  fs::create_directory(captured_ / "v3.bundles");
  const std::string unpack = "tar -xJf " + (captured_ / "v3.bundles.tar.xz").string() +
                             " --strip-components=1 -C " + (captured_ / "v3.bundles").string();
  ASSERT_EQ(std::system(unpack.c_str()), 0);
  fs::remove(captured_ / "v3.bundles.tar.xz");
  std::ofstream(captured_ / "v3.bundles" / "padding.txt") << std::string(1 << 20, ' ');
  const auto report_with = [&](const std::string& cache) {
    ::setenv("TPUSIM_CACHE", cache.c_str(), 1);
    json result = report("run ./mlp --cores 1");
    ::unsetenv("TPUSIM_CACHE");
    result.erase("simulator");
    return result;
  };
  const json expected = report_with("off");
  EXPECT_TRUE(kept().empty());
  EXPECT_EQ(report_with(cache_.string()), expected);
  EXPECT_EQ(kept().size(), 1u);
  EXPECT_EQ(report_with(cache_.string()), expected);
}

TEST_F(ListingCacheTest, TheEnvironmentSaysWhere) {
  const auto folder_with = [](const char* own, const char* caches, const char* home) {
    ::setenv("TPUSIM_CACHE", own, 1), ::setenv("XDG_CACHE_HOME", caches, 1),
        ::setenv("HOME", home, 1);
    return listing_cache_folder();
  };
  const std::string before = std::getenv("HOME") == nullptr ? "" : std::getenv("HOME");
  EXPECT_EQ(folder_with("/c", "/x", "/h"), "/c");
  EXPECT_EQ(folder_with("off", "/x", "/h"), "");
  EXPECT_EQ(folder_with("", "/x", "/h"), "/x/tpusim/listings");
  EXPECT_EQ(folder_with("", "relative", "/h"), "/h/.cache/tpusim/listings");
  EXPECT_EQ(folder_with("", "", ""), "");
  ::unsetenv("TPUSIM_CACHE"), ::unsetenv("XDG_CACHE_HOME"), ::setenv("HOME", before.c_str(), 1);
}

}  // namespace
}  // namespace tpu::app::listing_cache_test
