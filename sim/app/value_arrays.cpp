#include "sim/app/value_arrays.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "sim/base/error.h"

namespace tpu::app {
namespace {

using compiler::HostArray;
using hlo::ElementType;

constexpr std::uint32_t kRandomIntegers = 8;  ///< Random whole numbers are below this.
/// Random fp16 numbers lie between 0.5 and 1, of both signs.
constexpr std::uint32_t kHalf = 0x3800, kHalfSignAndFraction = 0x83ff;

/// The finaliser of splitmix64: equal seeds give equal values on every machine.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Types of 64 bits become those of 32 that the machine has.
ElementType machine_type(ElementType type) {
  switch (type) {
    case ElementType::kF64:
    case ElementType::kF16:
      return ElementType::kF32;
    case ElementType::kS64:
    case ElementType::kS16:
    case ElementType::kS8:
      return ElementType::kS32;
    case ElementType::kU64:
    case ElementType::kU16:
    case ElementType::kU8:
      return ElementType::kU32;
    default:
      return type;
  }
}

template <class Type>
void append(std::vector<std::uint8_t>& bytes, Type value) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof(Type));
  std::memcpy(bytes.data() + at, &value, sizeof(Type));
}

/// The part of an array that a core gets when the file holds those of all cores together: equal
/// slices of the first dimension.
HostArray slice_of(const HostArray& whole, std::size_t cores, std::size_t place) {
  HostArray part;
  part.shape = whole.shape;
  part.shape.dimensions[0] /= static_cast<std::int64_t>(cores);
  const std::size_t size = whole.bytes.size() / cores;
  const auto begin = whole.bytes.begin() + static_cast<std::ptrdiff_t>(size * place);
  part.bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(size));
  return part;
}

}  // namespace

namespace {

/// Calls `copy(offset in the part, offset in the whole, length)`, in elements, for each row of the
/// minor dimension of a device's part.
template <class Copy>
void for_each_row(const compiler::ArrayParts& parts, std::size_t device, Copy copy) {
  const std::vector<std::int64_t>& extents = parts.part;
  const std::size_t rank = extents.size();
  const std::int64_t row = rank == 0 ? 1 : extents[rank - 1];
  std::int64_t rows = 1;
  for (std::size_t d = 0; d + 1 < rank; ++d) rows *= extents[d];
  for (std::int64_t i = 0; row > 0 && i < rows; ++i) {
    std::int64_t rest = i, at = rank == 0 ? 0 : parts.starts[device][rank - 1];
    std::int64_t stride = rank == 0 ? 1 : parts.whole.dimensions[rank - 1];
    for (std::size_t d = rank == 0 ? 0 : rank - 1; d-- > 0;) {
      at += (parts.starts[device][d] + rest % extents[d]) * stride;
      rest /= extents[d];
      stride *= parts.whole.dimensions[d];
    }
    copy(static_cast<std::size_t>(i * row), static_cast<std::size_t>(at),
         static_cast<std::size_t>(row));
  }
}

}  // namespace

std::size_t part_number(const PreparedWorkload& workload, const MachineParams& params,
                        std::size_t place) {
  const bool partitioned = workload.is_from_xla && workload.cores.size() == params.cores();
  return partitioned ? params.partition_of(workload.cores[place]) : place;
}

HostArray part_of(const HostArray& whole, const compiler::ArrayParts& parts, std::size_t device) {
  HostArray part;
  part.shape = hlo::array_shape(whole.shape.type, parts.part);
  const auto size = static_cast<std::size_t>(hlo::byte_size(whole.shape.type));
  part.bytes.resize(static_cast<std::size_t>(part.shape.unpadded_bytes()));
  for_each_row(parts, device, [&](std::size_t to, std::size_t from, std::size_t length) {
    std::memcpy(part.bytes.data() + to * size, whole.bytes.data() + from * size, length * size);
  });
  return part;
}

void put_part(const HostArray& part, const compiler::ArrayParts& parts, std::size_t device,
              HostArray& whole) {
  const auto size = static_cast<std::size_t>(hlo::byte_size(whole.shape.type));
  for_each_row(parts, device, [&](std::size_t from, std::size_t to, std::size_t length) {
    std::memcpy(whole.bytes.data() + to * size, part.bytes.data() + from * size, length * size);
  });
}

