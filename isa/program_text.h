#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "isa/assembler_cursor.h"
#include "isa/program.h"

namespace tpu::isa {

/// Bytes of an array in HBM, with the padding of its tiles and without.
struct ArraySize {
  std::uint64_t padded = 0;
  std::uint64_t unpadded = 0;
};
/// Of a shape in HLO's notation, with layout; throws WorkloadError for a text that is none. (What
/// layouts mean is known to the readers of HLO, not here.)
using SizeOfShape = std::function<ArraySize(const std::string& shape)>;

/// What the text of a program says before its first kernel:
///
///     chip v3                      /* whose code it is; absent: any */
///     conventions xla              /* addresses, weights and waits as in XLA's code for that chip
///     */ cores 8                      /* that its collectives span */ examples 128 /* of a step on
///     a core */ infeed_bytes 98304           /* of a step on a core; infeed_host_bytes: what the
///     host sends */ smem 0x200 = 17              /* a word that is there at the start, on every
///     core */ site 0 calls scale as mul.7  /* inlined_call site = 0: a kernel by name or number;
///     the op */ parameter 0 x f32[8,128]{1,0:T(8,128)} at 4 output 0 y f32[8,128]{1,0:T(8,128)}
///     bytes 8192 at 8 zeroed constant 0 table bytes 1024 at 12 = { 1, 0.5, 0x7f800000 }
///
/// Buffers (parameter, output, temporary, constant, infeed) stand for a range of the HBM from a
/// granule of 1 KiB on; parameters are read from --inputs, outputs written to --outputs by number.
/// `site 1 calls scale_loads opening 0`: it starts the DMAs that the call of site 0 begins with.
/// Without `site`, site N calls kernel N.
class ProgramText {
 public:
  ProgramText(AssemblerCursor& cursor, SizeOfShape size_of)
      : cursor_(cursor), size_of_(std::move(size_of)) {}

  /// Reads a statement if one stands here.
  bool take();
  /// The program of these statements and kernels.
  Program finish(std::vector<Kernel> kernels);

 private:
  struct Site {
    std::string kernel;
    std::string op;
    std::uint32_t opens = CallSite::kOpensNothing;
    const char* place = nullptr;
  };

  void chip();
  void conventions();
  void smem();
  void site();
  void buffer(BufferRole role);
  void size(Buffer& buffer);
  void contents(Buffer& buffer);
  std::uint32_t called(const Site& site) const;

  AssemblerCursor& cursor_;
  SizeOfShape size_of_;
  Program program_;
  std::vector<Site> sites_;
};

/// A whole program as text; throws WorkloadError as assemble() does.
Program assemble_program(std::string_view text, const std::string& file_name,
                         const SizeOfShape& size_of);

/// A program so that assemble_program() reads the same kernels, call sites, buffers and start. What
/// is known of operations beyond their names (source, FLOPs), and of loops, is left out.
void print_program(std::ostream& out, const Program& program);

}  // namespace tpu::isa
