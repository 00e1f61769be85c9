#include "workloads/xla/captured_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "isa/disassembler.h"
#include "isa/kernel_encoding.h"
#include "sim/base/error.h"
#include "tests/spoil.h"
#include "workloads/xla/kernel_listing.h"
#include "workloads/xla/listing_files.h"

namespace tpu::test::captured_folder_test {
namespace {

namespace fs = std::filesystem;
using isa::BufferRole;
using isa::Program;

const std::string kReference = TPUSIM_SOURCE_DIR "/../shared/xla";
const std::string kMlp = TPUSIM_SOURCE_DIR "/workloads/captured/mlp";

#define SKIP_WITHOUT_REFERENCE_DATA() \
  if (!fs::is_directory(kReference)) GTEST_SKIP() << "no reference data at " << kReference

std::string error_of(const std::string& folder, const std::string& chip) {
  try {
    xla::load_captured(folder, chip);
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "no error";
}

/// A folder with the files of a captured program unpacked, so that a test can spoil one.
class UnpackedMlp {
 public:
  UnpackedMlp() : folder_(fs::temp_directory_path() / ("tpusim_" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "v3.bundles");
    fs::copy(kMlp + "/v3.scheduled.hlo.gz", folder_ / "v3.scheduled.hlo.gz");
    files_ = xla::read_listing_files(kMlp + "/v3.bundles.tar.xz");
    for (const auto& [name, kernel] : files_.kernels) {
      const std::string prefix = std::to_string(kernel.fingerprint) + "-" + name;
      write(prefix + "-71-final_bundles.txt", kernel.final_bundles.text);
      write(prefix + "-65-post-bundle-packing-post-ra.txt", kernel.packed.text);
    }
    write("1-TLP-00-deduplication-map.txt", files_.deduplication.text);
    write("1-TLP-hlo.txt", files_.hlo.text);
  }
  ~UnpackedMlp() { fs::remove_all(folder_); }
  UnpackedMlp(const UnpackedMlp&) = delete;
  UnpackedMlp& operator=(const UnpackedMlp&) = delete;

  std::string path() const { return folder_.string(); }
  const xla::ListingFiles& files() const { return files_; }
  std::string final_bundles_of(const std::string& name) const {
    return std::to_string(files_.kernels.at(name).fingerprint) + "-" + name +
           "-71-final_bundles.txt";
  }
  std::string packed_of(const std::string& name) const {
    return std::to_string(files_.kernels.at(name).fingerprint) + "-" + name +
           "-65-post-bundle-packing-post-ra.txt";
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / "v3.bundles" / name, std::ios::binary) << text;
  }
  void remove(const std::string& name) const { fs::remove(folder_ / "v3.bundles" / name); }
  /// A kernel that the top-level program calls, by name.
  std::string some_kernel() const {
    for (const auto& [name, kernel] : files_.kernels) {
      if (name != "TLP" && name[0] != '<') return name;
    }
    return "";
  }

 private:
  fs::path folder_;
  xla::ListingFiles files_;
};

TEST(CapturedFolder, TheModuleIsTakenFromTheFileWithTheNames) {
  const fs::path folder =
      fs::temp_directory_path() / ("tpusim_before_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  EXPECT_EQ(xla::hlo_before_optimisation(folder.string()), "");
  for (const char* name : {"before.hlo", "before.hlo.gz", "before.hlo.pb.gz"}) {
    std::ofstream(folder / name) << "x";
    EXPECT_EQ(fs::path(xla::hlo_before_optimisation(folder.string())).filename(), name);
  }
  fs::remove_all(folder);
}

TEST(CapturedFolder, TextsOfAnArchiveTakeNoMoreMemoryThanTheyAreLong) {
  const UnpackedMlp mlp;
  const std::string archive = mlp.path() + "/v3.bundles.tar.xz";
  std::ofstream(mlp.path() + "/v3.bundles/7-empty-1-final_bundles.txt") << "";
  ASSERT_EQ(std::system(("tar -czf " + archive + " -C " + mlp.path() + " v3.bundles").c_str()), 0);
  const xla::ListingFiles files = xla::read_listing_files(archive);
  EXPECT_EQ(files.kernels.count("empty"), 1u);
  const std::size_t smallest = std::string().capacity();
  for (const auto& [name, kernel] : files.kernels) {
    for (const std::string* text : {&kernel.final_bundles.text, &kernel.packed.text}) {
      EXPECT_LE(text->capacity(), std::max(smallest, text->size())) << name;
    }
  }
}

TEST(CapturedFolder, LinksTheProjectsOwnProgram) {
  for (const std::string chip : {"v2", "v3"}) {
    const Program program = xla::load_captured(kMlp, chip);
    EXPECT_EQ(program.chip, chip);
    EXPECT_EQ(program.cores, 1u);
    EXPECT_EQ(program.kernels.at(0).name, "TLP");
    EXPECT_GT(program.call_sites.size(), 3u);
    for (const isa::CallSite& site : program.call_sites) {
      EXPECT_GT(site.kernel, 0u);
      EXPECT_LT(site.kernel, program.kernels.size());
      EXPECT_LT(site.op, program.ops.size());
    }
    std::size_t sourced = 0;
    for (const isa::OpInfo& op : program.ops) sourced += op.source.empty() ? 0 : 1;
    EXPECT_GT(sourced, 0u);
    EXPECT_GT(program.model_flops, 0u);
  }
}

TEST(CapturedFolder, PlacesBuffersApartButForAliasesAndTemporaries) {
  const Program program = xla::load_captured(kMlp, "v3");
  std::map<std::uint64_t, std::uint64_t> ranges;
  std::size_t outputs_in_parameters = 0;
  for (const isa::Buffer& buffer : program.buffers) {
    EXPECT_GE(buffer.granule, 1u);
    EXPECT_EQ(buffer.granule % 16, 0u) << buffer.name;  // as XLA's own offsets are
    EXPECT_LE(buffer.granule * 1024 + buffer.bytes, program.hbm_peak_bytes);
    if (buffer.role == BufferRole::kTemporary) continue;
    const bool shared = ranges.count(buffer.granule) != 0;
    if (buffer.role == BufferRole::kOutput && shared) {
      ++outputs_in_parameters;
      continue;
    }
    EXPECT_FALSE(shared) << buffer.name;
    ranges[buffer.granule] = (buffer.bytes + 1023) / 1024;
  }
  EXPECT_GT(outputs_in_parameters, 0u);
  std::uint64_t end = 0;
  for (const auto& [granule, count] : ranges) {
    EXPECT_GE(granule, end);
    end = granule + count;
  }
}

TEST(CapturedFolder, MatmulOfTheReferenceHasTheScheduleThatTheTextStates) {
  SKIP_WITHOUT_REFERENCE_DATA();
  const Program program = xla::load_captured(kReference + "/ops/matmul_f32_512x512x512", "v3");
  const auto fusion =
      std::find_if(program.kernels.begin(), program.kernels.end(),
                   [](const isa::Kernel& kernel) { return kernel.name == "fusion"; });
  ASSERT_NE(fusion, program.kernels.end());
  std::uint64_t delays = 0;
  std::map<isa::Opcode, int> counts;
  for (const isa::Bundle& bundle : fusion->bundles) delays += bundle.delay;
  for (const isa::Instruction& instruction : fusion->instructions) ++counts[instruction.opcode];
  EXPECT_EQ(fusion->bundles.size(), 1052u);
  EXPECT_EQ(delays, 288u);
  // The weights are 4 x 4 tiles of 128 rows, 8 rows a push. A turn of the loop multiplies 128 rows,
  // 8 at a time, by each of the 16 tiles.
  EXPECT_EQ(counts[isa::Opcode::kVmatpush] + counts[isa::Opcode::kVmatpushXpose], 16 * 16);
  EXPECT_EQ(counts[isa::Opcode::kVmatmul] + counts[isa::Opcode::kVmatmulDwg], 16 * 16);
  const isa::OpInfo& op = program.ops.at(program.call_sites.at(1).op);
  EXPECT_EQ(op.name, "fusion");
  EXPECT_EQ(op.category, "convolution fusion");
  EXPECT_EQ(op.op_name, "jit(<lambda>)/dot_general");
  EXPECT_EQ(op.source, "ops.py:29");
  EXPECT_EQ(op.flops, 2u * 512 * 512 * 512);
  EXPECT_EQ(op.matmul_flops, op.flops);
  EXPECT_EQ(op.hbm_bytes, 3u * 512 * 512 * 4);
  EXPECT_EQ(op.estimated_cycles, 10192u);
}

TEST(CapturedFolder, ReadsSmallProgramsOfTheReference) {
  SKIP_WITHOUT_REFERENCE_DATA();
  int programs = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(kReference)) {
    const std::string name = entry.path().filename().string();
    if (name != "v2.bundles.tar.xz" && name != "v3.bundles.tar.xz") continue;
    if (entry.file_size() > 100'000) continue;
    EXPECT_NO_THROW(xla::load_captured(entry.path().parent_path().string(), name.substr(0, 2)))
        << entry.path();
    ++programs;
  }
  EXPECT_GT(programs, 150);
}

TEST(CapturedFolder, SaysWhatIsMissing) {
  EXPECT_EQ(error_of(kMlp + "/v3.bundles.tar.xz", "v3"),
            kMlp +
                "/v3.bundles.tar.xz: expected the folder of a captured program (with "
                "v3.bundles.tar.xz), found a file; name the folder that holds it, " +
                kMlp);
  EXPECT_EQ(error_of(kMlp + "/nowhere", "v3"),
            kMlp +
                "/nowhere: expected the folder of a captured program (with v3.bundles.tar.xz), "
                "found nothing of this name");
  const UnpackedMlp unpacked;
  EXPECT_EQ(error_of(unpacked.path(), "v2"),
            unpacked.path() +
                ": expected listings for v2 (v2.bundles.tar.xz or v2.bundles/), found "
                "none but v3.bundles");
}

TEST(CapturedFolder, ReadsAnUnpackedFolderLikeItsArchive) {
  const UnpackedMlp unpacked;
  const Program from_folder = xla::load_captured(unpacked.path(), "v3");
  const Program from_archive = xla::load_captured(kMlp, "v3");
  ASSERT_EQ(from_folder.kernels.size(), from_archive.kernels.size());
  for (std::size_t k = 0; k < from_folder.kernels.size(); ++k) {
    EXPECT_EQ(from_folder.kernels[k].instructions, from_archive.kernels[k].instructions);
  }
}

/// The text with the first `from` replaced; a test that replaces nothing would test nothing.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t place = text.find(from);
  if (place == std::string::npos) throw std::runtime_error("no " + from + " in the listing");
  return text.replace(place, from.size(), to);
}

/// An archive of files in this order, which may hold one of them twice, with a change in between.
class Archive {
 public:
  explicit Archive(const UnpackedMlp& mlp) : mlp_(mlp) {
    fs::create_directories(folder());
    fs::copy(kMlp + "/v3.scheduled.hlo.gz", folder() + "/v3.scheduled.hlo.gz",
             fs::copy_options::overwrite_existing);
    fs::remove(path());
    for (const auto& entry : fs::directory_iterator(mlp_.path() + "/v3.bundles")) {
      names_.push_back(entry.path().filename().string());
    }
    std::sort(names_.begin(), names_.end());
  }

