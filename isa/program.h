#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "isa/generation.h"
#include "isa/instruction.h"

namespace tpu::isa {

/// The virtual names that XLA's listing prints beside the physical registers of one instruction (0:
/// none). Every read checks that the register was last written under that name. `dest` is also the
/// name of a push (%305 in `%305 = vpow2 ...`); behind the names of the operands stands that of the
/// push that a pop takes, or of the pattern that vperm uses (`vpop.eup %305`: operands[0];
/// `vperm.xlu0 %7, %v8_v1`: operands[1] = 7).
struct VirtualNames {
  std::uint32_t dest = 0;
  std::uint32_t guard = 0;
  std::array<std::uint32_t, 4> operands{};
  std::array<std::uint32_t, 2> base{};
  std::uint32_t mask_register = 0;
};

/// A register that goes by another name from a bundle on (sphi, vphi, int_to_ptr: no instruction of
/// the machine).
struct Renaming {
  std::uint32_t bundle = 0;
  bool after = false;  ///< After the writes of the bundle; otherwise before its reads.
  char file = 's';     ///< s, v, p, or m.
  std::uint8_t reg = 0;
  std::uint32_t name = 0;
};

/// A straight piece of code with one entry (bundle 0) that returns behind its last bundle.
struct Kernel {
  std::string name;
  std::vector<Bundle> bundles;
  std::vector<Instruction> instructions;
  std::uint64_t vmem_bytes = 0;  ///< That its compiler gave it, from row 0 on; 0: unknown.

  /// Only for code out of XLA's listings, else empty: names[i] belongs to instructions[i].
  std::vector<VirtualNames> names;
  std::vector<Renaming> renamings;  ///< In order of bundle.
  /// Names of the operands that the caller leaves in s0, s1, ... (index = scalar register).
  std::vector<std::pair<std::uint8_t, std::uint32_t>> operand_names;

  const Instruction* begin(const Bundle& bundle) const {
    return instructions.data() + bundle.first_instruction;
  }
  const Instruction* end(const Bundle& bundle) const {
    return begin(bundle) + bundle.instruction_count;
  }
};

/// What one call of a kernel stands for in the user's model: the source of the rows of reports and
/// traces.
struct OpInfo {
  std::string name;  ///< HLO instruction, "fusion.12".
  std::string
      category;  ///< HLO category: "convolution fusion", "loop fusion", "all-reduce", "infeed", ...
  std::string op_name;  ///< Framework scope, "jit(step)/dot_general"; may be empty.
  std::string source;   ///< "file.py:12"; may be empty.
  std::string shape;    ///< HLO text of the result's shape.
  std::uint64_t flops =
      0;  ///< Useful FLOPs of one execution (2 per multiply-add), padding not counted.
  std::uint64_t matmul_flops = 0;  ///< Those of dots and convolutions among them.
  std::uint64_t padded_matmul_flops =
      0;  ///< The same with dimensions padded to the MXU; 0 where unknown.
  /// Compulsory HBM bytes of one execution: operands and results once each, unpadded; 0 where
  /// unknown. `workloads/graph/hlo_cost_analysis.h` defines FLOPs, bytes and category.
  std::uint64_t hbm_bytes = 0;
  std::uint64_t estimated_cycles = 0;  ///< XLA's own estimate, 0 where there is none.
  std::uint64_t vmem_bytes = 0;        ///< Kernel::vmem_bytes of its kernel.
};

/// A place in the code that calls a kernel.
struct CallSite {
  std::uint32_t kernel = 0;  ///< Index into Program::kernels.
  std::uint32_t op = 0;      ///< Index into Program::ops.
  /// Virtual names of the operands in s0, s1, ...: empty but for XLA's code.
  std::vector<std::pair<std::uint8_t, std::uint32_t>> operand_names;
  /// The call of the same op that this one opens: its kernel starts the DMAs that the other kernel
  /// begins with, and is no execution of the op. Nothing else touches their rows of VMEM until that
  /// one has returned. A number of a site, or kOpensNothing.
  std::uint32_t opens = kOpensNothing;

