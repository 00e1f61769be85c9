#include "traces/run_hlo.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "sim/base/ceil_divide.h"
#include "traces/buffer_lifetimes.h"
#include "traces/protobuf_writer.h"
#include "workloads/graph/primitive_types.h"

namespace tpu::traces {
namespace {

constexpr std::uint64_t kProgramId = 1, kEntryId = 1;

std::uint64_t primitive_type(hlo::ElementType type) {
  const auto found = std::find(hlo::kPrimitiveTypes.begin(), hlo::kPrimitiveTypes.end(), type);
  return static_cast<std::uint64_t>(found - hlo::kPrimitiveTypes.begin());
}

ProtobufMessage layout_message(const hlo::Layout& layout) {
  constexpr std::uint32_t kMinorToMajor = 1, kTile = 6, kMemorySpace = 8, kTail = 16;
  ProtobufMessage message;
  for (const std::int64_t dimension : layout.minor_to_major) {
    message.varint(kMinorToMajor, static_cast<std::uint64_t>(dimension));
  }
  for (const std::vector<std::int64_t>& tile : layout.tiles) {
    ProtobufMessage extents;
    for (const std::int64_t extent : tile) extents.varint(1, static_cast<std::uint64_t>(extent));
    message.message(kTile, extents);
  }
  if (layout.memory_space != 0) {
    message.varint(kMemorySpace, static_cast<std::uint64_t>(layout.memory_space));
  }
  return message.varint(kTail, 1);
}

ProtobufMessage shape_message(const hlo::Shape& shape) {
  constexpr std::uint32_t kType = 2, kDimension = 3, kElement = 4, kLayout = 5, kDynamic = 6;
  ProtobufMessage message;
  message.varint(kType, primitive_type(shape.type));
  for (const std::int64_t extent : shape.dimensions) {
    message.varint(kDimension, static_cast<std::uint64_t>(extent)).varint(kDynamic, 0);
  }
  for (const hlo::Shape& element : shape.elements) {
    message.message(kElement, shape_message(element));
  }
  const bool is_array = !shape.is_tuple() && shape.type != hlo::ElementType::kToken;
  const bool has_layout = shape.layout.minor_to_major.size() == shape.dimensions.size();
  if (is_array && has_layout) message.message(kLayout, layout_message(shape.layout));
  return message;
}

/// The shape of a text; an empty tuple where there is none.
ProtobufMessage shape_of(const std::string& text) {
  hlo::Shape empty;
  empty.type = hlo::ElementType::kTuple;
  if (text.empty()) return shape_message(empty);
  try {
    return shape_message(hlo::parse_shape(text));
  } catch (const WorkloadError&) {
    return shape_message(empty);  // A shape that only XLA writes; the text stands in the op's name.
  }
}

/// Letters that HLO's names may have.
std::string hlo_name(const std::string& name) {
  std::string clean;
  for (const char letter : name) {
    const bool plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' ||
                       letter == '-' || letter == '.';
    clean += plain ? letter : '_';
  }
  return clean.empty() ? "op" : clean;
}

ProtobufMessage metadata_message(const std::string& op_name, const std::string& source) {
  constexpr std::uint32_t kType = 1, kName = 2, kFile = 3, kLine = 4;
  ProtobufMessage metadata;
  if (!op_name.empty()) {
    metadata.string(kType, op_name.substr(op_name.rfind('/') + 1)).string(kName, op_name);
  }
  const std::size_t colon = source.rfind(':');
  if (colon != std::string::npos) {
    metadata.string(kFile, source.substr(0, colon));
    const std::string line = source.substr(colon + 1);
    const bool digits = !line.empty() && line.size() < 9 &&
                        line.find_first_not_of("0123456789") == std::string::npos;
    if (digits) metadata.varint(kLine, std::stoul(line));
  }
  return metadata;
}

/// Writes the module and the buffer assignment of one record.
class HloWriter {
 public:
  explicit HloWriter(const RunRecord& record) : record_(record) {}

  RunHlo write() {
    hlo_.module = hlo_name(record_.program);
    hlo_.program_id = kProgramId;
    for (const isa::Buffer& buffer : record_.buffers) {
      if (buffer.role == isa::BufferRole::kParameter) add_parameter(buffer);
    }
    std::multimap<std::uint32_t, OpOperand> operands;
    for (const OpOperand& each : record_.operands) operands.emplace(each.op, each);
    for (std::uint32_t op = 0; op < record_.ops.size(); ++op) {
      const auto [begin, end] = operands.equal_range(op);
      ProtobufMessage read;
      for (auto each = begin; each != end; ++each) add_operand(each->second, read);
      add_op(record_.ops[op], read);
    }
    const std::uint64_t root = instruction("result", "tuple", shape_of(""), {});
    constexpr std::uint32_t kModule = 1, kBufferAssignment = 3;
    hlo_.proto = ProtobufMessage()
                     .message(kModule, module_message(root))
                     .message(kBufferAssignment, assignment())
                     .text();
    return std::move(hlo_);
  }

