#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "isa/program.h"
#include "workloads/compiler/codegen/block.h"
#include "workloads/compiler/codegen/first_load.h"
#include "workloads/compiler/codegen/flag_ranges.h"
#include "workloads/compiler/codegen/known_numbers.h"
#include "workloads/compiler/codegen/values.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Rows of VMEM that a granule of HBM fills.
constexpr std::uint32_t kRowsPerGranule = isa::kHbmGranuleBytes / isa::kVmemRowBytes;

/// SMEM words in which every core finds its chip and its number on the chip.
constexpr std::uint32_t kChipIdWord = 0;
constexpr std::uint32_t kCoreIdWord = 1;

/// A strided box of HBM and its place in VMEM: pieces of contiguous granules of 1 KiB (two VMEM
/// rows); each side has its own distance from one piece to the next.
struct StridedBox {
  std::uint32_t run = 0;          ///< Granules of a piece.
  std::uint32_t runs = 1;         ///< Pieces.
  std::uint32_t hbm_stride = 0;   ///< Granules from piece to piece; 0: they are neighbours.
  std::uint32_t vmem_stride = 0;  ///< The same in VMEM.

  std::uint32_t granules() const { return run * runs; }
  /// Whether a side that advances by `stride` leaves gaps.
  bool has_gaps(std::uint32_t stride) const { return runs > 1 && stride != 0 && stride != run; }
  bool is_contiguous() const { return !has_gaps(hbm_stride) && !has_gaps(vmem_stride); }
};

/// A descriptor in SMEM whose constant words are stored once; made by KernelBuilder::descriptor().
struct DmaDescriptorHandle {
  std::uint32_t word = 0;
  bool to_vmem = true;
};

/// A block of 128x128 weights of an array.
struct MxuBlock {
  MxuBlock(std::uint32_t mxu, std::uint32_t row = 0, std::uint32_t column = 0)
      : mxu(mxu), row(row), column(column) {}
  std::uint32_t mxu, row, column;
};

/// How many row parts and column parts of its array a matmul uses.
struct MxuUse {
  std::uint32_t rows = 1, columns = 1;
};

/// Writes one kernel, instruction by instruction, and schedules it.
///
/// The author names values, not registers, and writes straight code, loops with constant trip
/// counts and branches. Between two of those the code is a block: each instruction goes, in program
/// order, into the earliest bundle that its operands, its slot, its unit's interval, its queue and
/// the memory accesses before it allow, so that later independent instructions fill the holes of
/// earlier ones: unrolled code becomes software-pipelined. Loads and what depends on loads alone go
/// as late as their first user allows. Bundles that stay empty become delays. Blocks end with every
/// register written and every unit ready; only results of the MXUs and transposed rows may stay
/// in their queues from one block to the next, so that pops of one iteration of a loop can stand in
/// the next one.
///
/// Registers: 31 scalar, 32 vector, 15 predicate, 8 mask. Values used in other blocks than their
/// own keep a register between. Where a block has too many live vectors or masks, some wait in VMEM
/// (finish), or the kernel is not made (try_finish), so that its author can write one that overlaps
/// less.
class KernelBuilder {
 public:
  KernelBuilder(std::string name, const Target& target);
  ~KernelBuilder();
  KernelBuilder(const KernelBuilder&) = delete;
  KernelBuilder& operator=(const KernelBuilder&) = delete;

  const Target& target() const { return target_; }

  /// HBM address (granules) of an operand: the caller leaves them in s0, s1, ...: the inputs in
  /// operand order, then the outputs.
  SReg operand(int index);

  // Memory that the kernel owns while it runs.
  VmemRegion allocate_vmem(std::uint64_t rows, std::uint32_t alignment_rows = 8);
  /// Another name for the rows of a region. Accesses by one name never wait for those by the other:
  /// within a straight piece of code they must not meet.
  VmemRegion second_name(VmemRegion region);
  /// Arrays are read so far behind their ends, for nothing: a kernel that has VMEM from the last
  /// row down leaves as many there, an eighth of all and 2 MiB at least.
  void leave_rows_behind(std::uint64_t rows);
  /// Throws WorkloadError where the kernel's tables take more than there is.
  std::uint32_t allocate_smem(std::uint32_t words);
  std::uint32_t allocate_flag();
  /// What follows has all memory and flags again: nothing is under way, and nothing that was kept
  /// is read any more. Begins a block.
  void begin_anew();
  std::uint64_t vmem_bytes() const {
    return std::uint64_t{std::max(used_vmem_rows_, most_vmem_rows_) - rows_behind() +
                         waiting_rows_} *
           isa::kVmemRowBytes;
  }
  VmemUse vmem_use() const;
  /// Of a finished kernel: what it takes if it waits for nothing, and takes all branches.
  std::uint64_t cycles() const { return cycles_; }

