#include "workloads/xla/linker.h"

#include <algorithm>

#include "isa/buffer_lifetimes.h"
#include "isa/generation.h"
#include "isa/opcode_table.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/graph/while_loop_analysis.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/xla/collective_tables.h"
#include "workloads/xla/constant_tables.h"
#include "workloads/xla/control_ops.h"
#include "workloads/xla/kernel_listing.h"
#include "workloads/xla/scheduled_lifetimes.h"

namespace tpu::xla {
namespace {

using isa::Allocation;
using isa::Buffer;
using isa::BufferRole;
using isa::ListingSpace;

constexpr std::uint32_t kGranuleWords = isa::kHbmGranuleBytes / 4;

constexpr std::uint32_t kKernelSyncFlags = 32;
constexpr std::uint64_t kKernelSmemBytes = 0x3f00;  ///< Below it lie the words of kernels.
/// The runtime's words begin so many bytes before the end of SMEM.
constexpr std::uint32_t kRuntimeSmemBytes = 0x100;

/// Words of SMEM that the runtime fills before a step. The first three differ from core to core:
/// the machine knows them.
constexpr std::uint32_t kChipWord = 0;
constexpr std::uint32_t kCoreWord = 1;
/// Bytes from the first of the runtime's words.
constexpr std::uint32_t kDevicesPointerByte = 0x7c;  ///< v4: the table of devices by partition.
constexpr std::uint32_t kPartitionByte = 0x88;
constexpr std::uint32_t kOutputPointerByte = 0x90;
constexpr std::uint32_t kProgramStateByte = 0xa8;
constexpr std::uint32_t kLaunchIdByte = 0xd0;
constexpr std::uint32_t kProgramIsRunning =
    1;                                  ///< The body of the program runs in this state only.
constexpr std::uint32_t kLaunchId = 1;  ///< Any value but 0, the same on every core.

std::uint64_t granules(std::uint64_t bytes) {
  return (bytes + isa::kHbmGranuleBytes - 1) / isa::kHbmGranuleBytes;
}

/// XLA's own allocations in HBM lie at multiples of 16 KiB, in every listing of v2 and v3.
constexpr std::uint64_t kAlignmentGranules = 16;

std::uint64_t aligned(std::uint64_t granule) { return round_up(granule, kAlignmentGranules); }

/// Loops read such a buffer before they write it, and select the value away.
bool is_undefined_buffer(const hlo::HloInstruction& instruction) {
  return instruction.custom_call_target.get() == "AllocateBuffer";
}

bool is_runtime(const std::string& callee) { return !callee.empty() && callee[0] == '<'; }

}  // namespace

Linker::Linker(ListingFiles files, hlo::Module scheduled, std::string chip, isa::CodeNames names)
    : files_(std::move(files)),
      scheduled_(std::move(scheduled)),
      index_(scheduled_),
      chip_(std::move(chip)),
      names_(names),
      same_as_(read_deduplication(files_.deduplication)) {}

isa::Program Linker::link() {
  program_.name = scheduled_.name;
  program_.chip = chip_;
  program_.conventions = isa::generation(chip_).listings;
  program_.compiler = "xla, libtpu 0.0.42.1";
  program_.cores = static_cast<std::uint32_t>(std::max<std::int64_t>(scheduled_.replicas, 1));
  program_.examples_per_core = static_cast<std::uint64_t>(scheduled_.examples_per_step);
  read_top_level();
  link_calls();
  program_.control = control_ops(top_, top_packed_, index_);
  place_parameters();
  place_outputs();
  place_constants();
  place_tables();
  place_temporaries();
  place_devices();
  place_windows();
  patch_top_level();
  fill_smem();
  program_.model_flops = static_cast<std::uint64_t>(hlo::matmul_flops(scheduled_));
  program_.data_dependent_control = hlo::data_dependent_control(scheduled_).size();
  program_.hbm_peak_bytes = next_granule_ * isa::kHbmGranuleBytes;
  program_.lifetimes =
      scheduled_lifetimes(scheduled_, program_.ops, program_.buffers,
                          isa::overwritten_lifetimes(program_.ops, program_.buffers));
  return std::move(program_);
}

void Linker::read_top_level() {
  KernelFiles& top = files_.kernels.at("TLP");
  if (top.final_bundles.name.empty() || top.packed.name.empty()) {
    throw WorkloadError((top.final_bundles.name.empty() ? top.packed : top.final_bundles).name +
                        ": expected both listings of the top-level program (final_bundles and "
                        "post-bundle-packing-post-ra), found one");
  }
  top_packed_ = isa::PackedListing::read(top.packed.text, top.packed.name);
  kernel_placement_ = placement_of_kernels(top_packed_, chip_);
  kernel_placement_.names = names_;
  std::vector<isa::UnknownInstruction> unknown;
  top_ = read_bundles(top.final_bundles.text, top.final_bundles.name, top_packed_,
                      placement_of_top_level(chip_), chip_, unknown);
  isa::add_unknown(unknown, "TLP", unknown_);
  uses_ = address_uses(top_, top_packed_);
  note_fixed_smem(top_packed_);
  top_.kernel.name = "TLP";
  program_.kernels.emplace_back();
  files_.kernels.erase("TLP");
}

/// What the listings of a kernel say. Instructions that are not known are refused when all kernels
/// are read.
ReadListing Linker::read(KernelFiles& files, const std::string& name) {
  ReadListing read;
  if (files.read) {
    read = std::move(*files.read);
  } else {
    read.packed = isa::PackedListing::read(files.packed.text, files.packed.name);
    read.bundles = read_bundles(files.final_bundles.text, files.final_bundles.name, read.packed,
                                kernel_placement_, chip_, read.unknown);
  }
  isa::add_unknown(read.unknown, name, unknown_);
  return read;
}

/// The listing that serves a kernel: its own, or that of a kernel that is the same.
const std::string& Linker::listing_name(const std::string& callee) const {
  if (files_.kernels.count(callee) != 0 || kernels_.count(callee) != 0) return callee;
  const auto same = same_as_.find(callee);
  return same == same_as_.end() ? callee : same->second;
}

const Linker::LinkedKernel& Linker::kernel(const isa::ListingCall& call) {
  const std::string& name = listing_name(call.callee);
  const auto known = kernels_.find(name);
  if (known != kernels_.end()) return known->second;
  if (files_.kernels.count(name) == 0 && is_runtime(name)) {
    return kernels_.emplace(name, empty_kernel(name)).first->second;
  }
  return kernels_.emplace(name, read_kernel(name)).first->second;
}

/// Folders of single kernels have no listings of what the runtime does before and after a step.
Linker::LinkedKernel Linker::empty_kernel(const std::string& name) {
  isa::Kernel kernel;
  kernel.name = name;
  kernel.bundles.emplace_back();
  program_.kernels.push_back(std::move(kernel));
  return {static_cast<std::uint32_t>(program_.kernels.size()) - 1, {}};
}

Linker::LinkedKernel Linker::read_kernel(const std::string& name) {
  const auto found = files_.kernels.find(name);
  if (found == files_.kernels.end() || found->second.final_bundles.name.empty() ||
      found->second.packed.name.empty()) {
    throw WorkloadError(top_packed_.file() + ": the top-level program calls " + name +
                        "; expected its listings (<number>-" + name +
                        "-<number>-final_bundles.txt and -post-bundle-packing-post-ra.txt) beside "
                        "this one, found " +
                        (found == files_.kernels.end() ? "none" : "one of the two"));
  }
  KernelFiles& text = found->second;
  ReadListing whole = read(text, name);
  isa::PackedListing& packed = whole.packed;
  isa::Listing& listing = whole.bundles;
  if (!listing.calls.empty()) {
    throw WorkloadError(text.final_bundles.name + ": expected a kernel without calls, found " +
                        std::to_string(listing.calls.size()));
  }
  const std::uint64_t smem_end =
      end_of(packed, ListingSpace::kSmem) + kernel_placement_.smem_word * 4;
  const std::uint64_t flag_end =
      end_of(packed, ListingSpace::kSyncFlag) / 4 + kernel_placement_.sync_flag;
  if (smem_end > kKernelSmemBytes || flag_end > kernel_placement_.sync_flag + kKernelSyncFlags) {
    throw WorkloadError(
        text.packed.name + ": expected at most " + std::to_string(kKernelSmemBytes) +
        " bytes of SMEM and " + std::to_string(kernel_placement_.sync_flag + kKernelSyncFlags) +
        " sync flags, found " + std::to_string(smem_end) + " and " + std::to_string(flag_end));
  }
  note_fixed_smem(packed);
  scratch_bytes_ = std::max(scratch_bytes_, end_of(packed, ListingSpace::kHbm));
  LinkedKernel linked;
  linked.index = static_cast<std::uint32_t>(program_.kernels.size());
  linked.operands = std::move(listing.operands);
  listing.kernel.name = name;
  listing.kernel.vmem_bytes = end_of(packed, ListingSpace::kVmem);
  program_.kernels.push_back(std::move(listing.kernel));
  if (!listing.hbm_references.empty()) {
    scratch_uses_.push_back({linked.index, std::move(listing.hbm_references), std::move(packed)});
  }
  files_.kernels.erase(found);
  return linked;
}

void Linker::link_calls() {
  std::unordered_map<std::string, std::uint32_t> op_numbers;
  hlo::HloCostAnalysis analysis(scheduled_);
  for (const isa::ListingCall& call : top_.calls) {
    const LinkedKernel& callee = kernel(call);
    check_operands(call, callee);
    const auto [op, is_new] =
        op_numbers.emplace(call.callee, static_cast<std::uint32_t>(program_.ops.size()));
    if (is_new) {
      program_.ops.push_back(op_info(analysis, index_, call.callee, call.hlo_opcode));
      program_.ops.back().vmem_bytes = program_.kernels[callee.index].vmem_bytes;
    }
    isa::CallSite site;
    site.kernel = callee.index;
    site.op = op->second;
    site.operand_names = call.operand_names;
    program_.call_sites.push_back(std::move(site));
  }
  isa::refuse_unknown(unknown_);
}

/// The kernel takes operand k from the register in which the caller leaves it.
void Linker::check_operands(const isa::ListingCall& call, const LinkedKernel& callee) const {
  for (const isa::ListingOperand& operand : callee.operands) {
    const std::size_t index = operand.index < 0 ? 0 : static_cast<std::size_t>(operand.index);
    if (index < call.operand_names.size() && call.operand_names[index].first == operand.reg) {
      continue;
    }
    throw WorkloadError(top_packed_.file() + ": call of " + call.callee + ": expected operand " +
                        std::to_string(index) + " in s" + std::to_string(operand.reg) +
                        " as its listing has it, found " +
                        (index < call.operand_names.size()
                             ? "s" + std::to_string(call.operand_names[index].first)
                             : std::to_string(call.operand_names.size()) + " operands"));
  }
}

/// The runtime's words of SMEM are 0 unless fill_smem() says otherwise; a read of a word that
/// nobody has written would be a fault.
void Linker::note_fixed_smem(const isa::PackedListing& packed) {
  for (const Allocation& allocation : packed.allocations()) {
    if (!allocation.fixed || !allocation.offset) continue;
    if (allocation.space == ListingSpace::kSmem && allocation.bytes == 4) {
      smem_.emplace(static_cast<std::uint32_t>(*allocation.offset / 4), 0);
    } else if (allocation.space == ListingSpace::kHbm) {
      std::uint64_t& bytes = windows_[*allocation.offset / isa::kHbmGranuleBytes];
      bytes = std::max(bytes, allocation.bytes);
    }
  }
}

/// Every buffer begins where XLA begins its temporaries.
std::uint64_t Linker::place(std::uint64_t bytes) {
  const std::uint64_t granule = next_granule_;
  next_granule_ = aligned(granule + std::max<std::uint64_t>(granules(bytes), 1));
  return granule;
}

Buffer& Linker::add_buffer(const std::string& name, BufferRole role, std::uint32_t index,
                           std::uint64_t granule, const hlo::Shape& shape) {
  Buffer buffer;
  buffer.name = name;
  buffer.role = role;
  buffer.index = index;
  buffer.granule = granule;
  buffer.bytes = static_cast<std::uint64_t>(shape.padded_bytes());
  buffer.unpadded_bytes = static_cast<std::uint64_t>(shape.unpadded_bytes());
  buffer.shape = to_string(shape);
  program_.buffers.push_back(std::move(buffer));
  return program_.buffers.back();
}

void Linker::place_parameters() {
  const hlo::Computation& entry = scheduled_.entry_computation();
  std::uint32_t index = 0;
  for (const hlo::InstructionId id : entry.parameters()) {
    const hlo::HloInstruction& parameter = entry.at(id);
    if (parameter.shape.is_tuple()) {
      throw WorkloadError("parameter " + parameter.name +
                          ": expected an array, found a tuple; flatten the arguments of the "
                          "function before it is compiled");
    }
    Buffer& buffer = add_buffer(parameter.name, BufferRole::kParameter, index++,
                                place(static_cast<std::uint64_t>(parameter.shape.padded_bytes())),
                                parameter.shape);
    buffer.op_name = parameter.metadata.op_name;
    program_.compulsory_hbm_bytes += buffer.unpadded_bytes;
  }
}

/// An output that is an alias of a parameter has its range. The caller finds an output at the
/// address in SMEM, or for a tuple at the addresses in a table there.
void Linker::place_outputs() {
  const hlo::Computation& entry = scheduled_.entry_computation();
  const hlo::Shape& result = entry.at(entry.root).shape;
  const std::vector<hlo::Shape> outputs =
      result.is_tuple() ? result.elements : std::vector<hlo::Shape>{result};
  std::vector<std::uint32_t> table;
  for (std::uint32_t k = 0; k < outputs.size(); ++k) {
    if (outputs[k].is_tuple()) {
      throw WorkloadError("output " + std::to_string(k) + " of " + scheduled_.name +
                          ": expected an array, found a tuple in a tuple");
    }
    const auto alias = std::find_if(
        scheduled_.aliases.begin(), scheduled_.aliases.end(),
        [&](const hlo::Alias& a) { return a.output_index == static_cast<std::int64_t>(k); });
    const bool own = alias == scheduled_.aliases.end();
    std::uint64_t granule = 0;
    if (own) {
      granule = place(static_cast<std::uint64_t>(outputs[k].padded_bytes()));
    } else {
      const auto parameter = static_cast<std::size_t>(alias->parameter_number);
      if (alias->parameter_number < 0 || parameter >= entry.parameters().size()) {
        throw WorkloadError("output " + std::to_string(k) + " of " + scheduled_.name +
                            ": expected an alias of one of " +
                            std::to_string(entry.parameters().size()) + " parameters, found " +
                            std::to_string(alias->parameter_number));
      }
      granule = program_.buffers[parameter].granule;
    }
    Buffer& buffer =
        add_buffer("output " + std::to_string(k), BufferRole::kOutput, k, granule, outputs[k]);
    if (own && is_undefined(k)) buffer.data.resize(granules(buffer.bytes) * kGranuleWords);
    program_.compulsory_hbm_bytes += buffer.unpadded_bytes;
    table.push_back(program_.address_of_granule(granule));
  }
  if (!result.is_tuple()) {
    output_pointer_ = table[0];
    return;
  }
  table.resize((table.size() + kGranuleWords) / kGranuleWords * kGranuleWords);
  Buffer buffer;
  buffer.name = "table of output addresses";
  buffer.role = BufferRole::kConstant;
  buffer.granule = place(table.size() * 4);
  buffer.bytes = table.size() * 4;
  buffer.unpadded_bytes = outputs.size() * 4;
  buffer.data = std::move(table);
  output_pointer_ = program_.address_of_granule(buffer.granule);
  program_.buffers.push_back(std::move(buffer));
}

/// True for an output in whose place the program keeps a buffer that it leaves undefined: loops
/// read it before they write it, and select the value away.
bool Linker::is_undefined(std::uint32_t output) const {
  const auto users = uses_.of_output.find(output);
  if (users == uses_.of_output.end()) return false;
  return std::any_of(users->second.begin(), users->second.end(), [&](const CallOperand& use) {
    const InstructionIndex::Place callee = index_.find(top_.calls[use.call].callee);
    return callee.instruction >= 0 &&
           is_undefined_buffer(scheduled_.computation(callee.computation).at(callee.instruction));
  });
}

/// Constants have neither address nor data in the listing.
void Linker::place_constants() {
  const bool any = std::any_of(
      top_packed_.allocations().begin(), top_packed_.allocations().end(),
      [](const Allocation& allocation) { return allocation.tag == "constant literal"; });
  if (!any) return;
  if (files_.hlo.name.empty()) {
    throw WorkloadError(top_packed_.file() +
                        ": expected <number>-TLP-hlo.txt beside it, which alone holds the "
                        "constants of the program, found none");
  }
  const hlo::Module full = hlo::read_hlo_text(files_.hlo.name, files_.hlo.text);
  for (ConstantLiteral& constant : find_constants(top_, top_packed_, uses_, full)) {
    const std::uint64_t granule = place(constant.words.size() * 4);
    Buffer& buffer = add_buffer(constant.name, BufferRole::kConstant, 0, granule, constant.shape);
    buffer.data = std::move(constant.words);
    placed_[constant.allocation] = program_.address_of_granule(granule);
  }
}

/// Tables that the compiler makes for itself get a place, and contents where experiments have found
/// them; a program that reads another faults.
void Linker::place_tables() {
  const auto uses = table_uses(top_packed_, uses_);
  for (const Allocation& allocation : top_packed_.allocations()) {
    if (allocation.tag != kTableTag) continue;
    const hlo::Shape shape = hlo::parse_shape(allocation.shape);
    const std::uint64_t granule = place(allocation.bytes);
    Buffer& buffer = add_buffer("table of the compiler", BufferRole::kConstant, 0, granule, shape);
    placed_[allocation.number] = program_.address_of_granule(granule);
    const auto users = uses.find(allocation.number);
    if (users == uses.end()) continue;
    for (const TableUse& use : users->second) {
      const InstructionIndex::Place at = index_.find(top_.calls[use.call].callee);
      if (at.instruction < 0) continue;
      buffer.data =
          collective_table(scheduled_.computation(at.computation).at(at.instruction),
                           program_.cores, static_cast<std::size_t>(shape.element_count()), use);
      if (!buffer.data.empty()) break;
    }
  }
}

void Linker::place_temporaries() {
  temporaries_ = next_granule_;
  for (const Allocation& allocation : top_packed_.allocations()) {
    if (allocation.space != ListingSpace::kHbm || allocation.fixed || !allocation.offset) continue;
    const std::uint64_t granule = temporaries_ + *allocation.offset / isa::kHbmGranuleBytes;
    placed_[allocation.number] = program_.address_of_granule(temporaries_) +
                                 *allocation.offset / program_.conventions.granule_bytes;
    Buffer buffer;
    buffer.name = allocation.tag.compare(0, 10, "output of ") == 0 ? allocation.tag.substr(10)
                                                                   : allocation.tag;
    buffer.granule = granule;
    buffer.bytes = allocation.bytes;
    buffer.unpadded_bytes =
        static_cast<std::uint64_t>(hlo::parse_shape(allocation.shape).unpadded_bytes());
    buffer.shape = allocation.shape;
    const InstructionIndex::Place maker = index_.find(buffer.name.substr(0, buffer.name.find('@')));
    if (maker.instruction >= 0) {
      const hlo::HloInstruction& instruction =
          scheduled_.computation(maker.computation).at(maker.instruction);
      buffer.op_name = instruction.metadata.op_name;
      if (is_undefined_buffer(instruction)) {
        buffer.zeroed = true;
      }
    }
    program_.buffers.push_back(std::move(buffer));
  }
  next_granule_ = aligned(next_granule_ + granules(end_of(top_packed_, ListingSpace::kHbm)));
  scratch_ = next_granule_;
  next_granule_ += granules(scratch_bytes_);
}

/// The launch of a program of several cores reads which device each partition is on (v4).
void Linker::place_devices() {
  if (smem_.count(runtime_word(kDevicesPointerByte)) == 0) return;
  std::vector<std::uint32_t> devices = devices_of_partitions(program_.cores);
  devices.resize(granules(devices.size() * 4) * kGranuleWords);
  Buffer buffer;
  buffer.name = "table of devices";
  buffer.role = BufferRole::kConstant;
  buffer.granule = place(devices.size() * 4);
  buffer.bytes = devices.size() * 4;
  buffer.unpadded_bytes = std::uint64_t{program_.cores} * 4;
  buffer.data = std::move(devices);
  devices_pointer_ = program_.address_of_granule(buffer.granule);
  program_.buffers.push_back(std::move(buffer));
}

/// Memory at fixed addresses: cores leave messages for each other there when a program starts.
void Linker::place_windows() {
  for (const auto& [granule, bytes] : windows_) {
    if (granule < next_granule_) {
      throw WorkloadError(top_packed_.file() + ": expected a program of less than " +
                          std::to_string(granule) + " KiB (its fixed window), found " +
                          std::to_string(next_granule_) + " KiB");
    }
    Buffer buffer;
    buffer.name = "launch window";
    buffer.role = BufferRole::kConstant;
    buffer.granule = granule;
    buffer.bytes = bytes;
    buffer.unpadded_bytes = bytes;
    buffer.zeroed = true;
    program_.buffers.push_back(std::move(buffer));
  }
}

void Linker::patch_top_level() {
  patch(top_.kernel, top_.hbm_references, top_packed_, true);
  program_.kernels[0] = std::move(top_.kernel);
  for (const ScratchUse& use : scratch_uses_) {
    patch(program_.kernels[use.kernel], use.references, use.packed, false);
  }
}

void Linker::patch(isa::Kernel& kernel, const std::vector<isa::HbmReference>& references,
                   const isa::PackedListing& packed, bool top_level) {
  for (const isa::HbmReference& reference : references) {
    const Allocation& allocation = *packed.find(reference.allocation);
    const std::uint32_t unit = program_.conventions.granule_bytes;
    std::uint64_t granule = 0;
    if (allocation.fixed && allocation.offset) {
      granule = *allocation.offset / unit;
    } else if (!top_level && allocation.offset) {
      granule = program_.address_of_granule(scratch_) + *allocation.offset / unit;
    } else if (top_level && placed_.count(allocation.number) != 0) {
      granule = placed_.at(allocation.number);
    } else {
      throw WorkloadError(packed.file() + ": expected #allocation" +
                          std::to_string(allocation.number) +
                          " with an offset or a constant, found tag '" + allocation.tag + "'");
    }
    kernel.instructions[reference.instruction].operands[reference.operand].immediate +=
        static_cast<std::uint32_t>(granule);
  }
}

std::uint32_t Linker::runtime_word(std::uint32_t byte) const {
  return (program_.conventions.smem_bytes - kRuntimeSmemBytes + byte) / 4;
}

void Linker::fill_smem() {
  const auto word = [&](std::uint32_t byte) { return runtime_word(byte); };
  if (devices_pointer_ != 0) smem_[word(kDevicesPointerByte)] = devices_pointer_;
  smem_[word(kOutputPointerByte)] = output_pointer_;
  smem_[word(kProgramStateByte)] = kProgramIsRunning;
  if (smem_.count(word(kLaunchIdByte)) != 0) smem_[word(kLaunchIdByte)] = kLaunchId;
  for (const std::uint32_t of_core : {kChipWord, kCoreWord, word(kPartitionByte)}) {
    smem_.erase(of_core);
  }
  program_.initial_smem.assign(smem_.begin(), smem_.end());
}

}  // namespace tpu::xla