  std::string folder() const { return mlp_.path() + "/archive"; }
  void add(const std::string& name) const {
    const std::string command =
        "tar -rf '" + path() + "' -C '" + mlp_.path() + "' 'v3.bundles/" + name + "'";
    if (std::system(command.c_str()) != 0) throw std::runtime_error(command);
  }
  /// Those of the top-level program, or all others.
  void add_all(bool top_level) const {
    for (const std::string& name : names_) {
      if ((name.find("-TLP-") != std::string::npos) == top_level) add(name);
    }
  }

 private:
  std::string path() const { return folder() + "/v3.bundles.tar.xz"; }

  const UnpackedMlp& mlp_;
  std::vector<std::string> names_;
};

void expect_same_code(const Program& a, const Program& b) {
  EXPECT_EQ(isa::encode_kernels(a.kernels), isa::encode_kernels(b.kernels));
  ASSERT_EQ(a.call_sites.size(), b.call_sites.size());
  for (std::size_t i = 0; i < a.call_sites.size(); ++i) {
    EXPECT_EQ(a.call_sites[i].kernel, b.call_sites[i].kernel);
    EXPECT_EQ(a.call_sites[i].operand_names, b.call_sites[i].operand_names);
  }
}

TEST(CapturedFolder, KernelsAreTheSameBeforeAndBehindTheTopLevelProgram) {
  const UnpackedMlp mlp;
  const Program expected = xla::load_captured(kMlp, "v3");
  for (const bool top_level_first : {true, false}) {
    const Archive archive(mlp);
    archive.add_all(top_level_first);
    archive.add_all(!top_level_first);
    expect_same_code(xla::load_captured(archive.folder(), "v3"), expected);
  }
}

TEST(CapturedFolder, ListingsAreReadAsTheyComeOutOfAnArchive) {
  const UnpackedMlp mlp;
  const Archive archive(mlp);
  archive.add_all(true);
  archive.add_all(false);
  xla::EarlyListings early("v3", isa::CodeNames::kAll);
  const auto files = xla::read_listing_files(
      archive.folder() + "/v3.bundles.tar.xz",
      [&](xla::ListingFiles& so_far, const std::string& kernel, std::string_view bundles) {
        return early.take(so_far, kernel, bundles);
      });
  EXPECT_TRUE(early.fit(files));
  for (const auto& [name, kernel] : files.kernels) {
    EXPECT_EQ(kernel.read.has_value(), name != "TLP") << name;
    EXPECT_EQ(kernel.final_bundles.text.empty(), name != "TLP") << name;
    EXPECT_EQ(kernel.packed.text.empty(), name != "TLP") << name;
  }
}

TEST(CapturedFolder, OfAListingThatComesTwiceTheLastCounts) {
  const UnpackedMlp mlp;
  const std::string kernel = mlp.some_kernel();
  const std::string name = mlp.final_bundles_of(kernel);
  const std::string& text = mlp.files().kernels.at(kernel).final_bundles.text;
  const std::string other = with(text, " = vld ", " = vld.odd ");
  const Archive wrong_first(mlp);
  wrong_first.add_all(true);
  wrong_first.add_all(false);
  mlp.write(name, other);
  wrong_first.add(name);
  EXPECT_NE(error_of(wrong_first.folder(), "v3").find("\"vld.odd\""), std::string::npos);
  const Archive right_last(mlp);
  right_last.add_all(true);
  right_last.add_all(false);
  mlp.write(name, text);
  right_last.add(name);
  expect_same_code(xla::load_captured(right_last.folder(), "v3"), xla::load_captured(kMlp, "v3"));
}

TEST(CapturedFolder, ATopLevelProgramThatComesLaterPlacesTheKernels) {
  const UnpackedMlp mlp;
  const std::string packed = mlp.files().kernels.at("TLP").packed.text;
  const std::string highest = "9999999999999999999-TLP-";  // Of all fingerprints.
  mlp.write(highest + "65-post-bundle-packing-post-ra.txt",
            packed +
                "#allocation99999 [shape = 'u8[8192]{0}', space=smem, size = 0x2000, "
                "offset = 0x100, scoped, tag = 'much']\n");
  mlp.write(highest + "71-final_bundles.txt", mlp.files().kernels.at("TLP").final_bundles.text);
  const Archive late(mlp);
  late.add_all(true);
  late.add_all(false);
  const Program expected = xla::load_captured(late.folder(), "v3");
  const Archive early(mlp);
  early.add(mlp.packed_of("TLP"));
  early.add(mlp.final_bundles_of("TLP"));
  early.add_all(false);
  early.add_all(true);
  expect_same_code(xla::load_captured(early.folder(), "v3"), expected);
  EXPECT_NE(isa::encode_kernels(expected.kernels),
            isa::encode_kernels(xla::load_captured(kMlp, "v3").kernels));
}

TEST(CapturedFolder, CodeIsTheSameWithoutNames) {
  const Program named = xla::load_captured(kMlp, "v3");
  const Program nameless = xla::load_captured(kMlp, "v3", isa::CodeNames::kNone);
  ASSERT_EQ(named.kernels.size(), nameless.kernels.size());
  for (std::size_t k = 0; k < named.kernels.size(); ++k) {
    EXPECT_EQ(named.kernels[k].instructions, nameless.kernels[k].instructions);
    EXPECT_EQ(named.kernels[k].names.size(), named.kernels[k].instructions.size());
    EXPECT_TRUE(nameless.kernels[k].names.empty() && nameless.kernels[k].renamings.empty());
  }
}

TEST(CapturedFolder, NamesAMissingKernel) {
  const UnpackedMlp unpacked;
  const std::string kernel = unpacked.some_kernel();
  unpacked.remove(unpacked.final_bundles_of(kernel));
  const std::string error = error_of(unpacked.path(), "v3");
  EXPECT_NE(error.find("the top-level program calls " + kernel + "; expected its listings"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("found one of the two"), std::string::npos) << error;
}

TEST(CapturedFolder, NamesTheUnknownInstructionsOfAllKernels) {
  const UnpackedMlp folder;
  const std::string kernel = folder.some_kernel();
  const auto& kernels = folder.files().kernels;
  folder.write(folder.final_bundles_of("TLP"),
               with(kernels.at("TLP").final_bundles.text, " = sld ", " = sld.odd "));
  folder.write(folder.final_bundles_of(kernel),
               with(with(kernels.at(kernel).final_bundles.text, " = vld ", " = vld.odd "),
                    " = smov ", " = sld.odd "));
  const std::string error = error_of(folder.path(), "v3");
  EXPECT_NE(error.find(": kernel TLP: expected an instruction of libtpu 0.0.42.1, found "
                       "\"sld.odd\" (the nearest known is \"sld\"); all that are unknown: "
                       "\"sld.odd\" (2 times in 2 kernels), \"vld.odd\" (1 time in 1 kernel, first "
                       "in kernel " +
                       kernel + " in line "),
            std::string::npos)
      << error;
}

TEST(CapturedFolder, NamesAMissingTopLevelProgram) {
  const UnpackedMlp unpacked;
  unpacked.remove(unpacked.final_bundles_of("TLP"));
  EXPECT_NE(error_of(unpacked.path(), "v3").find("both listings of the top-level program"),
            std::string::npos);
}

TEST(CapturedFolder, FindsAKernelCutInHalf) {
  const UnpackedMlp unpacked;
  const std::string kernel = unpacked.some_kernel();
  const std::string& text = unpacked.files().kernels.at(kernel).final_bundles.text;
  unpacked.write(unpacked.final_bundles_of(kernel), text.substr(0, text.size() / 2));
  const std::string error = error_of(unpacked.path(), "v3");
  EXPECT_NE(error.find(unpacked.final_bundles_of(kernel) + ":"), std::string::npos) << error;
  EXPECT_NE(error.find("expected"), std::string::npos) << error;
  // Cut at the end of a line, too: the other file tells how long the kernel is.
  unpacked.write(unpacked.final_bundles_of(kernel),
                 text.substr(0, text.rfind('\n', text.size() / 2) + 1));
  EXPECT_NE(error_of(unpacked.path(), "v3").find("expected"), std::string::npos);
}

TEST(CapturedFolder, RefusesListingsOfAnotherChip) {
  const UnpackedMlp unpacked;
  fs::rename(unpacked.path() + "/v3.bundles", unpacked.path() + "/v2.bundles");
  fs::rename(unpacked.path() + "/v3.scheduled.hlo.gz", unpacked.path() + "/v2.scheduled.hlo.gz");
  const std::string error = error_of(unpacked.path(), "v2");
  EXPECT_NE(error.find("expected instructions of TPU v2"), std::string::npos) << error;
}

TEST(CapturedFolder, RefusesABrokenArchive) {
  const fs::path folder =
      fs::temp_directory_path() / ("tpusim_broken_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  fs::copy(kMlp + "/v3.scheduled.hlo.gz", folder / "v3.scheduled.hlo.gz",
           fs::copy_options::overwrite_existing);
  std::ifstream whole(kMlp + "/v3.bundles.tar.xz", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(whole)),
                          std::istreambuf_iterator<char>());
  for (const std::string& spoilt :
       {bytes.substr(0, bytes.size() / 2), std::string(1 << 20, '{'), std::string()}) {
    std::ofstream(folder / "v3.bundles.tar.xz", std::ios::binary) << spoilt;
    EXPECT_EQ(error_of(folder.string(), "v3").find(folder.string()), 0u)
        << error_of(folder.string(), "v3");
  }
  fs::remove_all(folder);
}

/// TPUSIM_CORRUPTED asks for more.
TEST(CapturedFolder, ADamagedFileIsReadOrRefusedInOneLine) {
  const char* wanted = std::getenv("TPUSIM_CORRUPTED");
  const std::size_t files = wanted == nullptr ? 8 : std::strtoul(wanted, nullptr, 10);
  const UnpackedMlp unpacked;
  const std::string kernel = unpacked.some_kernel();
  const xla::ListingFiles& whole = unpacked.files();
  const std::vector<std::pair<std::string, std::string>> texts{
      {"1-TLP-hlo.txt", whole.hlo.text},
      {"1-TLP-00-deduplication-map.txt", whole.deduplication.text},
      {unpacked.final_bundles_of(kernel), whole.kernels.at(kernel).final_bundles.text},
      {unpacked.final_bundles_of("TLP"), whole.kernels.at("TLP").final_bundles.text}};
  ASSERT_EQ(error_of(unpacked.path(), "v3"), "no error");
  std::mt19937 random(20261126);
  std::size_t refused = 0;
  for (std::size_t i = 0; i < files; ++i) {
    const auto& [name, text] = texts[i % texts.size()];
    unpacked.write(name, spoil(text, random));
    const std::string error = error_of(unpacked.path(), "v3");
    unpacked.write(name, text);
    if (error == "no error") continue;
    ++refused;
    EXPECT_EQ(error.find(unpacked.path()), 0u) << name << " " << i << ": " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << name << " " << i << ": " << error;
  }
  EXPECT_GT(refused, files / 3);
  EXPECT_EQ(error_of(unpacked.path(), "v3"), "no error");
}

}  // namespace
}  // namespace tpu::test::captured_folder_test
