#include "workloads/hlo/attribute_reader.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "workloads/graph/replica_groups.h"

namespace tpu::hlo {

namespace {

/// Splits "3x3" or "0_1x0_1" at its 'x'.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::int64_t number(const HloCursor& cursor, std::string_view text) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    cursor.fail_in(text, "an integer");
  }
  return value;
}

}  // namespace

void AttributeReader::read(HloInstruction& instruction, NamedReferences& references) {
  calls_.clear();
  while (cursor_.take(',')) {
    const std::string_view name = cursor_.name("the name of an attribute");
    cursor_.expect('=');
    if (name == "control-predecessors") {
      cursor_.list('{', '}', [&] {
        cursor_.take('%');
        references.predecessors.push_back(cursor_.name("a control predecessor"));
      });
    } else {
      attribute(name, instruction);
    }
  }
  std::stable_sort(calls_.begin(), calls_.end(),
                   [](const NamedCall& a, const NamedCall& b) { return a.order < b.order; });
  references.calls = std::move(calls_);
}

void AttributeReader::attribute(std::string_view name, HloInstruction& instruction) {
  if (calls(name) || gather_or_scatter(name, instruction) || dot(name, instruction)) return;
  if (name == "dimensions") {
    instruction.dimensions = integers();
  } else if (name == "iota_dimension") {
    instruction.dimensions = {cursor_.integer(name)};
  } else if (name == "index") {
    instruction.tuple_index = cursor_.integer(name);
  } else if (name == "slice") {
    slices(instruction);
  } else if (name == "window") {
    window(instruction);
  } else if (name == "padding") {
    padding(instruction);
  } else if (name == "dim_labels") {
    dimension_labels(instruction);
  } else if (name == "replica_groups") {
    replica_groups(instruction);
  } else if (name == "metadata") {
    metadata(instruction.metadata);
  } else if (name == "direction" && instruction.opcode == HloOpcode::kCompare) {
    direction(instruction);
  } else if (name == "feature_group_count") {
    instruction.feature_group_count = cursor_.integer(name);
  } else if (name == "batch_group_count") {
    instruction.batch_group_count = cursor_.integer(name);
  } else if (name == "dynamic_slice_sizes") {
    instruction.dynamic_slice_sizes = integers();
  } else if (name == "custom_call_target") {
    instruction.custom_call_target = std::string(cursor_.quoted(name));
  } else if (name == "kind") {
    instruction.fusion_kind = std::string(cursor_.name(name));
  } else {
    const std::string_view value = cursor_.balanced("the value of this attribute");
    std::string& raw = instruction.raw_attributes.edit();
    raw.reserve(raw.size() + name.size() + value.size() + 3);
    if (!raw.empty()) raw += ", ";
    raw.append(name).append("=").append(value);
  }
}

bool AttributeReader::calls(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, int>, 8> kCalls{
      {{"to_apply", 0},
       {"calls", 0},
       {"body", 0},
       {"select", 0},
       {"true_computation", 0},
       {"condition", 1},
       {"scatter", 1},
       {"false_computation", 1}}};
  if (name == "branch_computations" || name == "called_computations") {
    int order = 0;
    cursor_.list('{', '}', [&] { call(order++); });
    return true;
  }
  for (const auto& [attribute_name, order] : kCalls) {
    if (attribute_name != name) continue;
    call(order);
    return true;
  }
  return false;
}

void AttributeReader::call(int order) {
  NamedCall made;
  made.order = order;
  if (cursor_.peek() == '{') {
    made.id = nested_();
  } else {
    cursor_.take('%');
    made.name = cursor_.name("a computation");
  }
  calls_.push_back(made);
}

