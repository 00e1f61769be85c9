#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "isa/listing/listing_reader.h"
#include "isa/program.h"
#include "workloads/graph/graph.h"
#include "workloads/xla/address_uses.h"
#include "workloads/xla/listing_files.h"
#include "workloads/xla/op_info.h"

namespace tpu::xla {

/// Turns the listings of a module and its scheduled HLO into a program: calls to kernels, places in
/// HBM, contents of SMEM when a step starts.
class Linker {
 public:
  /// With the names of the top-level program in any case.
  Linker(ListingFiles files, hlo::Module scheduled, std::string chip, isa::CodeNames names);

  isa::Program link();

 private:
  struct LinkedKernel {
    std::uint32_t index = 0;
    std::vector<isa::ListingOperand> operands;
  };

  void read_top_level();
  const LinkedKernel& kernel(const isa::ListingCall& call);
  LinkedKernel read_kernel(const std::string& name);
  ReadListing read(KernelFiles& files, const std::string& name);
  LinkedKernel empty_kernel(const std::string& name);
  const std::string& listing_name(const std::string& callee) const;
  void link_calls();
  void check_operands(const isa::ListingCall& call, const LinkedKernel& callee) const;
  void note_fixed_smem(const isa::PackedListing& packed);

  void place_parameters();
  void place_outputs();
  bool is_undefined(std::uint32_t output) const;
  void place_constants();
  void place_tables();
  void place_temporaries();
  void place_devices();
  void place_windows();
  std::uint64_t place(std::uint64_t bytes);
  isa::Buffer& add_buffer(const std::string& name, isa::BufferRole role, std::uint32_t index,
                          std::uint64_t granule, const hlo::Shape& shape);
  void patch_top_level();
  void patch(isa::Kernel& kernel, const std::vector<isa::HbmReference>& references,
             const isa::PackedListing& packed, bool top_level);
  std::uint32_t runtime_word(std::uint32_t byte) const;
  void fill_smem();

  ListingFiles files_;
  hlo::Module scheduled_;
  InstructionIndex index_;
  std::string chip_;
  isa::CodeNames names_;
  isa::Program program_;

  isa::PackedListing top_packed_;
  isa::Listing top_;
  AddressUses uses_;
  isa::ListingPlacement kernel_placement_;
  std::vector<isa::UnknownInstruction> unknown_;
  std::map<std::string, LinkedKernel> kernels_;  ///< By the name of the listing.
  std::map<std::string, std::string> same_as_;   ///< Kernel to the one whose listing serves it.

  struct ScratchUse {
    std::uint32_t kernel = 0;
    std::vector<isa::HbmReference> references;
    isa::PackedListing packed;
  };
  std::vector<ScratchUse> scratch_uses_;
  std::uint64_t scratch_bytes_ = 0;

  std::uint64_t next_granule_ = 16;  ///< 16 KiB that no buffer has: the address 0 is none.
  std::uint64_t temporaries_ = 0;    ///< First granule.
  std::uint64_t scratch_ = 0;
  std::uint32_t output_pointer_ = 0;
  std::uint32_t devices_pointer_ = 0;
  std::unordered_map<std::uint32_t, std::uint64_t> placed_;  ///< Allocation to address in the code.
  std::map<std::uint64_t, std::uint64_t> windows_;           ///< Fixed granule to bytes.
  std::map<std::uint32_t, std::uint32_t> smem_;              ///< Word to value at the start.
};

}  // namespace tpu::xla
