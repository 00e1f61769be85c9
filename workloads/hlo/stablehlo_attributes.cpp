#include "workloads/hlo/stablehlo_attributes.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <iterator>
#include <string>
#include <unordered_map>

#include "workloads/hlo/dot_algorithm.h"

namespace tpu::hlo {

namespace {

using Integers = std::vector<std::int64_t>;

/// What a setter sees: the operation, and the cursor for texts that have a form of their own.
struct Source {
  const HloCursor& cursor;
  const StablehloOperation& operation;

  const MlirAttributes& attributes() const { return operation.attributes; }
  /// The first of these names that the operation has: its own form and the generic one differ.
  std::string_view name_of(std::initializer_list<std::string_view> names) const {
    for (std::string_view name : names) {
      if (attributes().has(name)) return name;
    }
    attributes().text(*names.begin());  // Fails.
    return {};
  }
  HloCursor within(std::string_view part) const { return cursor.within(part); }
  /// `#stablehlo.gather<offset_dims = [1], ...>`; without the name where an operation has it so.
  MlirAttributes dictionary(std::string_view name) const {
    HloCursor inner = within(attributes().text(name));
    if (inner.peek() == '#') {
      inner.expect('#');
      inner.name("an attribute of StableHLO");
    }
    MlirAttributes found(cursor, inner.next());
    inner.expect('<');
    found.read_dictionary(inner, ">");
    return found;
  }
};

void add_raw(HloInstruction& made, const std::string& text) {
  std::string& raw = made.raw_attributes.edit();
  if (!raw.empty()) raw += ", ";
  raw += text;
}

std::string integers_text(const Integers& numbers) {
  std::string text = "{";
  for (std::int64_t n : numbers) text += (text.size() > 1 ? "," : "") + std::to_string(n);
  return text + "}";
}

void plain(const Source&, HloInstruction&) {}

void dimensions(const Source& source, HloInstruction& made) {
  made.dimensions = source.attributes().integers(
      source.name_of({"dims", "dim", "dimensions", "dimension", "permutation", "iota_dimension",
                      "broadcast_dimensions"}));
}

void comparison(const Source& source, HloInstruction& made) {
  std::string_view direction, type;
  const std::vector<std::string_view>& words = source.operation.words;
  if (!words.empty()) {
    direction = words[0];
    type = words.size() > 1 ? words[1] : std::string_view();
  } else {
    direction = source.attributes().text("comparison_direction");
    type = source.attributes().text_or("compare_type", "");
  }
  for (int d = 0; d <= static_cast<int>(ComparisonDirection::kGe); ++d) {
    made.direction = static_cast<ComparisonDirection>(d);
    if (direction.find(to_string(made.direction)) == std::string_view::npos) continue;
    if (type.find("TOTALORDER") != std::string_view::npos) add_raw(made, "type=TOTALORDER");
    return;
  }
  source.attributes().fail("a comparison: EQ, NE, LT, LE, GT or GE");
}

/// `[0:4:2, 1:3]`, or lists of starts, limits and strides.
void slice(const Source& source, HloInstruction& made) {
  SliceBounds& bounds = made.slice.edit();
  const MlirAttributes& attributes = source.attributes();
  if (!attributes.has("bounds")) {
    bounds = {attributes.integers("start_indices"), attributes.integers("limit_indices"),
              attributes.integers("strides")};
    return;
  }
  HloCursor cursor = source.within(attributes.text("bounds"));
  cursor.list('[', ']', [&] {
    bounds.starts.push_back(cursor.integer("the start of a slice"));
    cursor.expect(':');
    bounds.limits.push_back(cursor.integer("the limit of a slice"));
    bounds.strides.push_back(cursor.take(':') ? cursor.integer("the stride of a slice") : 1);
  });
}

void pad(const Source& source, HloInstruction& made) {
  const MlirAttributes& attributes = source.attributes();
  const Integers low = attributes.integers(source.name_of({"low", "edge_padding_low"}));
  const Integers high = attributes.integers(source.name_of({"high", "edge_padding_high"}));
  const Integers interior = attributes.integers(source.name_of({"interior", "interior_padding"}));
  if (low.size() != high.size() || low.size() != interior.size()) {
    attributes.fail("as many numbers of low, high and interior padding");
  }
  for (std::size_t i = 0; i < low.size(); ++i)
    made.padding.push_back({low[i], high[i], interior[i]});
}

/// "operand_precision={highest,highest}" where it is not the default of all operands.
void precision(const Source& source, HloInstruction& made) {
  const MlirAttributes& attributes = source.attributes();
  std::string_view rest = attributes.text_or("precision_config", "");
  if (attributes.has("precision")) rest = attributes.text("precision");
  std::string list;
  bool asked = false;
  for (std::size_t at = 0; at < rest.size();) {
    std::size_t end = at;
    while (end < rest.size() && std::isupper(static_cast<unsigned char>(rest[end])) != 0) ++end;
    if (end - at < 3) {
      at = std::max(end, at + 1);
      continue;
    }
    std::string word(rest.substr(at, end - at));
    asked = asked || word != "DEFAULT";
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    list += (list.empty() ? "" : ",") + word;
    at = end;
  }
  if (asked && list.find("high") != std::string::npos) {
    add_raw(made, "operand_precision={" + list + "}");
  }
}

/// `[1] x [0]`.
std::pair<Integers, Integers> pair_of(const Source& source, std::string_view name) {
  if (!source.attributes().has(name)) return {};
  const std::string_view text = source.attributes().text(name);
  const std::size_t cross = text.find('x');
  if (cross == std::string_view::npos) source.attributes().fail_in(name, "two lists, as [1] x [0]");
  return {mlir_integers(source.cursor, text.substr(0, cross)),
          mlir_integers(source.cursor, text.substr(cross + 1))};
}

/// `<lhs_precision_type = bf16, ..., num_primitive_operations = 3, ...>` by the name that HLO text
/// has for it.
void algorithm(const Source& source, HloInstruction& made) {
  const MlirAttributes asked = source.dictionary("algorithm");
  std::string name = "dot";
  for (const char* type : {"lhs_precision_type", "rhs_precision_type"}) {
    const std::string_view of = asked.text(type);
    name += "_" + (of.substr(0, 2) == "f8" ? "any_f8" : std::string(of));
  }
  name += "_" + std::string(asked.text("accumulation_type"));
  const std::int64_t products = asked.integer("num_primitive_operations");
  if (products != 1) name += "_x" + std::to_string(products);
  if (name == kDotAlgorithms[0] && asked.flag("allow_imprecise_accumulation")) {
    name += "_fast_accum";
  }
  if (std::find(std::begin(kDotAlgorithms), std::end(kDotAlgorithms), name) ==
      std::end(kDotAlgorithms)) {
    source.attributes().fail_in("algorithm", "an algorithm that XLA has, not " + name);
  }
  add_raw(made, "algorithm=" + name);
}

void dot(const Source& source, HloInstruction& made) {
  DotDimensions& dims = made.dot.edit();
  if (source.operation.name == "dot") {
    const std::vector<Shape>& types = source.operation.operand_types;
    if (types.size() != 2) source.attributes().fail("a dot with the types of two operands");
    dims.lhs_contracting = {types[0].rank() - 1};
    dims.rhs_contracting = {0};
  } else if (source.attributes().has("dot_dimension_numbers")) {
    const MlirAttributes named = source.dictionary("dot_dimension_numbers");
    dims = {named.integers("lhs_batching_dimensions"), named.integers("rhs_batching_dimensions"),
            named.integers("lhs_contracting_dimensions"),
            named.integers("rhs_contracting_dimensions")};
  } else {
    std::tie(dims.lhs_batch, dims.rhs_batch) = pair_of(source, "batching_dims");
    std::tie(dims.lhs_contracting, dims.rhs_contracting) = pair_of(source, "contracting_dims");
  }
  if (source.attributes().has("algorithm")) algorithm(source, made);
  precision(source, made);
}

void ragged_dot(const Source& source, HloInstruction& made) {
  const MlirAttributes named = source.dictionary("ragged_dot_dimension_numbers");
  const auto list = [&](const char* name) {
    return named.has(name) ? named.integers(name) : Integers{};
  };
  made.dot = DotDimensions{list("lhs_batching_dimensions"),    list("rhs_batching_dimensions"),
                           list("lhs_contracting_dimensions"), list("rhs_contracting_dimensions"),
                           list("lhs_ragged_dimensions"),      list("rhs_group_dimensions")};
  precision(source, made);
}

void dynamic_slice(const Source& source, HloInstruction& made) {
  made.dynamic_slice_sizes = source.attributes().integers(source.name_of({"sizes", "slice_sizes"}));
}

void flags(const Source& source, HloInstruction& made,
           std::initializer_list<std::string_view> names) {
  for (std::string_view name : names) {
    if (source.attributes().flag(name)) add_raw(made, std::string(name) + "=true");
  }
}

void gather(const Source& source, HloInstruction& made) {
  const MlirAttributes named = source.dictionary("dimension_numbers");
  GatherDimensions& dims = made.gather.edit();
  dims.offset_dims = named.integers("offset_dims");
  dims.collapsed_slice_dims = named.integers("collapsed_slice_dims");
  dims.start_index_map = named.integers("start_index_map");
  dims.operand_batching_dims = named.integers("operand_batching_dims");
  dims.start_indices_batching_dims = named.integers("start_indices_batching_dims");
  dims.index_vector_dim = named.has("index_vector_dim") ? named.integer("index_vector_dim") : 0;
  dims.slice_sizes = source.attributes().integers("slice_sizes");
  flags(source, made, {"indices_are_sorted"});
}

void scatter(const Source& source, HloInstruction& made) {
  const MlirAttributes named = source.dictionary("scatter_dimension_numbers");
  GatherDimensions& dims = made.gather.edit();
  dims.offset_dims = named.integers("update_window_dims");
  dims.collapsed_slice_dims = named.integers("inserted_window_dims");
  dims.start_index_map = named.integers("scatter_dims_to_operand_dims");
  dims.operand_batching_dims = named.integers("input_batching_dims");
  dims.start_indices_batching_dims = named.integers("scatter_indices_batching_dims");
  dims.index_vector_dim = named.has("index_vector_dim") ? named.integer("index_vector_dim") : 0;
  flags(source, made, {"indices_are_sorted", "unique_indices"});
}

void window(const Source& source, HloInstruction& made) {
  const MlirAttributes& attributes = source.attributes();
  const Integers sizes = attributes.integers("window_dimensions");
  made.window.resize(sizes.size());
  const auto each = [&](std::string_view name, std::size_t step, const auto& set) {
    const Integers numbers = attributes.integers(name);
    if (numbers.empty()) return;
    if (numbers.size() != step * sizes.size()) {
      attributes.fail_in(name, std::to_string(step * sizes.size()) + " numbers");
    }
    for (std::size_t i = 0; i < sizes.size(); ++i) set(made.window[i], &numbers[step * i]);
  };
  using Number = const std::int64_t*;
  each("window_dimensions", 1, [](WindowDimension& w, Number n) { w.size = *n; });
  each("window_strides", 1, [](WindowDimension& w, Number n) { w.stride = *n; });
  each("base_dilations", 1, [](WindowDimension& w, Number n) { w.base_dilation = *n; });
  each("window_dilations", 1, [](WindowDimension& w, Number n) { w.window_dilation = *n; });
  each("padding", 2, [](WindowDimension& w, Number n) {
    w.padding_low = n[0];
    w.padding_high = n[1];
  });
}

/// One array's labels of `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`: where two letters and the
/// spatial dimensions stand.
void labels(HloCursor& cursor, char first, char second, std::int64_t& first_at,
            std::int64_t& second_at, Integers& spatial) {
  first_at = second_at = -1;
  std::int64_t at = 0;
  cursor.list('[', ']', [&] {
    if (cursor.take(first)) {
      first_at = at;
    } else if (cursor.take(second)) {
      second_at = at;
    } else {
      const std::int64_t place = cursor.integer("b, f, i, o or the number of a spatial dimension");
      if (place < 0 || place > 16) cursor.fail("a spatial dimension up to 16");
      if (static_cast<std::size_t>(place) >= spatial.size()) {
        spatial.resize(static_cast<std::size_t>(place) + 1, -1);
      }
      spatial[static_cast<std::size_t>(place)] = at;
    }
    ++at;
  });
  if (first_at < 0 || second_at < 0 || std::count(spatial.begin(), spatial.end(), -1) > 0) {
    cursor.fail("labels of all dimensions in front of this");
  }
}

/// `window = {stride = [2, 2], ...}`, or the same lists under their generic names.
void convolution_window(const Source& source, HloInstruction& made) {
  const bool has_own = source.attributes().has("window");
  HloCursor cursor = has_own ? source.within(source.attributes().text("window")) : source.cursor;
  MlirAttributes own(source.cursor, cursor.next());
  if (has_own) {
    cursor.expect('{');
    own.read_dictionary(cursor, "}");
  }
  const MlirAttributes& named = has_own ? own : source.attributes();
  const auto each = [&](std::string_view short_name, std::string_view generic_name,
                        std::size_t step, const auto& set) {
    const std::string_view name = has_own ? short_name : generic_name;
    const Integers numbers = named.integers(name);
    if (numbers.empty()) return;
    if (numbers.size() != step * made.window.size()) {
      named.fail_in(name, std::to_string(step * made.window.size()) + " numbers");
    }
    for (std::size_t i = 0; i < made.window.size(); ++i) set(made.window[i], &numbers[step * i]);
  };
  using Number = const std::int64_t*;
  each("stride", "window_strides", 1, [](WindowDimension& w, Number n) { w.stride = *n; });
  each("lhs_dilate", "lhs_dilation", 1, [](WindowDimension& w, Number n) { w.base_dilation = *n; });
  each("rhs_dilate", "rhs_dilation", 1,
       [](WindowDimension& w, Number n) { w.window_dilation = *n; });
  each("reverse", "window_reversal", 1, [](WindowDimension& w, Number n) { w.reversal = *n != 0; });
  each("pad", "padding", 2, [](WindowDimension& w, Number n) {
    w.padding_low = n[0];
    w.padding_high = n[1];
  });
}

void convolution(const Source& source, HloInstruction& made) {
  ConvolutionDimensions& dims = made.convolution.edit();
  HloCursor cursor =
      source.within(source.attributes().text(source.name_of({"dim_numbers", "dimension_numbers"})));
  if (cursor.take('#')) {  // #stablehlo.conv<[b, 0, 1, f]x...>
    cursor.name("an attribute of StableHLO");
    cursor.expect('<');
  }
  labels(cursor, 'b', 'f', dims.input_batch, dims.input_feature, dims.input_spatial);
  cursor.expect('x');
  labels(cursor, 'i', 'o', dims.kernel_input_feature, dims.kernel_output_feature,
         dims.kernel_spatial);
  cursor.expect("->");
  labels(cursor, 'b', 'f', dims.output_batch, dims.output_feature, dims.output_spatial);
  const std::vector<Shape>& types = source.operation.operand_types;
  if (types.size() != 2) source.attributes().fail("a convolution with the types of two operands");
  for (std::int64_t d : dims.kernel_spatial) {
    if (d >= types[1].rank()) source.attributes().fail("a kernel with the labelled dimensions");
    made.window.emplace_back().size = types[1].dimensions[static_cast<std::size_t>(d)];
  }
  convolution_window(source, made);
  const MlirAttributes& attributes = source.attributes();
  if (attributes.has("feature_group_count")) {
    made.feature_group_count = attributes.integer("feature_group_count");
  }
  if (attributes.has("batch_group_count")) {
    made.batch_group_count = attributes.integer("batch_group_count");
  }
  precision(source, made);
}

void sort(const Source& source, HloInstruction& made) {
  made.dimensions = source.attributes().integers("dimension");
  flags(source, made, {"is_stable"});
}

void random_bits(const Source& source, HloInstruction& made) {
  const std::string_view algorithm =
      source.attributes().text(source.name_of({"algorithm", "rng_algorithm"}));
  const auto is = [&](std::string_view name) {
    return algorithm.find(name) != std::string_view::npos;
  };
  add_raw(made, std::string("algorithm=") + (is("PHILOX")      ? "rng_philox"
                                             : is("THREE_FRY") ? "rng_three_fry"
                                                               : "rng_default"));
}

void fft(const Source& source, HloInstruction& made) {
  const std::string_view type = source.attributes().text(source.name_of({"type", "fft_type"}));
  for (const char* name : {"IRFFT", "RFFT", "IFFT", "FFT"}) {
    if (type.find(name) == std::string_view::npos) continue;
    add_raw(made, std::string("fft_type=") + name);
    break;
  }
  add_raw(made, "fft_length=" + integers_text(source.attributes().integers(
                                    source.name_of({"length", "fft_length"}))));
}

/// `format = e5m10`.
void reduce_precision(const Source& source, HloInstruction& made) {
  const MlirAttributes& attributes = source.attributes();
  if (!attributes.has("format")) {
    add_raw(made, "exponent_bits=" + std::to_string(attributes.integer("exponent_bits")));
    add_raw(made, "mantissa_bits=" + std::to_string(attributes.integer("mantissa_bits")));
    return;
  }
  const std::string_view format = attributes.text("format");
  const std::size_t m = format.find('m');
  if (format.substr(0, 1) != "e" || m == std::string_view::npos) {
    attributes.fail_in("format", "bits of exponent and mantissa, as in e8m7");
  }
  const auto bits = [&](std::string_view part) {
    const Integers numbers = mlir_integers(source.cursor, part);
    if (numbers.size() != 1) attributes.fail_in("format", "one number of bits");
    return std::to_string(numbers[0]);
  };
  add_raw(made, "exponent_bits=" + bits(format.substr(1, m - 1)));
  add_raw(made, "mantissa_bits=" + bits(format.substr(m + 1)));
}

void cholesky(const Source& source, HloInstruction& made) { flags(source, made, {"lower"}); }

void triangular_solve(const Source& source, HloInstruction& made) {
  flags(source, made, {"left_side", "lower", "unit_diagonal"});
  const std::string_view transpose = source.attributes().text_or("transpose_a", "NO_TRANSPOSE");
  const auto is = [&](std::string_view name) {
    return transpose.find(name) != std::string_view::npos;
  };
  add_raw(made, std::string("transpose_a=") + (is("NO_TRANSPOSE") ? "NO_TRANSPOSE"
                                               : is("ADJOINT")    ? "ADJOINT"
                                                                  : "TRANSPOSE"));
}

void batch_norm(const Source& source, HloInstruction& made) {
  const std::string_view epsilon = source.attributes().text("epsilon");
  add_raw(made, "epsilon=" + std::string(epsilon.substr(0, epsilon.find(' '))));
  add_raw(made, "feature_index=" + std::to_string(source.attributes().integer("feature_index")));
}

void custom_call(const Source& source, HloInstruction& made) {
  const MlirAttributes& attributes = source.attributes();
  std::string_view target = attributes.text(source.name_of({"callee", "call_target_name"}));
  if (!target.empty() && target[0] == '"') target = target.substr(1, target.size() - 2);
  made.custom_call_target = std::string(target);
  // A text, or a dictionary: `mhlo.` where the text is for the calls of before.
  for (const char* name : {"mhlo.backend_config", "backend_config"}) {
    const std::string_view config = attributes.text_or(name, "");
    if (config.size() <= 2 || (config[0] != '"' && config[0] != '{')) continue;
    add_raw(made, "backend_config=" + std::string(config));
    break;
  }
}

/// `dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`, as many numbers to a row as the type says.
std::vector<Integers> rows(const MlirAttributes& attributes, std::string_view name) {
  const Integers numbers = attributes.integers(name);
  const std::string_view text = attributes.text(name);
  const std::size_t type = text.rfind("tensor<"), x = text.find('x', type);
  std::int64_t width = 0;
  for (std::size_t i = x == std::string_view::npos || type == std::string_view::npos ? text.size()
                                                                                     : x + 1;
       i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0; ++i) {
    width = 10 * width + (text[i] - '0');
    if (width > static_cast<std::int64_t>(numbers.size())) break;
  }
  if (width < 1 || numbers.size() % static_cast<std::size_t>(width) != 0) {
    attributes.fail_in(name, "rows of devices, as in dense<[[0, 1]]> : tensor<1x2xi64>");
  }
  std::vector<Integers> found(numbers.size() / static_cast<std::size_t>(width));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    // Shorter groups are filled up with -1.
    if (numbers[i] >= 0) found[i / static_cast<std::size_t>(width)].push_back(numbers[i]);
  }
  return found;
}

/// `channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>`, `use_global_device_ids`.
void channel(const Source& source, HloInstruction& made) {
  const MlirAttributes& attributes = source.attributes();
  if (attributes.has("channel_handle")) {
    add_raw(made,
            "channel_id=" + std::to_string(source.dictionary("channel_handle").integer("handle")));
  } else if (attributes.has("channel_id")) {
    add_raw(made, "channel_id=" + std::to_string(attributes.integer("channel_id")));
  }
  if (attributes.has("use_global_device_ids")) add_raw(made, "use_global_device_ids=true");
}

/// Of a collective that groups devices; with a dimension, that it gathers or scatters along.
void collective(const Source& source, HloInstruction& made) {
  made.replica_groups = rows(source.attributes(), "replica_groups");
  channel(source, made);
  for (const char* name : {"all_gather_dim", "scatter_dimension"}) {
    if (source.attributes().has(name)) made.dimensions = {source.attributes().integer(name)};
  }
}

/// The form of HLO that keeps the shape: parts of a dimension change places.
void all_to_all(const Source& source, HloInstruction& made) {
  collective(source, made);
  made.dimensions = {source.attributes().integer("split_dimension")};
}

void permute(const Source& source, HloInstruction& made) {
  std::string pairs;
  for (const Integers& pair : rows(source.attributes(), "source_target_pairs")) {
    if (pair.size() != 2) {
      source.attributes().fail_in("source_target_pairs", "pairs of devices");
    }
    pairs += (pairs.empty() ? "" : ",") + integers_text(pair);
  }
  channel(source, made);
  add_raw(made, "source_target_pairs={" + pairs + "}");
}

using Setter = void (*)(const Source&, HloInstruction&);

/// Operations whose attributes or whose names are others than those of HLO with '_' for '-'.
const std::unordered_map<std::string_view, std::pair<HloOpcode, Setter>>& setters() {
  static const std::unordered_map<std::string_view, std::pair<HloOpcode, Setter>> kTable{
      {"iota", {HloOpcode::kIota, dimensions}},
      {"transpose", {HloOpcode::kTranspose, dimensions}},
      {"reverse", {HloOpcode::kReverse, dimensions}},
      {"broadcast_in_dim", {HloOpcode::kBroadcast, dimensions}},
      {"concatenate", {HloOpcode::kConcatenate, dimensions}},
      {"reduce", {HloOpcode::kReduce, dimensions}},
      {"compare", {HloOpcode::kCompare, comparison}},
      {"slice", {HloOpcode::kSlice, slice}},
      {"pad", {HloOpcode::kPad, pad}},
      {"dot", {HloOpcode::kDot, dot}},
      {"dot_general", {HloOpcode::kDot, dot}},
      {"ragged_dot", {HloOpcode::kRaggedDot, ragged_dot}},
      {"dynamic_slice", {HloOpcode::kDynamicSlice, dynamic_slice}},
      {"gather", {HloOpcode::kGather, gather}},
      {"scatter", {HloOpcode::kScatter, scatter}},
      {"reduce_window", {HloOpcode::kReduceWindow, window}},
      {"select_and_scatter", {HloOpcode::kSelectAndScatter, window}},
      {"convolution", {HloOpcode::kConvolution, convolution}},
      {"sort", {HloOpcode::kSort, sort}},
      {"rng_bit_generator", {HloOpcode::kRngBitGenerator, random_bits}},
      {"fft", {HloOpcode::kFft, fft}},
      {"reduce_precision", {HloOpcode::kReducePrecision, reduce_precision}},
      {"cholesky", {HloOpcode::kCholesky, cholesky}},
      {"triangular_solve", {HloOpcode::kTriangularSolve, triangular_solve}},
      {"batch_norm_training", {HloOpcode::kBatchNormTraining, batch_norm}},
      {"batch_norm_inference", {HloOpcode::kBatchNormInference, batch_norm}},
      {"batch_norm_grad", {HloOpcode::kBatchNormGrad, batch_norm}},
      {"custom_call", {HloOpcode::kCustomCall, custom_call}},
      {"optimization_barrier", {HloOpcode::kOptimizationBarrier, plain}},
      {"all_reduce", {HloOpcode::kAllReduce, collective}},
      {"all_gather", {HloOpcode::kAllGather, collective}},
      {"reduce_scatter", {HloOpcode::kReduceScatter, collective}},
      {"all_to_all", {HloOpcode::kAllToAll, all_to_all}},
      {"collective_broadcast", {HloOpcode::kCollectiveBroadcast, collective}},
      {"collective_permute", {HloOpcode::kCollectivePermute, permute}},
      {"call", {HloOpcode::kCall, plain}},
      {"composite", {HloOpcode::kCall, plain}},
      {"while", {HloOpcode::kWhile, plain}},
      {"if", {HloOpcode::kConditional, plain}},
      {"case", {HloOpcode::kConditional, plain}},
  };
  return kTable;
}

/// Operations whose attributes are not read.
bool is_unread(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kInfeed:
    case HloOpcode::kOutfeed:
    case HloOpcode::kSend:
    case HloOpcode::kRecv:
    case HloOpcode::kRng:
    case HloOpcode::kMap:
    case HloOpcode::kSetDimensionSize:
    case HloOpcode::kGetDimensionSize:
      return true;
    default:
      return false;
  }
}

}  // namespace

void set_attributes(const HloCursor& cursor, const StablehloOperation& operation,
                    HloInstruction& instruction) {
  const auto found = setters().find(operation.name);
  if (found != setters().end()) {
    instruction.opcode = found->second.first;
    found->second.second({cursor, operation}, instruction);
    return;
  }
  std::string name(operation.name);
  std::replace(name.begin(), name.end(), '_', '-');
  instruction.opcode = hlo_opcode(name);
  if (instruction.opcode == HloOpcode::kCount || is_unread(instruction.opcode)) {
    operation.attributes.fail(
        "an operation of StableHLO that is read here (HLO text has more: "
        "lowered.as_text(\"hlo\") in JAX, or python -m tpusim_capture FILE)");
  }
}

}  // namespace tpu::hlo
