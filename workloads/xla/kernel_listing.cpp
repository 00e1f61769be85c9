#include "workloads/xla/kernel_listing.h"

#include <algorithm>
#include <bitset>

#include "isa/generation.h"
#include "isa/opcode_table.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"

namespace tpu::xla {
namespace {

using isa::ListingSpace;

/// Kernel-relative SMEM begins here, or behind what the top-level program uses.
constexpr std::uint32_t kFirstKernelSmemWord = 0x400;
/// Kernel-relative sync flags begin here: above the runtime's and the top-level program's, and so
/// low that those of a kernel stay below 64, which is what an endpoint of a remote DMA can name.
constexpr std::uint32_t kFirstKernelSyncFlag = 32;

/// A listing of another generation has instructions or units that this one lacks.
void check_chip(const isa::Kernel& kernel, const std::string& file, const std::string& chip) {
  std::bitset<isa::kOpcodeCount * isa::kMaxUnits> had;
  for (const isa::Instruction& instruction : kernel.instructions) {
    const std::size_t which =
        static_cast<std::size_t>(instruction.opcode) * isa::kMaxUnits + instruction.unit;
    if (had[which]) continue;
    if (!generation_has(chip, instruction.opcode, instruction.unit)) {
      throw WorkloadError(file + ": expected instructions of TPU " + chip + ", found \"" +
                          isa::opcode_text(instruction.opcode, instruction.unit) +
                          "\"; is this a listing for another chip?");
    }
    had[which] = true;
  }
}

}  // namespace

std::uint64_t end_of(const isa::PackedListing& packed, ListingSpace space) {
  std::uint64_t end = 0;
  for (const isa::Allocation& allocation : packed.allocations()) {
    if (allocation.space != space || allocation.fixed || !allocation.offset) continue;
    end = std::max(end, *allocation.offset + allocation.bytes);
  }
  return end;
}

isa::ListingPlacement placement_of_top_level(const std::string& chip) {
  const isa::CodeConventions& conventions = isa::generation(chip).listings;
  isa::ListingPlacement placement;
  placement.keeps_empty_cycles = !conventions.interlocked;
  placement.hexadecimal_patterns = conventions.hexadecimal_patterns;
  return placement;
}

isa::ListingPlacement placement_of_kernels(const isa::PackedListing& top_level,
                                           const std::string& chip) {
  isa::ListingPlacement placement = placement_of_top_level(chip);
  const std::uint64_t smem = end_of(top_level, ListingSpace::kSmem);
  placement.smem_word =
      std::max(kFirstKernelSmemWord, static_cast<std::uint32_t>(ceil_divide(smem, 32) * 8));
  const std::uint64_t flags = end_of(top_level, ListingSpace::kSyncFlag) / 4;
  placement.sync_flag = std::max(kFirstKernelSyncFlag, static_cast<std::uint32_t>(flags));
  return placement;
}

isa::Listing read_bundles(std::string_view text, const std::string& file,
                          const isa::PackedListing& packed, const isa::ListingPlacement& placement,
                          const std::string& chip, std::vector<isa::UnknownInstruction>& unknown) {
  isa::Listing listing = isa::read_listing(text, file, packed, placement, &unknown);
  check_chip(listing.kernel, file, chip);
  return listing;
}

bool EarlyListings::take(ListingFiles& files, const std::string& kernel, std::string_view bundles) {
  const auto top = files.kernels.find("TLP");
  if (kernel == "TLP" || top == files.kernels.end() || top->second.packed.name.empty()) {
    return false;
  }
  KernelFiles& own = files.kernels.at(kernel);
  if (own.packed.name.empty()) return false;
  try {
    if (!placed_) {
      placement_ = placement_of_kernels(
          isa::PackedListing::read(top->second.packed.text, top->second.packed.name), chip_);
      placement_.names = names_;
      placed_ = true;
    }
    ReadListing read;
    read.packed = isa::PackedListing::read(own.packed.text, own.packed.name);
    read.bundles =
        read_bundles(bundles, own.final_bundles.name, read.packed, placement_, chip_, read.unknown);
    own.read = std::move(read);
  } catch (const WorkloadError&) {
    return false;  // The linker meets it again, where the program calls this kernel.
  }
  own.packed.text = {};
  return true;
}

}  // namespace tpu::xla
