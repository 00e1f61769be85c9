#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <sstream>

#include "isa/assembler.h"
#include "models/machine.h"
#include "sim/base/error.h"
#include "tests/fuzz/edits.h"
#include "tests/fuzz/memory_file.h"
#include "tests/fuzz/one_input.h"
#include "tests/traces/synthetic_record.h"
#include "traces/perfetto.h"
#include "traces/program_file.h"
#include "traces/run_file.h"

namespace {

constexpr std::size_t kBlock = 512;  ///< In front of the HDF5 data.

tpu::isa::Program program() {
  tpu::isa::Program program;
  program.name = "fuzz";
  program.chip = "v3";
  program.kernels = tpu::isa::assemble(
      "kernel top\n{ %s1 = smov 3 }\n{ dma.hbm_to_vmem 0, 4, 0, 8 }\n{ dma.done.wait 8, 4 }\n"
      "{ inlined_call site = 0 }\n{ %s2 = sadd.s32 %s1, 1 }\n"
      "kernel callee\nloop:\n{ %s1 = ssub.s32 %s1, 1 }\n{ %p1 = scmp.gt.s32.totalorder %s1, 0 }\n"
      "{ sbr.rel (%p1) target = loop }\n{ %v1 = vld [vmem:$0x0] }\n{ vst [vmem:$0x8] %v1 }\n",
      "fuzz.tpu");
  program.call_sites.resize(1);
  program.call_sites[0].kernel = 1;
  program.ops.resize(1);
  program.ops[0].name = "callee";
  tpu::isa::Buffer buffer;
  buffer.name = "x";
  buffer.granule = 4;
  buffer.bytes = 4096;
  buffer.shape = "f32[8,128]";
  program.buffers.push_back(buffer);
  return program;
}

std::string bytes_of(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  std::string text;
  char piece[4096];
  for (std::size_t n = 0; (n = std::fread(piece, 1, sizeof(piece), file)) > 0;) {
    text.append(piece, n);
  }
  std::fclose(file);
  return text;
}

/// Our files as they should be.
std::string written(bool is_run) {
  const std::string path = "/tmp/tpusim-fuzz-" + std::to_string(::getpid()) + ".h5";
  if (is_run) {
    tpu::traces::write_run_file(path, tpu::test::synthetic_record_with_events());
  } else {
    tpu::traces::write_program_file(path, program());
  }
  std::string text = bytes_of(path);
  ::unlink(path.c_str());
  return text;
}

const std::string& right_file(bool is_run) {
  static const std::string files[] = {written(false), written(true)};
  return files[is_run ? 1 : 0];
}

/// Makes length and checksum in front of changed data right again: the reader is to see them.
void sign(std::string& file) {
  const std::string_view block(file.data(), std::min(file.size(), kBlock));
  std::ostringstream text;
  const std::size_t bytes = block.find("\nbytes: ");
  if (bytes == std::string_view::npos || file.size() <= kBlock) return;
  const auto* data = reinterpret_cast<const unsigned char*>(file.data()) + kBlock;
  text << block.substr(0, bytes) << "\nbytes: " << file.size() - kBlock << "\ncrc32: " << std::hex
       << crc32_z(crc32_z(0, nullptr, 0), data, file.size() - kBlock)
       << "\nAn HDF5 file with a user block of 512 bytes: h5py and pandas.read_hdf read it.\n";
  std::string front = text.str();
  front.resize(kBlock, '\0');
  file.replace(0, kBlock, front);
}

void run(const tpu::isa::Program& program) {
  tpu::RunOptions options;
  options.cores = {0};
  options.max_step_cycles = options.runaway_cycles = 20000;
  tpu::Machine(tpu::MachineParams(), program).run(options);
}

}  // namespace

/// HDF5 asks for as much memory as a damaged file says that a header has, before it finds that the
/// file is shorter: the sanitizer refuses as the system does. What is touched counts (fuzz.sh).
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  right_file(false);
  return 0;
}

/// The first byte says which file: a compiled program or the results of a run; the others change
/// it. What is read is run, or exported.
void tpu::fuzz::one_input(const std::uint8_t* data, std::size_t size) {
  static tpu::fuzz::MemoryFile file;
  if (size == 0) return;
  const bool is_run = data[0] % 2 == 1;
  std::string text = right_file(is_run);
  tpu::fuzz::Edits edits(data + 1, size - 1);
  const std::string block = text.substr(0, kBlock);
  text.erase(0, kBlock);
  while (edits.more()) edits.change(text);
  text.insert(0, block);
  sign(text);
  file.set(text.data(), text.size());
  try {
    if (is_run) {
      tpu::traces::export_perfetto(tpu::traces::read_run_file(file.path()), "/dev/null");
    } else {
      run(tpu::traces::read_program_file(file.path()));
    }
  } catch (const tpu::UserError&) {
  }
}