  static constexpr std::uint32_t kOpensNothing = ~std::uint32_t{0};
  bool is_opening() const { return opens != kOpensNothing; }
};

/// What an HBM buffer is to the program.
enum class BufferRole : std::uint8_t { kParameter, kOutput, kTemporary, kConstant, kInfeed };

/// A range of HBM with a meaning. Parameters and outputs may share a range (donated parameters).
struct Buffer {
  std::string name;
  BufferRole role = BufferRole::kTemporary;
  std::uint32_t index = 0;    ///< Parameter or output number, infeed leaf number.
  std::uint64_t granule = 0;  ///< First granule of 1 KiB.
  std::uint64_t bytes = 0;    ///< Size with tile padding.
  std::uint64_t unpadded_bytes = 0;
  std::string shape;                ///< HLO text with layout: "f32[512,512]{1,0:T(8,128)}".
  std::string op_name;              ///< Who made it; may be empty.
  std::vector<std::uint32_t> data;  ///< Constants: the words to load; else empty.
  /// Zeros when the program starts: memory that it may read before anything has written it.
  bool zeroed = false;
};

/// The ops between which a buffer holds data, by number in the program; both included.
struct Lifetime {
  std::uint32_t first_op = 0, last_op = 0;
};

/// A branch of the top-level program that decides over a `while` or a `conditional` of the user's
/// model.
struct ControlPoint {
  std::uint32_t bundle = 0;
  bool trip_when_taken = false;  ///< Of a loop: taken, it makes another trip; else it is left.
  /// Of a conditional: taken, these branches are left out.
  std::uint32_t first_branch = 0, end_branch = 0;
};

/// A `while` or `conditional` of the user's model as it stands in the top-level program.
struct ControlOp {
  std::string name;            ///< HLO instruction, "while.3".
  std::string op_name;         ///< Framework scope; may be empty.
  std::string source;          ///< "file.py:12"; may be empty.
  std::uint32_t branches = 0;  ///< Of a conditional; 0: a loop.
  std::vector<ControlPoint> points;
};

/// A whole linked program for one core; the cores of a data-parallel run all execute it. kernels[0]
/// is the top-level program: it runs once per step.
struct Program {
  std::string name;
  std::string chip;      ///< "v2", "v3" or "v4".
  std::string compiler;  ///< "xla" or "tpusim", with version.
  std::vector<Kernel> kernels;
  std::vector<CallSite> call_sites;
  std::vector<OpInfo> ops;
  std::vector<ControlOp> control;
  std::vector<Buffer> buffers;
  std::vector<Lifetime> lifetimes;  ///< Of the buffers; none where nobody knows who reads them.
  std::vector<std::pair<std::uint32_t, std::uint32_t>>
      initial_smem;  ///< (word address, value) on every core.
  std::uint64_t examples_per_core =
      0;  ///< Examples that one step consumes per core; 0 where unknown.
  std::uint64_t infeed_bytes =
      0;  ///< Bytes that one step takes from the infeed queue of a core; 0: no infeed.
  /// What the host sends for them: without the padding of tiles, which arises on the way into HBM
  /// (assumed). 0: infeed_bytes.
  std::uint64_t infeed_host_bytes = 0;
  /// Useful FLOPs of dots and convolutions of a step on one core, counted on the graph: loops with
  /// every trip.
  std::uint64_t model_flops = 0;
  /// Loops and conditionals of the graph whose trips and branches depend on data: model_flops holds
  /// one trip, the longest branch.
  std::uint64_t data_dependent_control = 0;
  std::uint64_t compulsory_hbm_bytes =
      0;  ///< Parameters read and written once, inputs once: the roofline's bytes per core.
  std::uint32_t cores = 1;           ///< Replicas that the collectives of the program span.
  std::uint64_t hbm_peak_bytes = 0;  ///< From the HBM plan.
  CodeConventions conventions;

  /// The address of a granule of 1 KiB in the code.
  std::uint32_t address_of_granule(std::uint64_t granule) const {
    return static_cast<std::uint32_t>(granule * (kHbmGranuleBytes / conventions.granule_bytes));
  }
  /// Of its parameters, by their numbers, which may be any.
  std::map<std::uint32_t, std::uint32_t> parameter_addresses() const {
    std::map<std::uint32_t, std::uint32_t> addresses;
    for (const Buffer& buffer : buffers) {
      if (buffer.role != BufferRole::kParameter) continue;
      addresses[buffer.index] = address_of_granule(buffer.granule);
    }
    return addresses;
  }
};

}  // namespace tpu::isa