 private:
  /// Adds an instruction; returns its id.
  std::uint64_t instruction(const std::string& name, std::string_view opcode,
                            const ProtobufMessage& shape, const ProtobufMessage& rest) {
    constexpr std::uint32_t kName = 1, kOpcode = 2, kShape = 3, kId = 35;
    std::string unique = hlo_name(name);
    for (std::size_t n = 1; !names_.insert(unique).second; ++n) {
      unique = hlo_name(name) + "." + std::to_string(n);
    }
    const std::uint64_t id = ++last_id_;
    ProtobufMessage message;
    message.bytes(kName, unique).bytes(kOpcode, opcode).message(kShape, shape).varint(kId, id);
    message.append(rest);
    instructions_.message(2, message);
    schedule_.varint(1, id);
    name_of_[id] = unique;
    return id;
  }

  void add_parameter(const isa::Buffer& buffer) {
    constexpr std::uint32_t kMetadata = 7, kNumber = 9;
    ProtobufMessage rest;
    rest.message(kMetadata, metadata_message(buffer.name, "")).varint(kNumber, parameters_);
    const ProtobufMessage shape = shape_of(buffer.shape);
    parameter_ids_[buffer.index] = instruction(buffer.name, "parameter", shape, rest);
    program_shape_.message(1, shape);
    parameter_names_.bytes(3, hlo_name(buffer.name));
    ++parameters_;
  }

  /// Operands stand before what reads them; what a loop carries round is left out.
  void add_operand(const OpOperand& operand, ProtobufMessage& read) const {
    constexpr std::uint32_t kOperand = 36;
    if (!operand.is_parameter) {
      if (operand.operand < hlo_.op_ids.size()) read.varint(kOperand, hlo_.op_ids[operand.operand]);
      return;
    }
    const auto parameter = parameter_ids_.find(operand.operand);
    if (parameter != parameter_ids_.end()) read.varint(kOperand, parameter->second);
  }

  void add_op(const isa::OpInfo& op, const ProtobufMessage& operands) {
    constexpr std::uint32_t kMetadata = 7, kTarget = 28;
    ProtobufMessage rest;
    rest.message(kMetadata, metadata_message(op.op_name, op.source));
    rest.bytes(kTarget, op.category.empty() ? "op" : op.category).append(operands);
    const std::uint64_t id = instruction(op.name, "custom-call", shape_of(op.shape), rest);
    hlo_.op_ids.push_back(id);
    op_ids_.emplace(op.name, id);
  }

  ProtobufMessage module_message(std::uint64_t root) {
    constexpr std::uint32_t kName = 1, kEntryName = 2, kComputation = 3, kProgramShape = 4, kId = 5,
                            kEntry = 6, kSchedule = 7;
    program_shape_.message(2, shape_of("")).append(parameter_names_);
    ProtobufMessage entry;
    entry.bytes(1, "main").append(instructions_);
    entry.message(4, program_shape_).varint(5, kEntryId).varint(6, root);
    ProtobufMessage module;
    module.bytes(kName, hlo_.module).bytes(kEntryName, "main").message(kComputation, entry);
    module.message(kProgramShape, program_shape_).varint(kId, kProgramId).varint(kEntry, kEntryId);
    const ProtobufMessage sequence = ProtobufMessage().varint(1, kEntryId).message(2, schedule_);
    return module.message(kSchedule, ProtobufMessage().message(1, sequence));
  }

  /// The instruction that makes a buffer: "fusion.3{1}" is the second result of "fusion.3".
  std::uint64_t maker(const isa::Buffer& buffer) const {
    if (buffer.role == isa::BufferRole::kParameter) return parameter_ids_.at(buffer.index);
    const auto found = op_ids_.find(buffer.name.substr(0, buffer.name.find_first_of("{@")));
    return found != op_ids_.end() ? found->second : last_id_;
  }

