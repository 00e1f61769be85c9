#include "workloads/hlo/proto_instruction.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>

#include "workloads/graph/replica_groups.h"
#include "workloads/hlo/dot_algorithm.h"
#include "workloads/hlo/proto_values.h"

namespace tpu::hlo {

namespace {

using Numbers = std::vector<std::int64_t>;

/// What an instruction's fields say before its opcode tells what they mean.
class InstructionReader {
 public:
  explicit InstructionReader(ProtoCursor message) : message_(std::move(message)) {}

  ProtoInstruction read() {
    while (message_.next()) {
      if (!reference() && !structure()) property();
    }
    HloInstruction& made = result_.made;
    made.opcode = hlo_opcode(opcode_);
    if (made.opcode == HloOpcode::kCount) {
      message_.fail("an opcode of HLO, found \"" + escaped(opcode_) + "\"");
    }
    if (made.name.empty()) message_.fail("an instruction with a name");
    if (!shaped_) message_.fail("an instruction with a shape");
    if (literal_) made.literal = read_literal(*literal_, made.shape);
    by_opcode();
    if (std::string raw = attributes(); !raw.empty()) made.raw_attributes = std::move(raw);
    return std::move(result_);
  }

 private:
  /// Name, shape and what refers to other instructions.
  bool reference() {
    HloInstruction& made = result_.made;
    switch (message_.field()) {
      case 1:
        made.name = message_.identifier("name");
        break;
      case 2:
        opcode_ = message_.text("opcode");
        break;
      case 3:
        made.shape = read_shape(message_.message("shape"));
        shaped_ = true;
        break;
      case 7:
        made.metadata = read_metadata(message_.message("metadata"));
        break;
      case 8:
        literal_ = message_.message("literal");
        break;
      case 9:
        made.parameter_number = message_.integer("parameter_number");
        break;
      case 13:
        made.tuple_index = message_.integer("tuple_index");
        break;
      case 35:
        result_.id = message_.integer("id");
        break;
      case 36:
        message_.integers("operand_ids", result_.operands);
        break;
      case 37:
        message_.integers("control_predecessor_ids", result_.predecessors);
        break;
      case 38:
        message_.integers("called_computation_ids", result_.called);
        break;
      default:
        return false;
    }
    return true;
  }

  /// Attributes that the graph has a place for.
  bool structure() {
    HloInstruction& made = result_.made;
    switch (message_.field()) {
      case 11:
        made.fusion_kind = std::string(message_.text("fusion_kind"));
        break;
      case 14:
        message_.integers("dimensions", made.dimensions);
        break;
      case 15:
        window(message_.message("window"));
        break;
      case 16:
        convolution(message_.message("convolution_dimension_numbers"));
        break;
      case 17:
        slice(message_.message("slice_dimensions"));
        break;
      case 20:
        message_.integers("dynamic_slice_sizes", made.dynamic_slice_sizes.edit());
        break;
      case 21:
        padding(message_.message("padding_config"));
        break;
      case 28:
        made.custom_call_target = escaped(message_.text("custom_call_target"));
        break;
      case 30:
        dot(message_.message("dot_dimension_numbers"));
        break;
      case 90:
        ragged_dot(message_.message("ragged_dot_dimension_numbers"));
        break;
      case 33:
      case 48:
        gather(message_.message("gather_dimension_numbers"), message_.field() == 48);
        break;
      case 34:
        message_.integers("gather_slice_sizes", slice_sizes_);
        break;
      case 49: {
        made.replica_groups.edit().emplace_back();
        group(message_.message("replica_groups"), made.replica_groups.edit().back());
        break;
      }
      case 50:
        made.feature_group_count =
            std::max<std::int64_t>(message_.integer("feature_group_count"), 1);
        break;
      case 58:
        made.batch_group_count = std::max<std::int64_t>(message_.integer("batch_group_count"), 1);
        break;
      case 63:
        direction(message_.text("comparison_direction"));
        break;
      case 87:
        devices(message_.message("collective_device_list"));
        break;
      default:
        return false;
    }
    return true;
  }