std::string array_name(const std::string& prefix, std::size_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "_%03zu", number);
  return prefix + text;
}

HostArray to_host_array(const traces::NpzArray& array) {
  HostArray result;
  const ElementType type = machine_type(array.type);
  result.shape = hlo::array_shape(type, array.dimensions);
  if (type == array.type) {
    result.bytes = array.bytes;
    return result;
  }
  for (const double value : traces::to_doubles(array)) {
    if (type == ElementType::kF32) {
      append(result.bytes, static_cast<float>(value));
    } else if (type == ElementType::kS32) {
      append(result.bytes, static_cast<std::int32_t>(static_cast<std::int64_t>(value)));
    } else {
      append(result.bytes, static_cast<std::uint32_t>(static_cast<std::uint64_t>(value)));
    }
  }
  return result;
}

traces::NpzArray to_npz_array(const HostArray& array) {
  traces::NpzArray result;
  result.type = array.shape.type;
  result.dimensions = array.shape.dimensions;
  result.bytes = array.bytes;
  return result;
}

InitialValues::InitialValues(const PreparedWorkload& workload, const traces::NpzFile& inputs,
                             std::uint64_t seed)
    : workload_(workload), seed_(seed) {
  std::vector<std::uint32_t> known;
  std::size_t leaves = 0;
  for (const isa::Buffer& buffer : workload.program.buffers) {
    if (buffer.role == isa::BufferRole::kParameter) known.push_back(buffer.index);
    if (buffer.role == isa::BufferRole::kInfeed) ++leaves;
  }
  for (std::uint32_t number = 0; infeed_numbers_.size() < leaves; ++number) {
    if (std::find(known.begin(), known.end(), number) == known.end()) {
      infeed_numbers_.push_back(number);
    }
  }
  const std::size_t count = known.size() + leaves;
  for (std::size_t number = 0; number < count; ++number) {
    const auto found = inputs.find(array_name("arg", number));
    if (found != inputs.end()) inputs_[static_cast<std::uint32_t>(number)] = found->second;
  }
  if (inputs.empty()) return;
  for (std::size_t number = 0; number < count; ++number) {
    if (inputs_.count(static_cast<std::uint32_t>(number)) == 0) {
      throw WorkloadError("--inputs: expected an array " + array_name("arg", number) + ", one of " +
                          std::to_string(count) + " parameters of " + workload.program.name);
    }
  }
  const std::string more = array_name("arg", count);
  if (inputs.count(more) != 0) {
    throw WorkloadError("--inputs: expected the " + std::to_string(count) + " parameters of " +
                        workload.program.name + ", found " + more +
                        ", too (jax.jit leaves out arguments that nothing reads, and the numbers "
                        "behind them move; keep_unused=True keeps them)");
  }
}

std::string InitialValues::origin() const {
  if (!inputs_.empty()) return "from a file";
  if (workload_.frontend) return "initialised by the workload, seed " + std::to_string(seed_);
  return "random, seed " + std::to_string(seed_);
}

HostArray InitialValues::from_file(const traces::NpzArray& array, const isa::Buffer& buffer,
                                   std::uint32_t number, std::size_t place) const {
  const std::string name = array_name("arg", number);
  const std::size_t cores = workload_.cores.size();
  const hlo::Shape shape = hlo::parse_shape(buffer.shape);
  const bool is_wide = hlo::byte_size(shape.type) == 8 && array.type == shape.type;
  HostArray whole = is_wide ? HostArray{hlo::array_shape(array.type, array.dimensions), array.bytes}
                            : to_host_array(array);
  if (const compiler::ArrayParts* parts = workload_.parts_of_parameter(number)) {
    if (whole.shape.dimensions == parts->whole.dimensions) return part_of(whole, *parts, place);
    throw WorkloadError("--inputs: " + name + ": expected " + hlo::to_string(parts->whole, false) +
                        ", the array of all devices, found " + hlo::to_string(whole.shape, false));
  }
  if (whole.shape.dimensions == shape.dimensions) return whole;
  std::vector<std::int64_t> pairs = array.dimensions;
  pairs.push_back(2);
  const bool is_pair = array.type == ElementType::kU64 || array.type == ElementType::kC64;
  if (is_pair && pairs == shape.dimensions) {
    return {hlo::array_shape(array.type, array.dimensions), array.bytes};
  }
  std::vector<std::int64_t> together = shape.dimensions;
  if (!together.empty()) together[0] *= static_cast<std::int64_t>(cores);
  if (cores > 1 && !together.empty() && whole.shape.dimensions == together) {
    return slice_of(whole, cores, place);
  }
  throw WorkloadError("--inputs: " + name + ": expected " + hlo::to_string(shape, false) +
                      ", found " + hlo::to_string(whole.shape, false));
}

