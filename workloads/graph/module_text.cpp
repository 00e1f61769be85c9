#include <algorithm>
#include <string>

#include "sim/base/error.h"
#include "workloads/graph/graph.h"
#include "workloads/graph/literal_text.h"
#include "workloads/graph/replica_groups.h"

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

/// Writes a module; computations before those that call them, as XLA's parser wants it, otherwise
/// in the module's order.
class Writer {
 public:
  explicit Writer(const Module& module) : module_(module) {}

  std::string text() {
    header();
    tables();
    written_.assign(module_.computations.size(), false);
    for (std::size_t i = 0; i < written_.size(); ++i) computation(static_cast<ComputationId>(i));
    return std::move(out_);
  }

 private:
  void header() {
    out_ += "HloModule " + (module_.name.empty() ? "module" : module_.name);
    if (!module_.raw_attributes.empty()) out_ += ", " + module_.raw_attributes;
    aliases();
    entry_layout();
    const std::int64_t replica_count =
        module_.replicas / std::max<std::int64_t>(module_.partitions, 1);
    if (replica_count > 1) out_ += ", replica_count=" + std::to_string(replica_count);
    if (module_.partitions > 1) out_ += ", num_partitions=" + std::to_string(module_.partitions);
    frontend_attributes();
    out_ += "\n";
  }

  void aliases() {
    if (module_.aliases.empty()) return;
    const Computation& entry = module_.entry_computation();
    const bool tuple = entry.at(entry.root).shape.is_tuple();
    out_ += ", input_output_alias={ ";
    for (std::size_t i = 0; i < module_.aliases.size(); ++i) {
      const Alias& alias = module_.aliases[i];
      Dimensions output;
      if (tuple) output.push_back(alias.output_index);
      output.insert(output.end(), alias.within_output.begin(), alias.within_output.end());
      if (i > 0) out_ += ", ";
      out_ += braces(output) + ": (" + std::to_string(alias.parameter_number) + ", " +
              braces(alias.within_parameter) + (alias.must ? ", must-alias)" : ", may-alias)");
    }
    out_ += " }";
  }