  void window(ProtoCursor message) {
    while (message.next()) {
      if (message.field() != 1) continue;
      WindowDimension w;
      w.stride = w.base_dilation = w.window_dilation = 0;
      ProtoCursor dimension = message.message("dimensions");
      while (dimension.next()) {
        const std::array<std::int64_t*, 6> fields{
            &w.size,         &w.stride,          &w.padding_low,
            &w.padding_high, &w.window_dilation, &w.base_dilation};
        const int field = dimension.field();
        if (field >= 1 && field <= 6) {
          *fields[static_cast<std::size_t>(field) - 1] = dimension.integer("a number");
        } else if (field == 7) {
          w.reversal = dimension.boolean("window_reversal");
        }
      }
      // Messages of old writers leave ones out.
      for (std::int64_t* number : {&w.stride, &w.base_dilation, &w.window_dilation}) {
        if (*number == 0) *number = 1;
      }
      result_.made.window.push_back(w);
    }
  }

  void convolution(ProtoCursor message) {
    ConvolutionDimensions& c = result_.made.convolution.edit();
    while (message.next()) {
      switch (message.field()) {
        case 3:
          c.kernel_input_feature = message.integer("kernel_input_feature_dimension");
          break;
        case 4:
          c.kernel_output_feature = message.integer("kernel_output_feature_dimension");
          break;
        case 6:
          message.integers("kernel_spatial_dimensions", c.kernel_spatial);
          break;
        case 7:
          c.input_batch = message.integer("input_batch_dimension");
          break;
        case 8:
          c.input_feature = message.integer("input_feature_dimension");
          break;
        case 9:
          c.output_batch = message.integer("output_batch_dimension");
          break;
        case 10:
          c.output_feature = message.integer("output_feature_dimension");
          break;
        case 11:
          message.integers("input_spatial_dimensions", c.input_spatial);
          break;
        case 12:
          message.integers("output_spatial_dimensions", c.output_spatial);
          break;
        default:
          break;
      }
    }
    check_labels(message, c.input_batch, c.input_feature, c.input_spatial);
    check_labels(message, c.kernel_input_feature, c.kernel_output_feature, c.kernel_spatial);
    check_labels(message, c.output_batch, c.output_feature, c.output_spatial);
  }