  /// Logical buffers are numbered from 1 in the order of the record. An allocation for each buffer
  /// that lives through the step; one for all temporaries.
  ProtobufMessage assignment() {
    constexpr std::uint32_t kLogical = 1, kAllocation = 3, kHeapTrace = 4;
    ProtobufMessage message, temporaries;
    const auto [low, high] = temporary_range();
    const std::set<std::uint64_t> parameters = parameter_granules();
    std::uint64_t allocations = 0;
    for (std::size_t i = 0; i < record_.buffers.size(); ++i) {
      const isa::Buffer& buffer = record_.buffers[i];
      const std::uint64_t made_by = maker(buffer);
      ProtobufMessage place;
      place.bytes(2, name_of_.at(made_by)).varint(4, made_by);
      message.message(kLogical,
                      ProtobufMessage().varint(1, i + 1).varint(2, buffer.bytes).message(3, place));
      if (buffer.role == isa::BufferRole::kTemporary) {
        temporaries.append(assigned(i, (buffer.granule - low) * isa::kHbmGranuleBytes));
      } else if (buffer.role != isa::BufferRole::kOutput || parameters.count(buffer.granule) == 0) {
        message.message(kAllocation, allocation_of(i, allocations++));
      }
    }
    if (high == 0) return message;
    ProtobufMessage heap;
    heap.varint(1, allocations).varint(2, (high - low) * isa::kHbmGranuleBytes).append(temporaries);
    return message.message(kAllocation, heap).message(kHeapTrace, heap_trace(allocations));
  }

  /// First and end granule of all temporaries; 0 and 0 without any.
  std::pair<std::uint64_t, std::uint64_t> temporary_range() const {
    std::uint64_t low = ~std::uint64_t{0}, high = 0;
    for (const isa::Buffer& buffer : record_.buffers) {
      if (buffer.role != isa::BufferRole::kTemporary) continue;
      low = std::min(low, buffer.granule);
      high = std::max(high, buffer.granule + ceil_divide(buffer.bytes, isa::kHbmGranuleBytes));
    }
    return {high == 0 ? 0 : low, high};
  }

  /// An output that begins where a parameter does takes over its memory.
  std::set<std::uint64_t> parameter_granules() const {
    std::set<std::uint64_t> granules;
    for (const isa::Buffer& buffer : record_.buffers) {
      if (buffer.role == isa::BufferRole::kParameter) granules.insert(buffer.granule);
    }
    return granules;
  }

  ProtobufMessage assigned(std::size_t buffer, std::uint64_t offset) const {
    constexpr std::uint32_t kAssigned = 9;
    ProtobufMessage place;
    place.varint(1, buffer + 1).varint(2, offset).varint(3, record_.buffers[buffer].bytes);
    return ProtobufMessage().message(kAssigned, place);
  }

  /// The allocation of a buffer that lives through the step.
  ProtobufMessage allocation_of(std::size_t index, std::uint64_t number) const {
    constexpr std::uint32_t kParameter = 5, kNumber = 6, kLiveOut = 7, kConstant = 12;
    const isa::Buffer& buffer = record_.buffers[index];
    ProtobufMessage allocation;
    allocation.varint(1, number).varint(2, buffer.bytes);
    if (buffer.role == isa::BufferRole::kParameter) {
      allocation.varint(kParameter, 1).varint(kNumber, buffer.index);
    }
    if (buffer.role == isa::BufferRole::kOutput) allocation.varint(kLiveOut, 1);
    if (buffer.role == isa::BufferRole::kConstant) allocation.varint(kConstant, 1);
    return allocation.append(assigned(index, 0));
  }

  /// Temporaries in the order of ops: freed behind their last op, allocated at their first.
  ProtobufMessage heap_trace(std::uint64_t allocation) const {
    constexpr std::uint64_t kAlloc = 0, kFree = 1;
    using At = std::pair<std::uint64_t, std::uint64_t>;  // Op, kind: frees of an op come first.
    std::multimap<At, std::size_t> events;
    const std::vector<isa::Lifetime>& lifetimes = record_.lifetimes;
    for (std::size_t i = 0; i < record_.buffers.size(); ++i) {
      if (record_.buffers[i].role != isa::BufferRole::kTemporary) continue;
      events.emplace(At{lifetimes[i].first_op, 1}, i);
      events.emplace(At{std::uint64_t{lifetimes[i].last_op} + 1, 0}, i);
    }
    ProtobufMessage trace;
    for (const auto& [at, buffer] : events) {
      const std::uint64_t id = at.first < hlo_.op_ids.size() ? hlo_.op_ids[at.first] : last_id_;
      ProtobufMessage event;
      event.varint(1, at.second == 1 ? kAlloc : kFree).varint(2, buffer + 1);
      event.bytes(3, "main").bytes(4, name_of_.at(id));
      trace.message(1, event);
    }
    return trace.varint(2, 1).varint(3, allocation);
  }

  const RunRecord& record_;
  RunHlo hlo_;
  ProtobufMessage instructions_, schedule_, program_shape_, parameter_names_;
  std::set<std::string> names_;
  std::map<std::string, std::uint64_t> op_ids_;
  std::map<std::uint32_t, std::uint64_t> parameter_ids_;
  std::map<std::uint64_t, std::string> name_of_;
  std::uint64_t last_id_ = 0, parameters_ = 0;
};

}  // namespace

RunHlo run_hlo(const RunRecord& record) { return HloWriter(record).write(); }

}  // namespace tpu::traces