  /// What the file says as long as it fits the entry's parameters and root, else their own shapes.
  void entry_layout() {
    const Computation& entry = module_.entry_computation();
    const std::vector<InstructionId> parameters = entry.parameters();
    const Shape& root = entry.at(entry.root).shape;
    const EntryLayout& stated = module_.entry_layout;
    bool fits = stated.parameters.size() == parameters.size() && same_extent(stated.result, root);
    for (std::size_t i = 0; fits && i < parameters.size(); ++i) {
      fits = same_extent(stated.parameters[i], entry.at(parameters[i]).shape);
    }
    out_ += ", entry_computation_layout={(";
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (i > 0) out_ += ", ";
      if (i > 0 && i % 5 == 0) out_ += "/*index=" + std::to_string(i) + "*/";
      out_ += to_string(fits ? stated.parameters[i] : entry.at(parameters[i]).shape);
    }
    out_ += ")->" + to_string(fits ? stated.result : root) + "}";
  }

  void frontend_attributes() {
    std::string text;
    const auto append = [&](const std::string& item) { text += (text.empty() ? "" : ",") + item; };
    if (module_.examples_per_step != 0) {
      append("examples_per_step=\"" + std::to_string(module_.examples_per_step) + "\"");
    }
    if (!module_.infeed_parameters.empty()) {
      const std::string list = braces(module_.infeed_parameters);
      append("infeed_parameters=\"" + list.substr(1, list.size() - 2) + "\"");
    }
    if (!module_.frontend_attributes.empty()) append(module_.frontend_attributes);
    if (!text.empty()) out_ += ", frontend_attributes={" + text + "}";
  }

  void tables() {
    const StackFrames& frames = module_.stack_frames;
    if (frames.files.empty() && frames.frames.empty()) return;
    const auto rows = [&](const char* title, std::size_t count, auto&& row) {
      out_ += std::string("\n") + title + "\n";
      for (std::size_t i = 0; i < count; ++i) out_ += std::to_string(i + 1) + " " + row(i) + "\n";
    };
    rows("FileNames", frames.files.size(), [&](std::size_t i) { return quoted(frames.files[i]); });
    rows("FunctionNames", frames.functions.size(),
         [&](std::size_t i) { return quoted(frames.functions[i]); });
    rows("FileLocations", frames.locations.size(),
         [&](std::size_t i) { return location_text(frames.locations[i]); });
    rows("StackFrames", frames.frames.size(), [&](std::size_t i) {
      return "{file_location_id=" + std::to_string(frames.frames[i].location) +
             " parent_frame_id=" + std::to_string(frames.frames[i].parent) + "}";
    });
    out_ += "\n";
  }

  static std::string location_text(const StackFrames::Location& at) {
    std::string text = "{file_name_id=" + std::to_string(at.file) +
                       " function_name_id=" + std::to_string(at.function) +
                       " line=" + std::to_string(at.line);
    if (at.end_line != 0) text += " end_line=" + std::to_string(at.end_line);
    if (at.column != 0) text += " column=" + std::to_string(at.column);
    if (at.end_column != 0) text += " end_column=" + std::to_string(at.end_column);
    return text + "}";
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
              std::string(to_string(instruction.opcode)) + "(";
      operands(computation, instruction);
      out_ += ')';
      attributes(computation, instruction);
      out_ += '\n';
    }
    out_ += '}';
    if (!computation.raw_attributes.empty()) out_ += ", " + computation.raw_attributes;
    out_ += '\n';
  }

  void operands(const Computation& computation, const HloInstruction& instruction) {
    if (instruction.opcode == HloOpcode::kParameter) {
      out_ += std::to_string(instruction.parameter_number);
    } else if (instruction.opcode == HloOpcode::kConstant) {
      append_literal(instruction, out_);
    }
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
      if (i > 0) out_ += ", ";
      if (i > 0 && i % 5 == 0) out_ += "/*index=" + std::to_string(i) + "*/";
      out_ += '%';
      out_ += computation.at(instruction.operands[i]).name;
    }
  }

  std::string called_name(const HloInstruction& instruction, std::size_t i) const {
    return "%" + module_.computation(instruction.called[i]).name;
  }
  std::string called_names(const HloInstruction& instruction) const {
    std::string text;
    for (std::size_t i = 0; i < instruction.called.size(); ++i) {
      text += (i > 0 ? ", " : "") + called_name(instruction, i);
    }
    return "{" + text + "}";
  }
  void attribute(std::string_view name, std::string_view value) {
    out_ += ", ";
    out_ += name;
    out_ += '=';
    out_ += value;
  }

  void attributes(const Computation& computation, const HloInstruction& instruction) {
    of_opcode(instruction);
    groups(instruction);
    called(computation, instruction);
    if (!instruction.raw_attributes->empty()) out_ += ", " + instruction.raw_attributes.get();
    if (!instruction.control_predecessors->empty()) {
      std::string names;
      for (InstructionId before : instruction.control_predecessors.get()) {
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
    const auto quote = [](const std::string& value) { return value.empty() ? "" : quoted(value); };
    const auto number = [](int value) { return value == 0 ? "" : std::to_string(value); };
    append("op_type", quote(metadata.op_type));
    append("op_name", quote(metadata.op_name));
    append("source_file", quote(metadata.source_file));
    append("source_line", number(metadata.source_line));
    append("stack_frame_id", number(metadata.stack_frame_id));
    if (metadata.other.is_set()) text += (text.empty() ? "" : " ") + metadata.other.get();
    if (!text.empty()) attribute("metadata", "{" + text + "}");
  }

  /// True for opcodes whose dimensions are written even where there are none.
  static bool always_has_dimensions(HloOpcode opcode) {
    switch (opcode) {
      case HloOpcode::kBroadcast:
      case HloOpcode::kTranspose:
      case HloOpcode::kConcatenate:
      case HloOpcode::kReverse:
      case HloOpcode::kAllGather:
      case HloOpcode::kAllGatherStart:
      case HloOpcode::kReduce:
      case HloOpcode::kSort:
      case HloOpcode::kMap:
      case HloOpcode::kReduceScatter:
        return true;
      default:
        return false;
    }
  }

  void of_opcode(const HloInstruction& instruction) {
    const HloOpcode opcode = instruction.opcode;
    if (opcode == HloOpcode::kIota && instruction.dimensions.size() == 1) {
      attribute("iota_dimension", std::to_string(instruction.dimensions[0]));
    } else if (!instruction.dimensions.empty() || always_has_dimensions(opcode)) {
      attribute("dimensions", braces(instruction.dimensions));
    }
    if (!instruction.window.empty()) {
      attribute("window", "{" + window_text(instruction.window) + "}");
    }
    if (instruction.convolution.is_set()) {
      attribute("dim_labels", dim_labels_text(instruction.convolution));
    }
    if (instruction.feature_group_count != 1) {
      attribute("feature_group_count", std::to_string(instruction.feature_group_count));
    }
    if (instruction.batch_group_count != 1) {
      attribute("batch_group_count", std::to_string(instruction.batch_group_count));
    }
    if (opcode == HloOpcode::kPad || !instruction.padding.empty()) {
      attribute("padding", padding_text(instruction.padding));
    }
    if (opcode == HloOpcode::kSlice || !instruction.slice->starts.empty()) {
      attribute("slice", slice_text(instruction));
    }
    if (opcode == HloOpcode::kDynamicSlice || instruction.dynamic_slice_sizes.is_set()) {
      attribute("dynamic_slice_sizes", braces(instruction.dynamic_slice_sizes));
    }
    dot(instruction);
    gather_or_scatter(instruction);
    if (opcode == HloOpcode::kCompare) attribute("direction", to_string(instruction.direction));
    if (opcode == HloOpcode::kGetTupleElement) {
      attribute("index", std::to_string(instruction.tuple_index));
    }
    if (opcode == HloOpcode::kFusion || !instruction.fusion_kind->empty()) {
      attribute("kind", instruction.fusion_kind->empty() ? "kLoop" : instruction.fusion_kind.get());
    }
    if (opcode == HloOpcode::kCustomCall || !instruction.custom_call_target->empty()) {
      attribute("custom_call_target", quoted(instruction.custom_call_target));
    }
  }

  /// Under the attribute's name that XLA gives it for the opcode.
  void called(const Computation& computation, const HloInstruction& instruction) {
    const std::size_t count = instruction.called.size();
    if (count == 0) return;
    const bool pair = instruction.opcode == HloOpcode::kWhile ||
                      instruction.opcode == HloOpcode::kSelectAndScatter;
    if (pair && count != 2) return attribute("called_computations", called_names(instruction));
    switch (instruction.opcode) {
      case HloOpcode::kWhile:
        attribute("condition", called_name(instruction, 1));
        return attribute("body", called_name(instruction, 0));
      case HloOpcode::kSelectAndScatter:
        attribute("select", called_name(instruction, 0));
        return attribute("scatter", called_name(instruction, 1));
      case HloOpcode::kConditional:
        return conditional(computation, instruction);
      case HloOpcode::kCustomCall:
        return attribute("called_computations", called_names(instruction));
      case HloOpcode::kFusion:
      case HloOpcode::kAsyncStart:
      case HloOpcode::kAsyncUpdate:
      case HloOpcode::kAsyncDone:
        return attribute("calls", called_name(instruction, 0));
      default:
        if (count == 1) return attribute("to_apply", called_name(instruction, 0));
        return attribute("called_computations", called_names(instruction));
    }
  }

  void groups(const HloInstruction& instruction) {
    const std::vector<Dimensions>& groups = instruction.replica_groups;
    const std::string& stated = instruction.replica_groups_text;
    if (!stated.empty() && expand_replica_groups(stated) == groups) {
      return attribute("replica_groups", stated);
    }
    if (groups.empty() && instruction.opcode != HloOpcode::kAllReduce &&
        instruction.opcode != HloOpcode::kAllReduceStart) {
      return;
    }
    std::string text;
    for (const Dimensions& group : groups) text += (text.empty() ? "" : ",") + braces(group);
    attribute("replica_groups", "{" + text + "}");
  }

  void dot(const HloInstruction& instruction) {
    const DotDimensions& dims = instruction.dot;
    const bool always = instruction.opcode == HloOpcode::kDot;
    const auto list = [&](const char* name, const Dimensions& values, bool empty_too) {
      if (!values.empty() || empty_too) attribute(name, braces(values));
    };
    list("lhs_batch_dims", dims.lhs_batch, false);
    list("lhs_contracting_dims", dims.lhs_contracting, always);
    list("rhs_batch_dims", dims.rhs_batch, false);
    list("rhs_contracting_dims", dims.rhs_contracting, always);
    list("lhs_ragged_dims", dims.lhs_ragged, false);
    list("rhs_group_dims", dims.rhs_group, false);
  }

  /// Interiors, like the strides of a slice, are written for all dimensions or none.
  static std::string padding_text(const std::vector<PaddingDimension>& padding) {
    const bool interior = std::any_of(padding.begin(), padding.end(),
                                      [](const PaddingDimension& p) { return p.interior != 0; });
    std::string text;
    for (const PaddingDimension& p : padding) {
      text += (text.empty() ? "" : "x") + std::to_string(p.low) + "_" + std::to_string(p.high);
      if (interior) text += "_" + std::to_string(p.interior);
    }
    return text;
  }

  static std::string slice_text(const HloInstruction& instruction) {
    const Dimensions& strides = instruction.slice->strides;
    const bool strided =
        std::any_of(strides.begin(), strides.end(), [](std::int64_t s) { return s != 1; });
    std::string text = "{";
    for (std::size_t d = 0; d < instruction.slice->starts.size(); ++d) {
      text += (d > 0 ? ", [" : "[") + std::to_string(instruction.slice->starts[d]) + ":" +
              std::to_string(instruction.slice->limits[d]);
      if (strided) text += ":" + std::to_string(strides[d]);
      text += "]";
    }
    return text + "}";
  }

  void gather_or_scatter(const HloInstruction& instruction) {
    const GatherDimensions& dims = instruction.gather;
    const bool scatter = instruction.opcode == HloOpcode::kScatter;
    if (!scatter && instruction.opcode != HloOpcode::kGather) return;
    attribute(scatter ? "update_window_dims" : "offset_dims", braces(dims.offset_dims));
    attribute(scatter ? "inserted_window_dims" : "collapsed_slice_dims",
              braces(dims.collapsed_slice_dims));
    attribute(scatter ? "scatter_dims_to_operand_dims" : "start_index_map",
              braces(dims.start_index_map));
    if (!dims.operand_batching_dims.empty()) {
      attribute(scatter ? "input_batching_dims" : "operand_batching_dims",
                braces(dims.operand_batching_dims));
      attribute(scatter ? "scatter_indices_batching_dims" : "start_indices_batching_dims",
                braces(dims.start_indices_batching_dims));
    }
    attribute("index_vector_dim", std::to_string(dims.index_vector_dim));
    if (!scatter) attribute("slice_sizes", braces(dims.slice_sizes));
    if (dims.indices_in_range) attribute("indices_in_range", "true");
  }

  void conditional(const Computation& computation, const HloInstruction& instruction) {
    if (!instruction.operands.empty() && instruction.called.size() == 2 &&
        computation.at(instruction.operands[0]).shape.type == ElementType::kPred) {
      attribute("true_computation", called_name(instruction, 0));
      return attribute("false_computation", called_name(instruction, 1));
    }
    attribute("branch_computations", called_names(instruction));
  }

  const Module& module_;
  std::vector<bool> written_;
  std::string out_;
};

}  // namespace

std::string to_string(const Module& module) { return Writer(module).text(); }

std::string source_of(const Module& module, const Metadata& metadata) {
  const StackFrames& frames = module.stack_frames;
  std::string file = metadata.source_file;
  int line = metadata.source_line;
  const auto row = [](const auto& rows, int number) {
    using Row = std::decay_t<decltype(rows.front())>;
    return number >= 1 && static_cast<std::size_t>(number) <= rows.size()
               ? rows[static_cast<std::size_t>(number) - 1]
               : Row();
  };
  if (file.empty()) {
    const StackFrames::Location at =
        row(frames.locations, row(frames.frames, metadata.stack_frame_id).location);
    file = row(frames.files, at.file);
    line = at.line;
  }
  return file.empty() ? file : file + ":" + std::to_string(line);
}

}  // namespace tpu::hlo
