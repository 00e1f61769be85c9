#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/program.h"
#include "workloads/graph/shape.h"

namespace tpu::compiler {

/// A dense array as a user has it: row-major elements of the shape's type; the layout is not used.
struct HostArray {
  hlo::Shape shape;
  std::vector<std::uint8_t> bytes;
};

/// The words of the array in the buffer's layout. The array has the buffer's dimensions; its type
/// may be one that the compiler widened for memory (bf16 to f32, pred to s32, u8 to u32); u64 and
/// c64 are pairs of words there. Throws WorkloadError naming the buffer where it does not fit.
std::vector<std::uint32_t> words_for(const isa::Buffer& buffer, const HostArray& array);

/// The array in the words of a buffer, in the buffer's type.
HostArray array_from(const isa::Buffer& buffer, const std::vector<std::uint32_t>& words);

/// The array's elements as another type; floating types, integers of at most 32 bits, s64 and
/// pred.
HostArray converted(const HostArray& array, hlo::ElementType type);

/// The array of a buffer as the module's type: wider types that memory holds become it again, pairs
/// of words 64-bit integers and complex numbers.
HostArray in_module_type(const HostArray& array, hlo::ElementType type);

/// The names of constants whose values the module leaves out, as HLO text does with "{...}": a
/// program of ours that has some can be timed, not computed.
std::vector<std::string> constants_without_values(const isa::Program& program);
/// What to do about them: "... constants ... have no values: ...".
std::string advice_on_values(const std::vector<std::string>& constants);

/// The buffer of this role and index, or null.
const isa::Buffer* find_buffer(const isa::Program& program, isa::BufferRole role,
                               std::uint32_t index);

/// One batch of the infeed queue: the step's input arrays in the order of the infeed leaves, each
/// in whole granules.
std::vector<std::uint32_t> infeed_batch(const isa::Program& program,
                                        const std::vector<HostArray>& leaves);

}  // namespace tpu::compiler