HostArray InitialValues::random(const isa::Buffer& buffer, std::uint32_t number) const {
  HostArray array;
  array.shape = hlo::parse_shape(buffer.shape);
  const ElementType type = array.shape.type;
  const std::int64_t count = array.shape.element_count();
  const auto& types = workload_.compile_report.parameter_types;
  const bool is_pred = number < types.size() && types[number] == ElementType::kPred;
  const std::uint64_t key = mix(mix(seed_) ^ number);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t bits = mix(key + static_cast<std::uint64_t>(i));
    const float real = static_cast<float>(static_cast<std::int64_t>(bits >> 40)) / 8388608.0F - 1;
    if (type == ElementType::kF32) {
      append(array.bytes, real);
    } else if (type == ElementType::kBf16) {
      std::uint32_t word = 0;
      std::memcpy(&word, &real, sizeof word);
      append(array.bytes, static_cast<std::uint16_t>(word >> 16));
    } else if (hlo::byte_size(type) == 4) {
      append(array.bytes, static_cast<std::uint32_t>(bits % (is_pred ? 2 : kRandomIntegers)));
    } else if (hlo::byte_size(type) == 1) {
      append(array.bytes, static_cast<std::uint8_t>(bits & 1));
    } else if (type == ElementType::kF16) {
      append(array.bytes, static_cast<std::uint16_t>(kHalf | (bits & kHalfSignAndFraction)));
    } else if (type == ElementType::kF64) {
      append(array.bytes, static_cast<double>(real));
    } else if (type == ElementType::kS16 || type == ElementType::kU16) {
      append(array.bytes, static_cast<std::uint16_t>(bits % kRandomIntegers));
    } else if (type == ElementType::kS64 || type == ElementType::kU64) {
      append(array.bytes, bits % kRandomIntegers);
    } else {
      throw WorkloadError(buffer.name + ": no random values of type " +
                          std::string(hlo::to_string(type)) + "; give them with --inputs");
    }
  }
  return array;
}

HostArray InitialValues::parameter(const isa::Buffer& buffer, std::uint32_t number,
                                   std::size_t place, std::uint32_t step) const {
  const auto given = inputs_.find(number);
  if (given != inputs_.end()) {
    return from_file(given->second, buffer, number, place);
  }
  if (!workload_.frontend) return random(buffer, number);
  const frontend::Workload& zoo = *workload_.frontend;
  const hlo::Computation& entry = zoo.module.entry_computation();
  HostArray array;
  array.shape = entry.at(entry.parameters().at(number)).shape;
  const auto replica = static_cast<std::int64_t>(place);
  array.bytes = frontend::parameter_value(zoo, number, seed_, step, replica);
  return share_of(std::move(array), number, place);
}

HostArray InitialValues::share_of(HostArray whole, std::uint32_t number, std::size_t place) const {
  const compiler::ArrayParts* parts = workload_.parts_of_parameter(number);
  return parts == nullptr ? std::move(whole) : part_of(whole, *parts, place);
}

std::vector<std::uint32_t> InitialValues::words(const isa::Buffer& buffer,
                                                std::size_t place) const {
  return compiler::words_for(buffer, parameter(buffer, buffer.index, place, 0));
}

