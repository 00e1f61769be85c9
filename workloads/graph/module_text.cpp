#include <charconv>
#include <cmath>
#include <cstring>
#include <string>

#include "sim/base/error.h"
#include "workloads/graph/graph.h"

namespace tpu::hlo {

namespace {

using Dimensions = std::vector<std::int64_t>;

std::string braces(const Dimensions& values) {
  std::string text = "{";
  for (std::size_t i = 0; i < values.size(); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(values[i]);
  }
  return text + "}";
}

/// In quotes. Texts that come from files keep their escapes, which are left as they are.
std::string quoted(const std::string& value) {
  std::string text = "\"";
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '\\' && i + 1 < value.size()) {
      text += value[i++];
    } else if (value[i] == '"' || value[i] == '\\') {
      text += '\\';
    }
    text += value[i];
  }
  return text + "\"";
}

/// The shortest decimal that reads back as the same number.
template <class Float>
std::string float_text(Float value) {
  if (std::isnan(value)) return std::signbit(value) ? "-nan" : "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, end.ptr);
}

template <class Value>
Value load(const std::uint8_t* bytes) {
  Value value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

float bf16_value(const std::uint8_t* bytes) {
  const std::uint32_t bits = std::uint32_t{load<std::uint16_t>(bytes)} << 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

float f16_value(const std::uint8_t* bytes) {
  const std::uint16_t bits = load<std::uint16_t>(bytes);
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  float value = 0;
  if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else if (exponent == 0x1f) {
    value = fraction == 0 ? INFINITY : NAN;
  } else {
    value = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

std::string element_text(ElementType type, const std::uint8_t* bytes, bool scalar) {
  switch (type) {
    case ElementType::kPred:
      if (scalar) return *bytes != 0 ? "true" : "false";
      return *bytes != 0 ? "1" : "0";
    case ElementType::kS8:
      return std::to_string(load<std::int8_t>(bytes));
    case ElementType::kS16:
      return std::to_string(load<std::int16_t>(bytes));
    case ElementType::kS32:
      return std::to_string(load<std::int32_t>(bytes));
    case ElementType::kS64:
      return std::to_string(load<std::int64_t>(bytes));
    case ElementType::kU8:
      return std::to_string(load<std::uint8_t>(bytes));
    case ElementType::kU16:
      return std::to_string(load<std::uint16_t>(bytes));
    case ElementType::kU32:
      return std::to_string(load<std::uint32_t>(bytes));
    case ElementType::kU64:
      return std::to_string(load<std::uint64_t>(bytes));
    case ElementType::kF16:
      return float_text(f16_value(bytes));
    case ElementType::kBf16:
      return float_text(bf16_value(bytes));
    case ElementType::kF32:
      return float_text(load<float>(bytes));
    case ElementType::kF64:
      return float_text(load<double>(bytes));
    case ElementType::kTuple:
    case ElementType::kToken:
    case ElementType::kOpaque:
      break;
  }
  throw WorkloadError("a constant: expected an array, found a " + std::string(to_string(type)));
}

/// Appends the elements of one dimension and those within it.
void append_literal(const HloInstruction& constant, std::size_t dimension,
                    const std::uint8_t*& bytes, std::string& text) {
  if (dimension == constant.shape.dimensions.size()) {
    text += element_text(constant.shape.type, bytes, dimension == 0);
    bytes += byte_size(constant.shape.type);
    return;
  }
  text += '{';
  for (std::int64_t i = 0; i < constant.shape.dimensions[dimension]; ++i) {
    if (i > 0) text += ", ";
    append_literal(constant, dimension + 1, bytes, text);
  }
  text += '}';
}

std::string literal_text(const HloInstruction& constant) {
  if (constant.literal.empty() && constant.shape.element_count() > 0) return "{...}";
  const std::uint8_t* bytes = constant.literal.data();
  std::string text;
  append_literal(constant, 0, bytes, text);
  return text;
}

template <class Value>
std::string by_x(const std::vector<WindowDimension>& window, Value&& value) {
  std::string text;
  for (const WindowDimension& dimension : window) {
    text += (text.empty() ? "" : "x") + value(dimension);
  }
  return text;
}

std::string window_text(const std::vector<WindowDimension>& window) {
  std::string text =
      "size=" + by_x(window, [](const WindowDimension& w) { return std::to_string(w.size); });
  const auto append = [&](const char* name, auto differs, auto value) {
    for (const WindowDimension& dimension : window) {
      if (differs(dimension)) {
        text += std::string(" ") + name + "=" + by_x(window, value);
        return;
      }
    }
  };
  append(
      "stride", [](const WindowDimension& w) { return w.stride != 1; },
      [](const WindowDimension& w) { return std::to_string(w.stride); });
  append(
      "pad", [](const WindowDimension& w) { return w.padding_low != 0 || w.padding_high != 0; },
      [](const WindowDimension& w) {
        return std::to_string(w.padding_low) + "_" + std::to_string(w.padding_high);
      });
  append(
      "lhs_dilate", [](const WindowDimension& w) { return w.base_dilation != 1; },
      [](const WindowDimension& w) { return std::to_string(w.base_dilation); });
  append(
      "rhs_dilate", [](const WindowDimension& w) { return w.window_dilation != 1; },
      [](const WindowDimension& w) { return std::to_string(w.window_dilation); });
  append(
      "rhs_reversal", [](const WindowDimension& w) { return w.reversal; },
      [](const WindowDimension& w) { return std::string(w.reversal ? "1" : "0"); });
  return text;
}

std::string labels_text(std::int64_t first, char first_label, std::int64_t second,
                        char second_label, const Dimensions& spatial) {
  std::string text(spatial.size() + 2, '?');
  text[static_cast<std::size_t>(first)] = first_label;
  text[static_cast<std::size_t>(second)] = second_label;
  for (std::size_t i = 0; i < spatial.size(); ++i) {
    text[static_cast<std::size_t>(spatial[i])] = static_cast<char>('0' + i);
  }
  return text;
}

std::string dim_labels_text(const ConvolutionDimensions& dims) {
  return labels_text(dims.input_batch, 'b', dims.input_feature, 'f', dims.input_spatial) + "_" +
         labels_text(dims.kernel_input_feature, 'i', dims.kernel_output_feature, 'o',
                     dims.kernel_spatial) +
         "->" + labels_text(dims.output_batch, 'b', dims.output_feature, 'f', dims.output_spatial);
}

/// Writes a module; computations before those that call them, as XLA's parser wants it.
class Writer {
 public:
  explicit Writer(const Module& module) : module_(module) {}

  std::string text() {
    header();
    written_.assign(module_.computations.size(), false);
    for (std::size_t i = 0; i < written_.size(); ++i) {
      if (static_cast<ComputationId>(i) != module_.entry) {
        computation(static_cast<ComputationId>(i));
      }
    }
    computation(module_.entry);
    return std::move(out_);
  }

 private:
  void header() {
    out_ += "HloModule " + (module_.name.empty() ? "module" : module_.name);
    if (!module_.aliases.empty()) {
      out_ += ", input_output_alias={ ";
      for (std::size_t i = 0; i < module_.aliases.size(); ++i) {
        const Alias& alias = module_.aliases[i];
        if (i > 0) out_ += ", ";
        out_ += "{" + std::to_string(alias.output_index) + "}: (" +
                std::to_string(alias.parameter_number) + ", {}, may-alias)";
      }
      out_ += " }";
    }
    const Computation& entry = module_.entry_computation();
    out_ += ", entry_computation_layout={(";
    const std::vector<InstructionId> parameters = entry.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (i > 0) out_ += ", ";
      out_ += to_string(entry.at(parameters[i]).shape);
    }
    out_ += ")->" + to_string(entry.at(entry.root).shape) + "}";
    if (module_.replicas > 1) out_ += ", replica_count=" + std::to_string(module_.replicas);
    frontend_attributes();
    out_ += "\n";
  }

  void frontend_attributes() {
    if (module_.examples_per_step == 0 && module_.infeed_parameters.empty()) return;
    out_ += ", frontend_attributes={examples_per_step=\"" +
            std::to_string(module_.examples_per_step) + "\"";
    if (!module_.infeed_parameters.empty()) {
      const std::string list = braces(module_.infeed_parameters);
      out_ += ",infeed_parameters=\"" + list.substr(1, list.size() - 2) + "\"";
    }
    out_ += "}";
  }

  void computation(ComputationId id) {
    if (written_[static_cast<std::size_t>(id)]) return;
    written_[static_cast<std::size_t>(id)] = true;
    const Computation& computation = module_.computation(id);
    for (const HloInstruction& instruction : computation.instructions) {
      for (ComputationId called : instruction.called) this->computation(called);
    }
    out_ += id == module_.entry ? "\nENTRY %" : "\n%";
    out_ += computation.name + " (";
    const std::vector<InstructionId> parameters = computation.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const HloInstruction& parameter = computation.at(parameters[i]);
      out_ += (i > 0 ? ", " : "") + parameter.name + ": " + to_string(parameter.shape, false);
    }
    out_ += ") -> " + to_string(computation.at(computation.root).shape, false) + " {\n";
    for (const HloInstruction& instruction : computation.instructions) {
      out_ += instruction.id == computation.root ? "  ROOT %" : "  %";
      out_ += instruction.name + " = " + to_string(instruction.shape) + " " +
              std::string(to_string(instruction.opcode)) + "(" +
              operands(computation, instruction) + ")";
      attributes(computation, instruction);
      out_ += "\n";
    }
    out_ += "}\n";
  }

  static std::string operands(const Computation& computation, const HloInstruction& instruction) {
    if (instruction.opcode == HloOpcode::kParameter) {
      return std::to_string(instruction.parameter_number);
    }
    if (instruction.opcode == HloOpcode::kConstant) return literal_text(instruction);
    std::string text;
    for (InstructionId operand : instruction.operands) {
      text += (text.empty() ? "%" : ", %") + computation.at(operand).name;
    }
    return text;
  }

  std::string called_name(const HloInstruction& instruction, std::size_t i) const {
    return "%" + module_.computation(instruction.called[i]).name;
  }
  void attribute(const std::string& name, const std::string& value) {
    out_ += ", " + name + "=" + value;
  }
  void to_apply(const HloInstruction& instruction) {
    if (!instruction.called.empty()) attribute("to_apply", called_name(instruction, 0));
  }

  void attributes(const Computation& computation, const HloInstruction& instruction) {
    of_opcode(computation, instruction);
    if (!instruction.raw_attributes.empty()) out_ += ", " + instruction.raw_attributes;
    if (!instruction.control_predecessors.empty()) {
      std::string names;
      for (InstructionId before : instruction.control_predecessors) {
        names += (names.empty() ? "%" : ", %") + computation.at(before).name;
      }
      attribute("control-predecessors", "{" + names + "}");
    }
    metadata(instruction.metadata);
  }

  void metadata(const Metadata& metadata) {
    std::string text;
    const auto append = [&](const char* name, const std::string& value) {
      if (!value.empty()) text += (text.empty() ? "" : " ") + std::string(name) + "=" + value;
    };
    append("op_type", metadata.op_type.empty() ? "" : quoted(metadata.op_type));
    append("op_name", metadata.op_name.empty() ? "" : quoted(metadata.op_name));
    append("source_file", metadata.source_file.empty() ? "" : quoted(metadata.source_file));
    append("source_line", metadata.source_line == 0 ? "" : std::to_string(metadata.source_line));
    if (!text.empty()) attribute("metadata", "{" + text + "}");
  }

  void of_opcode(const Computation& computation, const HloInstruction& instruction) {
    switch (instruction.opcode) {
      case HloOpcode::kIota:
        return attribute("iota_dimension", std::to_string(instruction.dimensions.at(0)));
      case HloOpcode::kBroadcast:
      case HloOpcode::kTranspose:
      case HloOpcode::kConcatenate:
      case HloOpcode::kReverse:
      case HloOpcode::kAllGather:
      case HloOpcode::kAllGatherStart:
      case HloOpcode::kAllToAll:
        if (instruction.opcode != HloOpcode::kAllToAll || !instruction.dimensions.empty()) {
          attribute("dimensions", braces(instruction.dimensions));
        }
        return groups(instruction);
      case HloOpcode::kReduce:
      case HloOpcode::kSort:
      case HloOpcode::kMap:
      case HloOpcode::kReduceScatter:
        attribute("dimensions", braces(instruction.dimensions));
        groups(instruction);
        return to_apply(instruction);
      case HloOpcode::kCall:
        return to_apply(instruction);
      case HloOpcode::kAllReduce:
      case HloOpcode::kAllReduceStart:
        groups(instruction, true);
        return to_apply(instruction);
      case HloOpcode::kReduceWindow:
        if (!instruction.window.empty()) {
          attribute("window", "{" + window_text(instruction.window) + "}");
        }
        return to_apply(instruction);
      case HloOpcode::kSelectAndScatter:
        if (!instruction.window.empty()) {
          attribute("window", "{" + window_text(instruction.window) + "}");
        }
        attribute("select", called_name(instruction, 0));
        return attribute("scatter", called_name(instruction, 1));
      case HloOpcode::kDot:
        return dot(instruction.dot);
      case HloOpcode::kConvolution:
        return convolution(instruction);
      case HloOpcode::kCompare:
        return attribute("direction", std::string(to_string(instruction.direction)));
      case HloOpcode::kPad:
        return attribute("padding", padding_text(instruction.padding));
      case HloOpcode::kSlice:
        return attribute("slice", slice_text(instruction));
      case HloOpcode::kDynamicSlice:
        return attribute("dynamic_slice_sizes", braces(instruction.dynamic_slice_sizes));
      case HloOpcode::kGather:
        return gather(instruction.gather);
      case HloOpcode::kScatter:
        scatter(instruction.gather);
        return to_apply(instruction);
      case HloOpcode::kGetTupleElement:
        return attribute("index", std::to_string(instruction.tuple_index));
      case HloOpcode::kFusion:
        attribute("kind", instruction.fusion_kind.empty() ? "kLoop" : instruction.fusion_kind);
        return attribute("calls", called_name(instruction, 0));
      case HloOpcode::kWhile:
        attribute("condition", called_name(instruction, 1));
        return attribute("body", called_name(instruction, 0));
      case HloOpcode::kConditional:
        return conditional(computation, instruction);
      case HloOpcode::kCustomCall:
        return custom_call(instruction);
      default:
        if (!instruction.called.empty()) attribute("calls", called_name(instruction, 0));
    }
  }

  void groups(const HloInstruction& instruction, bool always = false) {
    if (instruction.replica_groups.empty()) {
      if (always) attribute("replica_groups", "{}");
      return;
    }
    std::string text;
    for (const Dimensions& group : instruction.replica_groups) {
      text += (text.empty() ? "" : ",") + braces(group);
    }
    attribute("replica_groups", "{" + text + "}");
  }

  void dot(const DotDimensions& dims) {
    if (!dims.lhs_batch.empty()) {
      attribute("lhs_batch_dims", braces(dims.lhs_batch));
    }
    attribute("lhs_contracting_dims", braces(dims.lhs_contracting));
    if (!dims.rhs_batch.empty()) {
      attribute("rhs_batch_dims", braces(dims.rhs_batch));
    }
    attribute("rhs_contracting_dims", braces(dims.rhs_contracting));
  }

  void convolution(const HloInstruction& instruction) {
    if (!instruction.window.empty()) {
      attribute("window", "{" + window_text(instruction.window) + "}");
    }
    attribute("dim_labels", dim_labels_text(instruction.convolution));
    if (instruction.feature_group_count != 1) {
      attribute("feature_group_count", std::to_string(instruction.feature_group_count));
    }
    if (instruction.batch_group_count != 1) {
      attribute("batch_group_count", std::to_string(instruction.batch_group_count));
    }
  }

  static std::string padding_text(const std::vector<PaddingDimension>& padding) {
    std::string text;
    for (const PaddingDimension& p : padding) {
      text += (text.empty() ? "" : "x") + std::to_string(p.low) + "_" + std::to_string(p.high);
      if (p.interior != 0) text += "_" + std::to_string(p.interior);
    }
    return text;
  }

  static std::string slice_text(const HloInstruction& instruction) {
    std::string text = "{";
    for (std::size_t d = 0; d < instruction.slice_starts.size(); ++d) {
      text += (d > 0 ? ", [" : "[") + std::to_string(instruction.slice_starts[d]) + ":" +
              std::to_string(instruction.slice_limits[d]);
      if (instruction.slice_strides[d] != 1) {
        text += ":" + std::to_string(instruction.slice_strides[d]);
      }
      text += "]";
    }
    return text + "}";
  }

  void gather(const GatherDimensions& dims) {
    attribute("offset_dims", braces(dims.offset_dims));
    attribute("collapsed_slice_dims", braces(dims.collapsed_slice_dims));
    attribute("start_index_map", braces(dims.start_index_map));
    if (!dims.operand_batching_dims.empty()) {
      attribute("operand_batching_dims", braces(dims.operand_batching_dims));
      attribute("start_indices_batching_dims", braces(dims.start_indices_batching_dims));
    }
    attribute("index_vector_dim", std::to_string(dims.index_vector_dim));
    attribute("slice_sizes", braces(dims.slice_sizes));
  }

  void scatter(const GatherDimensions& dims) {
    attribute("update_window_dims", braces(dims.offset_dims));
    attribute("inserted_window_dims", braces(dims.collapsed_slice_dims));
    attribute("scatter_dims_to_operand_dims", braces(dims.start_index_map));
    if (!dims.operand_batching_dims.empty()) {
      attribute("input_batching_dims", braces(dims.operand_batching_dims));
      attribute("scatter_indices_batching_dims", braces(dims.start_indices_batching_dims));
    }
    attribute("index_vector_dim", std::to_string(dims.index_vector_dim));
  }

  void conditional(const Computation& computation, const HloInstruction& instruction) {
    if (computation.at(instruction.operands[0]).shape.type == ElementType::kPred &&
        instruction.called.size() == 2) {
      attribute("true_computation", called_name(instruction, 0));
      return attribute("false_computation", called_name(instruction, 1));
    }
    std::string text;
    for (std::size_t i = 0; i < instruction.called.size(); ++i) {
      text += (i > 0 ? ", " : "") + called_name(instruction, i);
    }
    attribute("branch_computations", "{" + text + "}");
  }

  void custom_call(const HloInstruction& instruction) {
    if (!instruction.window.empty()) {
      attribute("window", "{" + window_text(instruction.window) + "}");
    }
    attribute("custom_call_target", quoted(instruction.custom_call_target));
    if (instruction.called.size() == 1) return to_apply(instruction);
    if (instruction.called.empty()) return;
    std::string text;
    for (std::size_t i = 0; i < instruction.called.size(); ++i) {
      text += (i > 0 ? ", " : "") + called_name(instruction, i);
    }
    attribute("called_computations", "{" + text + "}");
  }

  const Module& module_;
  std::vector<bool> written_;
  std::string out_;
};

}  // namespace

std::string to_string(const Module& module) { return Writer(module).text(); }

}  // namespace tpu::hlo