  // Variables.
  SVariable scalar_variable(ScalarOperand initial);
  VVariable vector_variable(VectorOperand initial);
  SReg get(SVariable variable);
  VReg get(VVariable variable);
  void set(SVariable variable, ScalarOperand value);
  void set(VVariable variable, VectorOperand value);

  // Scalar unit.
  SReg scalar(isa::Opcode opcode, ScalarOperand a, ScalarOperand b);
  SReg constant(std::uint32_t value);
  SReg add(ScalarOperand a, ScalarOperand b) { return scalar(isa::Opcode::kSaddS32, a, b); }
  SReg sub(ScalarOperand a, ScalarOperand b) { return scalar(isa::Opcode::kSsubS32, a, b); }
  /// a * constant: shifts, adds or a multiplication (v2 multiplies 24 bits).
  SReg mul(SReg a, std::uint32_t constant);
  /// a * b; v2 multiplies 24 bits.
  SReg multiply(SReg a, SReg b);
  SReg and_(ScalarOperand a, ScalarOperand b) { return scalar(isa::Opcode::kSandU32, a, b); }
  SReg or_(ScalarOperand a, ScalarOperand b) { return scalar(isa::Opcode::kSorU32, a, b); }
  SReg shift_left(ScalarOperand a, ScalarOperand b) { return scalar(isa::Opcode::kSshllU32, a, b); }
  SReg shift_right(ScalarOperand a, ScalarOperand b) {
    return scalar(isa::Opcode::kSshrlU32, a, b);
  }
  SReg select(PredicateOperand condition, ScalarOperand if_true, ScalarOperand if_false);
  SReg min(ScalarOperand a, ScalarOperand b);
  SReg max(ScalarOperand a, ScalarOperand b);
  /// Signed comparison; `opcode` is one of kScmp...S32.
  PReg compare(isa::Opcode opcode, ScalarOperand a, ScalarOperand b);
  PReg less(ScalarOperand a, ScalarOperand b) { return compare(isa::Opcode::kScmpLtS32, a, b); }
  PReg equal(ScalarOperand a, ScalarOperand b) { return compare(isa::Opcode::kScmpEqS32, a, b); }
  PReg or_(PredicateOperand a, PredicateOperand b);
  PReg and_(PredicateOperand a, PredicateOperand b);
  SReg load_smem(std::uint32_t word, SReg base = {});
  void store_smem(std::uint32_t word, ScalarOperand value, SReg base = {});

  // Vector unit: any ALU opcode by its signature ("v=v", "v=vv", "m=vv", "v=mvv", ...), then names
  // for the frequent ones.
  VReg vector(isa::Opcode opcode, VectorOperand a);
  VReg vector(isa::Opcode opcode, VectorOperand a, VectorOperand b);
  MReg vector_compare(isa::Opcode opcode, VectorOperand a, VectorOperand b);
  MReg mask(isa::Opcode opcode, MReg a);          ///< kVmneg, kVmmov.
  MReg mask(isa::Opcode opcode, MReg a, MReg b);  ///< kVmand, kVmor.
  MReg weird(VReg a);                             ///< vweird.f32.
  VReg select(MReg condition, VectorOperand if_true, VectorOperand if_false);
  VReg splat(ScalarOperand a);   ///< vstv: every element is the scalar.
  VReg lane_sequence();          ///< 128 sublane + lane.
  VReg truncate_to_s32(VReg a);  ///< fp32 to signed integer towards zero.
  VReg add(VectorOperand a, VectorOperand b) { return vector(isa::Opcode::kVaddF32, a, b); }
  VReg sub(VectorOperand a, VectorOperand b) { return vector(isa::Opcode::kVsubF32, a, b); }
  VReg mul(VectorOperand a, VectorOperand b) { return vector(isa::Opcode::kVmulF32, a, b); }
  VReg max(VectorOperand a, VectorOperand b) { return vector(isa::Opcode::kVmaxF32, a, b); }
  VReg min(VectorOperand a, VectorOperand b) { return vector(isa::Opcode::kVminF32, a, b); }
  VReg and_(VectorOperand a, VectorOperand b) { return vector(isa::Opcode::kVandU32, a, b); }
  VReg or_(VectorOperand a, VectorOperand b) { return vector(isa::Opcode::kVorU32, a, b); }
  VReg shift_left(VectorOperand a, VectorOperand b) { return vector(isa::Opcode::kVshllU32, a, b); }
  VReg shift_right(VectorOperand a, VectorOperand b) {
    return vector(isa::Opcode::kVshrlU32, a, b);
  }
  /// The bf16 of even rows (low halves) and odd rows (high halves) of a (2,1)-packed register as
  /// fp32.
  VReg unpack_even(VReg packed) { return shift_left(packed, 16); }
  VReg unpack_odd(VReg packed) { return and_(packed, 0xffff0000U); }
  /// The packed register of even and odd rows, each rounded to nearest even.
  VReg pack_bf16(VectorOperand even, VectorOperand odd) {
    return vector(isa::Opcode::kVpackIBf16, odd, even);
  }
  /// Each fp32 number rounded to bf16.
  VReg round_to_bf16(VReg a) { return unpack_odd(pack_bf16(a, a)); }
  /// Whether it is neither infinite nor NaN.
  MReg is_finite(VReg a) {
    return vector_compare(isa::Opcode::kVcmpLtS32, and_(a, 0x7fffffffU), 0x7f800000U);
  }