bool AttributeReader::gather_or_scatter(std::string_view name, HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kGather && instruction.opcode != HloOpcode::kScatter) {
    return false;
  }
  GatherDimensions& gather = instruction.gather.edit();
  if (name == "offset_dims" || name == "update_window_dims") {
    gather.offset_dims = integers();
  } else if (name == "collapsed_slice_dims" || name == "inserted_window_dims") {
    gather.collapsed_slice_dims = integers();
  } else if (name == "start_index_map" || name == "scatter_dims_to_operand_dims") {
    gather.start_index_map = integers();
  } else if (name == "operand_batching_dims" || name == "input_batching_dims") {
    gather.operand_batching_dims = integers();
  } else if (name == "start_indices_batching_dims" || name == "scatter_indices_batching_dims") {
    gather.start_indices_batching_dims = integers();
  } else if (name == "slice_sizes") {
    gather.slice_sizes = integers();
  } else if (name == "index_vector_dim") {
    gather.index_vector_dim = cursor_.integer(name);
  } else if (name == "indices_in_range") {
    gather.indices_in_range = cursor_.name(name) == "true";
  } else {
    return false;
  }
  return true;
}

bool AttributeReader::dot(std::string_view name, HloInstruction& instruction) {
  DotDimensions& dot = instruction.dot.edit();
  if (name == "lhs_contracting_dims") {
    dot.lhs_contracting = integers();
  } else if (name == "rhs_contracting_dims") {
    dot.rhs_contracting = integers();
  } else if (name == "lhs_batch_dims") {
    dot.lhs_batch = integers();
  } else if (name == "rhs_batch_dims") {
    dot.rhs_batch = integers();
  } else if (name == "lhs_ragged_dims") {
    dot.lhs_ragged = integers();
  } else if (name == "rhs_group_dims") {
    dot.rhs_group = integers();
  } else {
    return false;
  }
  return true;
}

std::vector<std::int64_t> AttributeReader::integers() {
  std::vector<std::int64_t> values;
  cursor_.list('{', '}', [&] { values.push_back(cursor_.integer("an element of the list")); });
  return values;
}

void AttributeReader::slices(HloInstruction& instruction) {
  SliceBounds& bounds = instruction.slice.edit();
  cursor_.expect('{');
  while (!cursor_.take('}')) {
    cursor_.expect('[');
    bounds.starts.push_back(cursor_.integer("the start of the slice"));
    cursor_.expect(':');
    bounds.limits.push_back(cursor_.integer("the limit of the slice"));
    bounds.strides.push_back(cursor_.take(':') ? cursor_.integer("the stride of the slice") : 1);
    cursor_.expect(']');
    cursor_.take(',');
  }
}

void AttributeReader::window(HloInstruction& instruction) {
  cursor_.expect('{');
  std::vector<WindowDimension>& window = instruction.window;
  while (!cursor_.take('}')) {
    const std::string_view key = cursor_.name("a property of the window");
    cursor_.expect('=');
    const std::string_view value = cursor_.name("the property's value");
    const std::vector<std::string_view> parts = split(value, 'x');
    if (window.empty()) window.resize(parts.size());
    if (parts.size() != window.size()) {
      cursor_.fail_in(value, std::to_string(window.size()) + " numbers with 'x' between them");
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      WindowDimension& dimension = window[i];
      if (key == "size") {
        dimension.size = number(cursor_, parts[i]);
      } else if (key == "stride") {
        dimension.stride = number(cursor_, parts[i]);
      } else if (key == "pad") {
        const std::vector<std::string_view> sides = split(parts[i], '_');
        if (sides.size() != 2) cursor_.fail_in(parts[i], "LOW_HIGH");
        dimension.padding_low = number(cursor_, sides[0]);
        dimension.padding_high = number(cursor_, sides[1]);
      } else if (key == "lhs_dilate") {
        dimension.base_dilation = number(cursor_, parts[i]);
      } else if (key == "rhs_dilate") {
        dimension.window_dilation = number(cursor_, parts[i]);
      } else if (key == "rhs_reversal") {
        dimension.reversal = number(cursor_, parts[i]) != 0;
      } else {
        cursor_.fail_in(key, "size, stride, pad, lhs_dilate, rhs_dilate or rhs_reversal");
      }
    }
  }
}

void AttributeReader::padding(HloInstruction& instruction) {
  const std::string_view value =
      cursor_.name("the padding, LOW_HIGH or LOW_HIGH_INTERIOR with 'x' between dimensions");
  for (std::string_view part : split(value, 'x')) {
    const std::vector<std::string_view> sides = split(part, '_');
    if (sides.size() < 2 || sides.size() > 3)
      cursor_.fail_in(part, "LOW_HIGH or LOW_HIGH_INTERIOR");
    instruction.padding.push_back({number(cursor_, sides[0]), number(cursor_, sides[1]),
                                   sides.size() == 3 ? number(cursor_, sides[2]) : 0});
  }
}