CoreLoad InitialValues::load(std::size_t place, std::uint32_t steps) const {
  const isa::Program& program = workload_.program;
  CoreLoad load;
  std::vector<std::vector<std::uint8_t>> state;
  if (workload_.frontend && inputs_.empty()) {
    state = frontend::initial_values(*workload_.frontend, seed_, static_cast<std::int64_t>(place));
  }
  for (const isa::Buffer& buffer : program.buffers) {
    if (buffer.role != isa::BufferRole::kParameter) continue;
    HostArray array;
    if (buffer.index < state.size()) {
      const hlo::Computation& entry = workload_.frontend->module.entry_computation();
      array.shape = entry.at(entry.parameters().at(buffer.index)).shape;
      array.bytes = std::move(state[buffer.index]);
      array = share_of(std::move(array), buffer.index, place);
    } else {
      array = parameter(buffer, buffer.index, place, 0);
    }
    load.hbm.push_back({buffer.granule, compiler::words_for(buffer, array)});
  }
  if (infeed_numbers_.empty()) return load;
  const std::uint32_t batches = inputs_.empty() && workload_.frontend ? steps : 1;
  for (std::uint32_t step = 0; step < batches; ++step) {
    std::vector<HostArray> leaves;
    for (std::size_t leaf = 0; leaf < infeed_numbers_.size(); ++leaf) {
      const isa::Buffer* buffer = compiler::find_buffer(program, isa::BufferRole::kInfeed,
                                                        static_cast<std::uint32_t>(leaf));
      TPU_CHECK(buffer != nullptr, "no infeed leaf " << leaf);
      leaves.push_back(parameter(*buffer, infeed_numbers_[leaf], place, step));
    }
    load.infeed.push_back({0, compiler::infeed_batch(program, leaves)});
  }
  return load;
}

namespace {

HostArray read_buffer(const isa::Buffer& buffer, const Machine& machine, std::uint32_t core) {
  const std::uint64_t words = (buffer.bytes + isa::kHbmGranuleBytes - 1) / isa::kHbmGranuleBytes *
                              (isa::kHbmGranuleBytes / 4);
  return compiler::array_from(buffer, machine.read_hbm(core, buffer.granule, words));
}

}  // namespace

std::map<std::uint32_t, HostArray> read_outputs(const PreparedWorkload& workload,
                                                const MachineParams& params,
                                                const Machine& machine) {
  std::map<std::uint32_t, HostArray> outputs;
  for (const isa::Buffer& buffer : workload.program.buffers) {
    if (buffer.role != isa::BufferRole::kOutput) continue;
    HostArray& output = outputs[buffer.index];
    output = read_buffer(buffer, machine, workload.cores[0]);
    const auto& types = workload.compile_report.result_types;
    const compiler::ArrayParts* parts = workload.parts_of_result(buffer.index);
    if (parts == nullptr) {
      if (buffer.index < types.size()) {
        output = compiler::in_module_type(output, types[buffer.index]);
      }
      continue;
    }
    HostArray whole;
    whole.shape = hlo::array_shape(output.shape.type, parts->whole.dimensions);
    whole.bytes.resize(static_cast<std::size_t>(whole.shape.unpadded_bytes()));
    for (std::size_t place = 0; place < workload.cores.size(); ++place) {
      put_part(read_buffer(buffer, machine, workload.cores[place]), *parts,
               part_number(workload, params, place), whole);
    }
    output = std::move(whole);
    if (buffer.index < types.size()) output = compiler::in_module_type(output, types[buffer.index]);
  }
  return outputs;
}

const isa::Buffer* loss_buffer(const isa::Program& program) {
  const isa::Buffer* last = nullptr;
  std::size_t outputs = 0;
  for (const isa::Buffer& buffer : program.buffers) {
    if (buffer.role != isa::BufferRole::kOutput) continue;
    ++outputs;
    if (last == nullptr || buffer.index > last->index) last = &buffer;
  }
  if (outputs < 2) return nullptr;
  const hlo::Shape shape = hlo::parse_shape(last->shape);
  return shape.type == ElementType::kF32 && shape.dimensions.empty() ? last : nullptr;
}

double read_loss(const isa::Buffer& buffer, const Machine& machine, std::uint32_t core) {
  const HostArray array = read_buffer(buffer, machine, core);
  float loss = 0;
  std::memcpy(&loss, array.bytes.data(), sizeof loss);
  return static_cast<double>(loss);
}

}  // namespace tpu::app