  // Transcendental unit: kVpow2F32, kVlog2F32, kVrcpF32, kVrsqrtF32, kVtanhF32; push and pop.
  VReg transcendental(isa::Opcode opcode, VectorOperand a);

  // VMEM.
  VReg load(const VmemAddress& address);
  /// vld.sshfl: sublane i gets the row that octal digit i of `pattern` counts from the address.
  VReg load_shuffled(const VmemAddress& address, std::uint32_t pattern);
  void store(const VmemAddress& address, VectorOperand value);
  void store(const VmemAddress& address, MReg mask, VectorOperand value);

  // Reduce, permute and transpose unit.
  VReg lane_sum(VReg a);
  VReg lane_max(VReg a);
  VReg lane_min(VReg a);
  VReg rotate_lanes(VReg a, ScalarOperand lanes);  ///< Towards higher lanes.
  /// From here on lane l of a permutation is the operand's lane `pattern`[l] modulo 128, in each
  /// sublane by its own pattern.
  void set_lane_pattern(VReg pattern);
  VReg permute_lanes(VReg a);
  /// One push of a transposition of `count` registers (8 count rows); after the last one
  /// `width` / 8 results can be popped in order.
  void transpose_push(VReg a, std::uint32_t width, std::uint32_t number, std::uint32_t count);
  VReg transpose_pop();
  /// Element (0, 0) as a scalar.
  SReg to_scalar(VReg a);

  // MXUs. Weights of a tile are pushed in 16 pushes, the last rows of the tile first and each
  // push's rows in descending order (a load with sublane stride -1): what is pushed last is row 0;
  // `transposed`: rows become columns. They wait until swap_weights() (or matmul with swap) and act
  // from the next matmul on. Pushes of one tile stand, in program order, after the first matmul
  // with the tile before and before the first matmul with their own.
  // An array above 128x128 takes tiles for its blocks, operands for its row parts: latch_rows()
  // for all but the first, behind the matmul before; a matmul that uses `rows` of them makes a
  // result in each of the first `columns` column parts.
  void push_weights(const MxuBlock& block, VectorOperand rows, bool transposed = false);
  void swap_weights(std::uint32_t mxu);
  void latch_rows(std::uint32_t mxu, std::uint32_t row_part, VectorOperand rows);
  void matmul(std::uint32_t mxu, VectorOperand rows, bool swap_after = false,
              const MxuUse& use = {});
  VReg pop_result(std::uint32_t mxu, std::uint32_t column_part = 0);

  // DMA and sync flags. A DMA adds its size in granules to its flag when it is complete. The region
  // is what the DMA touches: it stands after all accesses to it that precede it in the program.
  void dma_in(ScalarOperand hbm, const VmemAddress& to, ScalarOperand granules, ScalarOperand flag);
  void dma_out(const VmemAddress& from, ScalarOperand hbm, ScalarOperand granules,
               ScalarOperand flag);
  /// Allocates a descriptor and stores its constant words (here: call it outside of loops).
  DmaDescriptorHandle descriptor(bool to_vmem, const StridedBox& box);
  /// Starts the descriptor's DMA. `granules`: the first ones of the box alone.
  void start(const DmaDescriptorHandle& descriptor, ScalarOperand hbm, const VmemAddress& vmem,
             ScalarOperand flag);
  void start(const DmaDescriptorHandle& descriptor, ScalarOperand hbm, const VmemAddress& vmem,
             ScalarOperand flag, ScalarOperand granules);
  /// What the caller has to start, where Target::place says so: the loads in front of the first
  /// wait, in straight code, that go from an operand to where nothing has been yet, if all their
  /// numbers are known. The kernel starts the others.
  const std::vector<FirstLoad>& first_loads() const { return first_loads_; }
  /// Starts such a load of another kernel, from the address in an operand of this one.
  void start_for_caller(const FirstLoad& load, int operand);
  /// Replaces the stride << 16 | run words of the descriptor.
  void set_runs(const DmaDescriptorHandle& descriptor, ScalarOperand hbm, ScalarOperand vmem);
  /// Waits until the flag has reached `granules` and subtracts them. VMEM accesses after it stay
  /// after it.
  void wait(ScalarOperand flag, ScalarOperand granules);
  /// An instruction of the misc slot with scalar operands, for what has no name here.
  void misc(isa::Opcode opcode, const std::vector<ScalarOperand>& operands);