  /// Each dimension once.
  static void check_labels(const ProtoCursor& message, std::int64_t first, std::int64_t second,
                           const Numbers& spatial) {
    Numbers all = spatial;
    all.push_back(first);
    all.push_back(second);
    std::sort(all.begin(), all.end());
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] != static_cast<std::int64_t>(i)) {
        message.fail("each dimension of input, kernel and output once");
      }
    }
  }

  void slice(ProtoCursor message) {
    std::int64_t start = 0, limit = 0, stride = 0;
    while (message.next()) {
      if (message.field() == 1) start = message.integer("start");
      if (message.field() == 2) limit = message.integer("limit");
      if (message.field() == 3) stride = message.integer("stride");
    }
    result_.made.slice.edit().starts.push_back(start);
    result_.made.slice.edit().limits.push_back(limit);
    result_.made.slice.edit().strides.push_back(stride);
  }

  void padding(ProtoCursor message) {
    while (message.next()) {
      if (message.field() != 1) continue;
      PaddingDimension p;
      ProtoCursor dimension = message.message("dimensions");
      while (dimension.next()) {
        if (dimension.field() == 1) p.low = dimension.integer("edge_padding_low");
        if (dimension.field() == 2) p.high = dimension.integer("edge_padding_high");
        if (dimension.field() == 3) p.interior = dimension.integer("interior_padding");
      }
      result_.made.padding.push_back(p);
    }
  }

  void dot(ProtoCursor message) {
    DotDimensions& dims = result_.made.dot.edit();
    while (message.next()) {
      const int field = message.field();
      if (field == 1) message.integers("lhs_contracting_dimensions", dims.lhs_contracting);
      if (field == 2) message.integers("rhs_contracting_dimensions", dims.rhs_contracting);
      if (field == 3) message.integers("lhs_batch_dimensions", dims.lhs_batch);
      if (field == 4) message.integers("rhs_batch_dimensions", dims.rhs_batch);
    }
  }

  void ragged_dot(ProtoCursor message) {
    DotDimensions& dims = result_.made.dot.edit();
    while (message.next()) {
      const int field = message.field();
      if (field == 1) dot(message.message("dot_dimension_numbers"));
      if (field == 2) message.integers("lhs_ragged_dimensions", dims.lhs_ragged);
      if (field == 3) message.integers("rhs_group_dimensions", dims.rhs_group);
    }
  }

  void gather(ProtoCursor message, bool scatter) {
    GatherDimensions& dims = result_.made.gather.edit();
    Numbers* const lists[] = {&dims.offset_dims, &dims.collapsed_slice_dims, &dims.start_index_map};
    while (message.next()) {
      const int field = message.field();
      if (field >= 1 && field <= 3) message.integers("dimensions", *lists[field - 1]);
      if (field == 4) dims.index_vector_dim = message.integer("index_vector_dim");
      if (field == 5) {
        message.integers(scatter ? "input_batching_dims" : "operand_batching_dims",
                         dims.operand_batching_dims);
      }
      if (field == 6) message.integers("batching_dims", dims.start_indices_batching_dims);
    }
  }

  static void group(ProtoCursor message, Numbers& members) {
    while (message.next()) {
      if (message.field() == 1) message.integers("replica_ids", members);
    }
  }

  void devices(ProtoCursor message) {
    HloInstruction& made = result_.made;
    std::vector<Numbers> groups;
    while (message.next()) {
      if (message.field() == 1) {
        groups.emplace_back();
        group(message.message("replica_groups"), groups.back());
      } else if (message.field() == 2) {
        iota(message.message("iota_replica_group_list"));
      } else {
        message.fail("lists of replicas or an iota list");
      }
    }
    if (!groups.empty()) made.replica_groups = std::move(groups);
  }

  void iota(ProtoCursor message) {
    Numbers counts(2, 0);
    Numbers reshape, transpose;
    while (message.next()) {
      const int field = message.field();
      if (field == 1) counts[0] = message.integer("num_replica_groups");
      if (field == 2) counts[1] = message.integer("num_devices_per_group");
      if (field == 3) message.integers("iota_reshape_dims", reshape);
      if (field == 4) message.integers("iota_transpose_perm", transpose);
    }
    const auto inside = [](const Numbers& values) {
      const std::string text = list_text(values);
      return text.substr(1, text.size() - 2);
    };
    std::string text = "[" + inside(counts) + "]<=[" + inside(reshape) + "]";
    if (!std::is_sorted(transpose.begin(), transpose.end())) text += "T(" + inside(transpose) + ")";
    try {
      result_.made.replica_groups = expand_replica_groups(text);
    } catch (const WorkloadError& error) {
      message.refuse(error.what());
    }
    result_.made.replica_groups_text = text;
  }

  void direction(std::string_view text) {
    for (int i = 0; i < 6; ++i) {
      const auto known = static_cast<ComparisonDirection>(i);
      if (to_string(known) == text) {
        result_.made.direction = known;
        return;
      }
    }
    if (!text.empty()) message_.fail("EQ, NE, LT, LE, GT or GE as comparison_direction");
  }

  /// Attributes that are kept as text, by the number of their field.
  void property() {
    const int field = message_.field();
    switch (field) {
      case 18:
        return note(field, "exponent_bits=" + number("exponent_bits"));
      case 19:
        return note(field, "mantissa_bits=" + number("mantissa_bits"));
      case 23:
        return note(field, "distribution=" + one_of("distribution",
                                                    {"rng_invalid", "rng_uniform", "rng_normal"}));
      case 24:
        return note(field, "epsilon=" + decimal(message_.number("epsilon")));
      case 25:
        return note(field, "feature_index=" + number("feature_index"));
      case 26:
        return channel(message_.integer("channel_id"));
      case 27:
        return quoted(field, "infeed_config");
      case 22:
        return quoted(field, "outfeed_config");
      case 29:
        return note(field,
                    "outfeed_shape=" + to_string(read_shape(message_.message("outfeed_shape"))));
      case 31:
        return note(field, "fft_type=" + one_of("fft_type", {"FFT", "IFFT", "RFFT", "IRFFT"}));
      case 32:
        message_.integers("fft_length", fft_length_);
        return;
      case 40:
        return note(field, "sharding=" + sharding_text(message_.message("sharding")));
      case 43:
        return backend_config(message_.text("backend_config"));
      case 45:
        return channel(message_.integer("all_reduce_id"));
      case 47:
        return flag(field, "is_host_transfer");
      case 51:
        return precision(message_.message("precision_config"));
      case 52:
        return source_target(message_.message("source_target_pairs"));
      case 54:
      case 55:
        message_.fail("no domain; run XLA's domain remover first");
      case 56:
        return flag(field, "constrain_layout");
      case 57:
        constraints_ += (constraints_.empty() ? "" : ", ") +
                        to_string(read_shape(message_.message("operand_shapes_with_layout")));
        return;
      case 59:
        return triangular_solve(message_.message("triangular_solve_options"));
      case 60:
        return flag(field, "is_stable");
      case 62: {
        ProtoCursor options = message_.message("cholesky_options");
        while (options.next()) {
          if (options.field() == 1) note(field, options.boolean("lower") ? "lower=true" : "");
        }
        return;
      }
      case 61:
        return replication(message_.message("parameter_replication"));
      default:
        later_property(field);
    }
  }

  void later_property(int field) {
    switch (field) {
      case 65:
        return flag(field, "custom_call_has_side_effect");
      case 66:
        return note(field, "delta=" + number("delta"));
      case 67:
        return flag(field, "indices_are_sorted");
      case 68: {
        const std::string text = frontend_attributes_text(message_.message("frontend_attributes"));
        return note(field, text.empty() ? "" : "frontend_attributes={" + text + "}");
      }
      case 69:
        return flag(field, "unique_indices");
      case 70:
        return note(field, "algorithm=" + one_of("rng_algorithm",
                                                 {"rng_default", "rng_three_fry", "rng_philox"}));
      case 71:
        return flag(field, "use_global_device_ids");
      case 72:
        comparison_type_ = message_.text("comparison_type");
        return;
      case 74:
        return aliasing(message_.message("output_operand_aliasing"));
      case 75:
        return note(field,
                    "padding_type=" + one_of("padding_type",
                                             {"PADDING_INVALID", "PADDING_VALID", "PADDING_SAME"}));
      case 76:
        return note(
            field, "schedule=" + one_of("custom_call_schedule",
                                        {"SCHEDULE_NONE", "SCHEDULE_LATEST", "SCHEDULE_EARLIEST"}));
      case 77:
        api_version_ = message_.integer("custom_call_api_version");
        return;
      case 79: {
        const std::string_view thread = message_.text("async_execution_thread");
        if (thread.empty() || thread == "main") return;
        return note(field, "async_execution_thread=\"" + escaped(thread) + "\"");
      }
      case 80:
        return note(field,
                    "cross_program_prefetch_index=" + number("cross_program_prefetch_index"));
      case 81:
        return note(field, "k=" + number("k"));
      case 85:
        return note(field, message_.boolean("largest") ? "largest=true" : "largest=false");
      case 89:
        return flag(field, "is_composite");
      case 86:
        message_.fail("an instruction that HLO had before 2024 or text; print the module as text");
      default:
        return;
    }
  }

  void note(int field, std::string text) {
    if (!text.empty()) notes_.emplace_back(field, std::move(text));
  }
  void flag(int field, const std::string& name) {
    if (message_.boolean(name)) note(field, name + "=true");
  }
  void quoted(int field, const std::string& name) {
    const std::string_view text = message_.text(name);
    if (!text.empty()) note(field, name + "=\"" + escaped(text) + "\"");
  }
  std::string number(std::string_view name) { return std::to_string(message_.integer(name)); }
  std::string one_of(std::string_view name, std::initializer_list<const char*> names) {
    const std::int64_t value = message_.integer(name);
    if (value < 0 || value >= static_cast<std::int64_t>(names.size())) {
      message_.fail("a " + std::string(name) + " below " + std::to_string(names.size()));
    }
    return names.begin()[value];
  }
  static std::string decimal(float value) {
    char buffer[32];
    const int length = std::snprintf(buffer, sizeof buffer, "%g", static_cast<double>(value));
    return std::string(buffer, static_cast<std::size_t>(length));
  }
  void channel(std::int64_t id) {
    if (id > 0) note(26, "channel_id=" + std::to_string(id));
  }
  void backend_config(std::string_view config) {
    if (config.empty()) return;
    const bool json = config.front() == '{' && config.back() == '}';
    note(43, "backend_config=" + (json ? std::string(config) : "\"" + escaped(config) + "\""));
  }

  void precision(ProtoCursor message) {
    Numbers operands;
    std::int64_t algorithm = 0;
    while (message.next()) {
      if (message.field() == 1) message.integers("operand_precision", operands);
      if (message.field() == 2) algorithm = message.integer("algorithm");
    }
    if (std::any_of(operands.begin(), operands.end(), [](std::int64_t p) { return p != 0; })) {
      std::string text;
      for (std::int64_t p : operands) {
        if (p < 0 || p > 2) message.fail("an operand_precision of 0, 1 or 2");
        text += (text.empty() ? "" : ",") + std::string(p == 0   ? "default"
                                                        : p == 1 ? "high"
                                                                 : "highest");
      }
      note(51, "operand_precision={" + text + "}");
    }
    if (algorithm == 0) return;
    if (algorithm < 0 || algorithm > static_cast<std::int64_t>(std::size(kDotAlgorithms))) {
      message.fail("an algorithm of " + std::to_string(std::size(kDotAlgorithms)) + " at most");
    }
    note(51, std::string("algorithm=") + kDotAlgorithms[algorithm - 1]);
  }

  void source_target(ProtoCursor message) {
    std::int64_t source = 0, target = 0;
    while (message.next()) {
      if (message.field() == 1) source = message.integer("source");
      if (message.field() == 2) target = message.integer("target");
    }
    pairs_ += (pairs_.empty() ? "" : ",") + list_text({source, target});
  }

  void triangular_solve(ProtoCursor message) {
    static constexpr const char* kNames[] = {"left_side", "lower", "unit_diagonal"};
    static constexpr const char* kTransposes[] = {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE",
                                                  "ADJOINT"};
    while (message.next()) {
      const int field = message.field();
      if (field >= 1 && field <= 3) {
        if (message.boolean(kNames[field - 1])) note(59, std::string(kNames[field - 1]) + "=true");
      } else if (field == 4) {
        const std::int64_t kind = message.integer("transpose_a");
        if (kind < 0 || kind > 3) message.fail("a transpose_a below 4");
        note(59, std::string("transpose_a=") + kTransposes[kind]);
      }
    }
  }

  void replication(ProtoCursor message) {
    Numbers leaves;
    while (message.next()) {
      if (message.field() == 1) message.integers("replicated_at_leaf_buffers", leaves);
    }
    std::string text;
    for (std::int64_t leaf : leaves)
      text += (text.empty() ? "" : ",") + std::string(leaf != 0 ? "true" : "false");
    if (!text.empty()) note(61, "parameter_replication={" + text + "}");
  }

  void aliasing(ProtoCursor message) {
    Numbers output, within;
    std::int64_t operand = 0;
    while (message.next()) {
      if (message.field() == 1) message.integers("output_shape_index", output);
      if (message.field() == 2) operand = message.integer("operand_index");
      if (message.field() == 3) message.integers("operand_shape_index", within);
    }
    aliasing_ += (aliasing_.empty() ? "" : ", ") + list_text(output) + ": (" +
                 std::to_string(operand) + ", " + list_text(within) + ")";
  }

  void by_opcode() {
    HloInstruction& made = result_.made;
    if (made.opcode == HloOpcode::kGather) made.gather.edit().slice_sizes = slice_sizes_;
    if (!fft_length_.empty()) {
      // FFT is number 0, which a proto leaves out.
      const bool has_type = std::any_of(notes_.begin(), notes_.end(),
                                        [](const auto& note) { return note.first == 31; });
      if (!has_type) note(31, "fft_type=FFT");
      note(32, "fft_length=" + list_text(fft_length_));
    }
    if (!pairs_.empty()) note(52, "source_target_pairs={" + pairs_ + "}");
    if (!aliasing_.empty()) note(74, "output_to_operand_aliasing={" + aliasing_ + "}");
    // "constrain_layout" of a custom call is said by its constraints.
    const auto constrained =
        std::find_if(notes_.begin(), notes_.end(), [](const auto& n) { return n.first == 56; });
    if (made.opcode == HloOpcode::kCustomCall && constrained != notes_.end()) {
      constrained->second = "operand_layout_constraints={" + constraints_ + "}";
    }
    if (made.opcode == HloOpcode::kCustomCall && api_version_ > 1) {
      static constexpr const char* kVersions[] = {"API_VERSION_STATUS_RETURNING",
                                                  "API_VERSION_STATUS_RETURNING_UNIFIED",
                                                  "API_VERSION_TYPED_FFI"};
      if (api_version_ > 4) message_.fail("a custom_call_api_version below 5");
      note(77, std::string("api_version=") + kVersions[api_version_ - 2]);
    }
    // The type is printed where it is not the usual one of the operands' type.
    if (comparison_type_ == "TOTALORDER") note(72, "type=TOTALORDER");
    if (made.opcode == HloOpcode::kTopk) return;
    notes_.erase(
        std::remove_if(notes_.begin(), notes_.end(), [](const auto& n) { return n.first == 85; }),
        notes_.end());
  }

  /// In the order in which XLA prints them.
  std::string attributes() {
    static constexpr int kLast[] = {40, 68, 43};
    const auto rank = [](int field) {
      for (int i = 0; i < 3; ++i) {
        if (kLast[i] == field) return 1000 + i;
      }
      return field;
    };
    std::stable_sort(notes_.begin(), notes_.end(),
                     [&](const auto& a, const auto& b) { return rank(a.first) < rank(b.first); });
    std::string text;
    for (const auto& [field, note] : notes_) text += (text.empty() ? "" : ", ") + note;
    return text;
  }

  ProtoCursor message_;
  ProtoInstruction result_;
  std::string_view opcode_;
  bool shaped_ = false;
  std::optional<ProtoCursor> literal_;
  Numbers slice_sizes_, fft_length_;
  std::string pairs_, constraints_, aliasing_;
  std::string_view comparison_type_;
  std::int64_t api_version_ = 0;
  std::vector<std::pair<int, std::string>> notes_;
};

}  // namespace

ProtoInstruction read_instruction(ProtoCursor message) {
  return InstructionReader(std::move(message)).read();
}

}  // namespace tpu::hlo
