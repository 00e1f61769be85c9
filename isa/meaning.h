#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "isa/dma_descriptor.h"
#include "isa/instruction.h"
#include "isa/program.h"

namespace tpu::isa {

/// Eight sublanes of 128 lanes of 32 bits: element (s, l) is word[128 s + l].
struct alignas(64) VectorRegister {
  std::array<std::uint32_t, kSublanes * kLanes> word{};
};

/// One bit per element of a vector register, in the same order.
struct VectorMask {
  std::array<std::uint64_t, kSublanes * kLanes / 64> bits{};
};

/// What lies around a core, as its instructions see it: sync flags and DMA. The timed core
/// implements it with the machine's clock; a test may implement it at once. Waiting is the
/// sequencer's business: no function here waits.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual void start_dma(const DmaDescriptor& descriptor) = 0;
  virtual void add_to_sync_flag(std::uint32_t flag, std::uint32_t value) = 0;
  virtual void add_to_remote_sync_flag(std::uint32_t remote_address, std::uint32_t value) = 0;
  virtual std::uint32_t sync_flag(std::uint32_t flag) = 0;
};

/// The part of a core's state that control depends on: it exists with values off, too.
struct ScalarState {
  std::array<std::uint32_t, kScalarRegisters> s{};
  std::array<bool, kPredicateRegisters> p{};
  std::vector<std::uint32_t> smem;
  std::vector<std::uint32_t> parameter_granules;  ///< For scalar_parameter_address.
  std::uint32_t chip = 0;  ///< Of this core, for DMA descriptors of the simple forms.
  std::uint32_t core = 0;
};

/// Result of a scalar instruction that computes (`s=` signatures but for loads): pure, no state.
std::uint32_t scalar_result(Opcode opcode, std::uint32_t a, std::uint32_t b);
/// Result of a scalar comparison (`p=ss`).
bool scalar_comparison(Opcode opcode, std::uint32_t a, std::uint32_t b);

}  // namespace tpu::isa