  /// Instructions emitted by `body` act only when the predicate (and those around it) holds. Only
  /// such without a result: stores, DMAs, waits.
  void guarded(PredicateOperand condition, const std::function<void()>& body);

  // Structure.
  /// Runs the body `trips` times, with the index 0, 1, ...; not at all for 0.
  void loop(std::uint64_t trips, const std::function<void(SReg index)>& body);
  /// Runs the body when the predicate holds (a branch around it).
  void if_(PReg condition, const std::function<void()>& body);
  /// Ends the present block: what follows is scheduled by itself.
  void new_block();

  /// Ends the kernel: schedules, allocates registers, links branches. Once. Values that find no
  /// register wait in VMEM that no region has; if that does not do, there is a SimulatorBug that
  /// names the kernel.
  isa::Kernel finish();
  /// The same, but nothing when values find no register.
  std::optional<isa::Kernel> try_finish();
  /// The block that code goes into now.
  std::uint32_t block_number() const;
  /// Of a kernel that was not made: the block that found no registers; none: what lives over
  /// several blocks did not.
  std::optional<std::uint32_t> crowded_block() const { return crowded_block_; }

 private:
  template <RegisterFile File>
  Value<File> result(Node made);
  Node node(isa::Opcode opcode) const;
  void append(Node made);
  VReg lane_reduction(isa::Opcode opcode, VReg a);
  Node mxu_push(isa::Opcode opcode, std::uint32_t mxu, VectorOperand rows) const;
  SReg vmem_row(const VmemAddress& address);
  std::uint32_t new_value(RegisterFile file);
  std::uint32_t new_variable(RegisterFile file);
  std::uint32_t current_value(std::uint32_t variable);
  SReg endpoint(std::uint32_t space_code);
  std::uint32_t rows_behind() const {
    constexpr std::uint64_t kPartBehind = 8, kLeastBehind = 4096;
    const std::uint64_t all = target_.vmem_bytes / isa::kVmemRowBytes;
    return static_cast<std::uint32_t>(
        target_.place.is_high ? std::max(all / kPartBehind, kLeastBehind) : 0);
  }
  FlagRange flags() const { return target_.place.is_high ? kHighKernelFlags : kKernelFlags; }

  std::string name_;
  Target target_;
  std::unique_ptr<KernelDraft> draft_;
  std::optional<std::uint32_t> crowded_block_;
  std::uint64_t cycles_ = 0;
  /// From the first one on, or up to the last one; then it may be more than there are.
  std::uint32_t used_vmem_rows_ = 0;
  std::uint32_t most_vmem_rows_ = 0;  ///< Before it began anew.
  std::uint32_t waiting_rows_ = 0;    ///< For values that find no register.
  std::uint32_t next_region_ = 1;
  std::uint32_t next_smem_word_ = kKernelSmemBegin;
  std::uint32_t next_flag_ = 0;
  std::vector<SReg> operands_;
  SReg core_endpoint_;
  PredicateOperand guard_{true};
  int depth_ = 0;  ///< Of loops and branches.
  /// Results of the scalar unit in the present block, by opcode and operands: what is computed
  /// twice is one value, and addresses made of it are known to be equal.
  std::map<std::tuple<isa::Opcode, std::uint64_t, std::uint64_t>, SReg> known_scalars_;
  std::size_t known_block_ = 0;

  /// Sides of a descriptor, stride << 16 | run, and its granules, as far as they are known.
  struct DescriptorWords {
    std::optional<std::uint32_t> hbm, vmem, granules;
  };
  bool acts_always() const { return !guard_.reg && guard_.constant; }
  /// A load that is left to the caller.
  bool caller_starts(const DescriptorWords& words, const ScalarOperand& hbm, const VmemAddress& to,
                     const ScalarOperand& flag);

  // Until the first wait.
  bool is_begin_ = true;
  KnownNumbers known_;
  std::map<std::uint32_t, DescriptorWords> descriptors_;  ///< By first word.
  std::map<std::uint32_t, VmemRegion> regions_;           ///< By id.
  std::set<std::uint32_t> touched_;                       ///< Regions.
  std::vector<FirstLoad> first_loads_;
};

}  // namespace tpu::compiler