void AttributeReader::dimension_labels(HloInstruction& instruction) {
  const std::string_view input = cursor_.name("the labels of the input");
  const std::size_t underscore = input.find('_');
  if (underscore == std::string_view::npos) cursor_.fail_in(input, "INPUT_KERNEL->OUTPUT");
  const std::string_view kernel = input.substr(underscore + 1);
  cursor_.expect("->");
  const std::string_view output = cursor_.name("the labels of the output");
  ConvolutionDimensions& labels = instruction.convolution.edit();
  const auto place = [&](std::string_view text, char first, char second, std::int64_t& first_at,
                         std::int64_t& second_at, std::vector<std::int64_t>& spatial) {
    if (text.size() < 2) cursor_.fail_in(text, "at least two labels");
    spatial.assign(text.size() - 2, -1);
    first_at = second_at = -1;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const std::size_t digit = static_cast<std::size_t>(text[i] - '0');
      if (text[i] == first) {
        first_at = at;
      } else if (text[i] == second) {
        second_at = at;
      } else if (digit < spatial.size()) {
        spatial[digit] = at;
      } else {
        cursor_.fail_in(text.substr(i), std::string("'") + first + "', '" + second +
                                            "' or the number of a spatial dimension");
      }
    }
    if (first_at < 0 || second_at < 0 ||
        std::find(spatial.begin(), spatial.end(), -1) != spatial.end()) {
      cursor_.fail_in(text, "each label once");
    }
  };
  place(input.substr(0, underscore), 'b', 'f', labels.input_batch, labels.input_feature,
        labels.input_spatial);
  place(kernel, 'i', 'o', labels.kernel_input_feature, labels.kernel_output_feature,
        labels.kernel_spatial);
  place(output, 'b', 'f', labels.output_batch, labels.output_feature, labels.output_spatial);
}

void AttributeReader::replica_groups(HloInstruction& instruction) {
  std::string_view text = cursor_.balanced("{{0,1},{2,3}}, [2,2]<=[4] or mesh['x'=2,'y'=2] {'x'}");
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  HloCursor groups = cursor_.within(text);
  instruction.replica_groups = read_replica_groups(groups);
  if (text.front() != '{') instruction.replica_groups_text = std::string(text);
}

void AttributeReader::metadata(Metadata& metadata) {
  cursor_.expect('{');
  while (!cursor_.take('}')) {
    const std::string_view key = cursor_.name("a field of the metadata");
    cursor_.expect('=');
    if (key == "op_type") {
      metadata.op_type = std::string(cursor_.quoted(key));
    } else if (key == "op_name") {
      metadata.op_name = std::string(cursor_.quoted(key));
    } else if (key == "source_file") {
      metadata.source_file = std::string(cursor_.quoted(key));
    } else if (key == "source_line") {
      metadata.source_line = cursor_.number32(key);
    } else if (key == "stack_frame_id") {
      metadata.stack_frame_id = cursor_.number32(key);
    } else {
      const char* const begin = cursor_.next();
      if (cursor_.peek() == '"') {
        cursor_.quoted(key);
      } else if (cursor_.take('{')) {
        cursor_.skip_list('}', key);
      } else {
        cursor_.name(key);
      }
      std::string& other = metadata.other.edit();
      if (!other.empty()) other += ' ';
      other.append(key).append("=").append(cursor_.since(begin));
    }
    cursor_.take(',');
  }
}

void AttributeReader::direction(HloInstruction& instruction) {
  static constexpr std::array<std::string_view, 6> kNames{"EQ", "NE", "LT", "LE", "GT", "GE"};
  const std::string_view text = cursor_.name("a direction");
  const auto found = std::find(kNames.begin(), kNames.end(), text);
  if (found == kNames.end()) cursor_.fail_in(text, "EQ, NE, LT, LE, GT or GE");
  instruction.direction = static_cast<ComparisonDirection>(found - kNames.begin());
}

}  // namespace tpu::hlo
