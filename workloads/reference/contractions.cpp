#include <algorithm>

#include "sim/base/error.h"
#include "workloads/reference/operations.h"

namespace tpu::reference {

using hlo::HloInstruction;
using Extents = std::vector<std::int64_t>;

namespace {

/// Rows and columns of the result that are summed in registers.
constexpr std::size_t kRowsAtOnce = 4;
constexpr std::size_t kColumnsAtOnce = 8;

/// sums[rows x columns] = a[rows x depth] * b[depth x columns] for one strip of columns, which
/// `strip` holds as doubles [depth x kColumnsAtOnce]. A product of two floats is exact in double,
/// so that the result does not depend on the instructions that the processor has.
__attribute__((target_clones("avx2", "default"))) void multiply_strip(
    const float* a, const double* strip, std::size_t rows, std::size_t depth, double* sums,
    std::size_t sums_stride, std::size_t width) {
  for (std::size_t i = 0; i < rows; i += kRowsAtOnce) {
    const float* row[kRowsAtOnce];
    for (std::size_t r = 0; r < kRowsAtOnce; ++r) row[r] = a + std::min(i + r, rows - 1) * depth;
    double total[kRowsAtOnce][kColumnsAtOnce] = {};
    for (std::size_t k = 0; k < depth; ++k) {
      const double* line = strip + k * kColumnsAtOnce;
      for (std::size_t r = 0; r < kRowsAtOnce; ++r) {
        const double factor = static_cast<double>(row[r][k]);
        for (std::size_t j = 0; j < kColumnsAtOnce; ++j) total[r][j] += factor * line[j];
      }
    }
    for (std::size_t r = 0; r < std::min(kRowsAtOnce, rows - i); ++r) {
      for (std::size_t j = 0; j < width; ++j) sums[(i + r) * sums_stride + j] = total[r][j];
    }
  }
}

/// sums[rows x columns] = a[rows x depth] * b[depth x columns], all row-major.
void multiply(const float* a, const float* b, std::size_t rows, std::size_t depth,
              std::size_t columns, double* sums) {
  std::vector<double> strip(depth * kColumnsAtOnce);
  for (std::size_t first = 0; first < columns; first += kColumnsAtOnce) {
    const std::size_t width = std::min(kColumnsAtOnce, columns - first);
    for (std::size_t k = 0; k < depth; ++k) {
      for (std::size_t j = 0; j < kColumnsAtOnce; ++j) {
        strip[k * kColumnsAtOnce + j] =
            j < width ? static_cast<double>(b[k * columns + first + j]) : 0.0;
      }
    }
    multiply_strip(a, strip.data(), rows, depth, sums + first, columns, width);
  }
}

std::vector<float> rounded_to_bf16(std::vector<float> numbers) {
  for (float& number : numbers) number = round_to_bf16(number);
  return numbers;
}

/// The array's numbers in another order of dimensions, rounded to bf16 if asked for.
std::vector<float> ordered(const Value& x, const Extents& order, bool round) {
  if (std::is_sorted(order.begin(), order.end())) {
    return round ? rounded_to_bf16(x.numbers) : x.numbers;
  }
  const Extents strides = strides_of(x.shape.dimensions);
  Extents limits, steps;
  for (std::int64_t d : order) {
    limits.push_back(x.shape.dimensions[static_cast<std::size_t>(d)]);
    steps.push_back(strides[static_cast<std::size_t>(d)]);
  }
  std::vector<float> numbers(x.size());
  Index index(limits);
  for (float& number : numbers) {
    number = x.numbers[static_cast<std::size_t>(index.offset(steps))];
    index.next();
  }
  return round ? rounded_to_bf16(std::move(numbers)) : numbers;
}

std::size_t product_of(const Value& x, const Extents& dimensions) {
  std::int64_t product = 1;
  for (std::int64_t d : dimensions) product *= x.shape.dimensions[static_cast<std::size_t>(d)];
  return static_cast<std::size_t>(product);
}

Extents free_dimensions(const Value& x, const Extents& batch, const Extents& contracting) {
  Extents free;
  for (std::int64_t d = 0; d < x.shape.rank(); ++d) {
    if (std::find(batch.begin(), batch.end(), d) == batch.end() &&
        std::find(contracting.begin(), contracting.end(), d) == contracting.end()) {
      free.push_back(d);
    }
  }
  return free;
}

Extents joined_extents(const Extents& a, const Extents& b, const Extents& c) {
  Extents all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

/// Integer operands as floats would lose digits: they are multiplied as integers.
Value integer_dot(const HloInstruction& instruction, const Value& a, const Value& b,
                  const Extents& a_free, const Extents& b_free) {
  Value result = make_value(instruction.shape);
  const hlo::DotDimensions& dims = instruction.dot;
  const Extents a_strides = strides_of(a.shape.dimensions);
  const Extents b_strides = strides_of(b.shape.dimensions);
  Extents depth;
  for (std::int64_t d : dims.lhs_contracting) {
    depth.push_back(a.shape.dimensions[static_cast<std::size_t>(d)]);
  }
  const std::size_t terms = product_of(a, dims.lhs_contracting);
  const auto add = [](std::int64_t& offset, const Extents& strides, std::int64_t d,
                      std::int64_t at) { offset += strides[static_cast<std::size_t>(d)] * at; };
  Index index(instruction.shape.dimensions);
  for (std::size_t i = 0; i < result.size(); ++i, index.next()) {
    std::int64_t a_base = 0, b_base = 0;
    std::size_t place = 0;
    for (std::size_t k = 0; k < dims.lhs_batch.size(); ++k, ++place) {
      add(a_base, a_strides, dims.lhs_batch[k], index.at()[place]);
      add(b_base, b_strides, dims.rhs_batch[k], index.at()[place]);
    }
    for (std::int64_t d : a_free) add(a_base, a_strides, d, index.at()[place++]);
    for (std::int64_t d : b_free) add(b_base, b_strides, d, index.at()[place++]);
    std::uint64_t sum = 0;
    Index inner(depth);
    for (std::size_t t = 0; t < terms; ++t, inner.next()) {
      std::int64_t from_a = a_base, from_b = b_base;
      for (std::size_t k = 0; k < depth.size(); ++k) {
        add(from_a, a_strides, dims.lhs_contracting[k], inner.at()[k]);
        add(from_b, b_strides, dims.rhs_contracting[k], inner.at()[k]);
      }
      sum += static_cast<std::uint64_t>(a.integers[static_cast<std::size_t>(from_a)]) *
             static_cast<std::uint64_t>(b.integers[static_cast<std::size_t>(from_b)]);
    }
    result.integers[i] = wrap_to(result.shape.type, static_cast<std::int64_t>(sum));
  }
  return result;
}

}  // namespace

namespace {

Value as_floats(const Value& value) {
  if (value.integers.empty()) return value;
  Value floats = value;
  floats.numbers.assign(value.integers.begin(), value.integers.end());
  floats.integers.clear();
  floats.shape.type = hlo::ElementType::kF32;
  return floats;
}

}  // namespace

Value dot(const HloInstruction& instruction, const Value& given_a, const Value& given_b,
          bool round_operands) {
  const hlo::DotDimensions& dims = instruction.dot;
  // An integer among floats becomes one.
  const bool is_floating_dot = is_floating(instruction.shape.type);
  const Value a = is_floating_dot ? as_floats(given_a) : given_a;
  const Value b = is_floating_dot ? as_floats(given_b) : given_b;
  const Extents a_free = free_dimensions(a, dims.lhs_batch, dims.lhs_contracting);
  const Extents b_free = free_dimensions(b, dims.rhs_batch, dims.rhs_contracting);
  if (!is_floating(instruction.shape.type)) {
    return integer_dot(instruction, a, b, a_free, b_free);
  }
  const std::vector<float> left =
      ordered(a, joined_extents(dims.lhs_batch, a_free, dims.lhs_contracting), round_operands);
  const std::vector<float> right =
      ordered(b, joined_extents(dims.rhs_batch, dims.rhs_contracting, b_free), round_operands);
  const std::size_t batch = product_of(a, dims.lhs_batch);
  const std::size_t rows = product_of(a, a_free);
  const std::size_t columns = product_of(b, b_free);
  const std::size_t depth = product_of(a, dims.lhs_contracting);
  Value result = make_value(instruction.shape);
  std::vector<double> sums(result.size(), 0.0);
  for (std::size_t i = 0; i < batch; ++i) {
    multiply(left.data() + i * rows * depth, right.data() + i * depth * columns, rows, depth,
             columns, sums.data() + i * rows * columns);
  }
  for (std::size_t i = 0; i < sums.size(); ++i) {
    result.numbers[i] = round_to(result.shape.type, sums[i]);
  }
  return result;
}

namespace {

/// The groups of a ragged dot: sizes[prefix..., group], or sizes[group] for all prefixes.
class Groups {
 public:
  Groups(const hlo::DotDimensions& dims, const Value& left, const Value& sizes)
      : sizes_(sizes), ragged_(dims.lhs_ragged.at(0)) {
    if (sizes.shape.rank() == 1) return;
    const auto has = [](const Extents& list, std::int64_t d) {
      return std::find(list.begin(), list.end(), d) != list.end();
    };
    prefix_ = dims.lhs_batch;
    const bool is_contracted = has(dims.lhs_contracting, ragged_);
    const Extents kind = is_contracted
                             ? dims.lhs_contracting
                             : free_dimensions(left, dims.lhs_batch, dims.lhs_contracting);
    for (const std::int64_t d : kind) {
      if (d == ragged_) break;
      prefix_.push_back(d);
    }
  }

  /// The array with zeros outside of the group.
  Value only(Value x, std::int64_t group) const {
    Index index(x.shape.dimensions);
    for (std::size_t i = 0; i < x.size(); ++i, index.next()) {
      std::int64_t row = 0, begin = 0;
      for (std::size_t p = 0; p < prefix_.size(); ++p) {
        row = row * sizes_.shape.dimensions[p] + index.at()[static_cast<std::size_t>(prefix_[p])];
      }
      const std::int64_t first = row * sizes_.shape.dimensions.back();
      const auto size = [&](std::int64_t g) {
        return sizes_.integers[static_cast<std::size_t>(first + g)];
      };
      for (std::int64_t g = 0; g < group; ++g) begin += size(g);
      const std::int64_t at = index.at()[static_cast<std::size_t>(ragged_)];
      if (at < begin || at >= begin + size(group)) set_element(x, i, Scalar{});
    }
    return x;
  }

 private:
  const Value& sizes_;
  const std::int64_t ragged_;
  Extents prefix_;
};

}  // namespace

Value ragged_dot(const HloInstruction& instruction, const Operands& operands, bool round_operands) {
  const hlo::DotDimensions& dims = instruction.dot;
  const Value &left = *operands[0], &right = *operands[1];
  const auto has = [&](const Extents& list) {
    return std::find(list.begin(), list.end(), dims.lhs_ragged.at(0)) != list.end();
  };
  if (has(dims.lhs_batch)) return dot(instruction, left, right, round_operands);
  const Groups groups(dims, left, *operands[2]);
  const bool is_contracted = has(dims.lhs_contracting);
  HloInstruction product = instruction;
  if (is_contracted) product.shape.dimensions.erase(product.shape.dimensions.begin());
  Value result = make_value(instruction.shape);
  for (std::int64_t g = 0; g < operands[2]->shape.dimensions.back(); ++g) {
    Value side = right;
    hlo::DotDimensions& own = product.dot.edit();
    own = dims;
    if (!is_contracted) {
      const std::int64_t d = dims.rhs_group.at(0);
      side = part_of(right, d, g, operands[2]->shape.dimensions.back());
      side.shape.dimensions.erase(side.shape.dimensions.begin() + static_cast<std::ptrdiff_t>(d));
      for (Extents* list : {&own.rhs_batch, &own.rhs_contracting}) {
        for (std::int64_t& other : *list) other -= other > d ? 1 : 0;
      }
    }
    const Value part = dot(product, groups.only(left, g), side, round_operands);
    for (std::size_t i = 0; i < part.size(); ++i) {
      const std::size_t at = is_contracted ? static_cast<std::size_t>(g) * part.size() + i : i;
      const Scalar a = element(result, at), b = element(part, i);
      set_element(result, at, {a.number + b.number, a.integer + b.integer});
    }
  }
  return result;
}

namespace {

/// A convolution as products of matrices, group by group: rows are output positions, the depth runs
/// over the window's positions and the input features of a group, columns are output features of a
/// group.
class Convolver {
 public:
  Convolver(const HloInstruction& instruction, const Value& input, const Value& kernel, bool round)
      : node_(instruction),
        dims_(instruction.convolution),
        input_(input),
        inputs_(round ? rounded_to_bf16(input.numbers) : input.numbers),
        weights_(round ? rounded_to_bf16(kernel.numbers) : kernel.numbers),
        input_strides_(strides_of(input.shape.dimensions)),
        kernel_strides_(strides_of(kernel.shape.dimensions)),
        output_strides_(strides_of(instruction.shape.dimensions)) {
    depth_features_ = of(kernel.shape, dims_.kernel_input_feature);
    groups_ = std::max(node_.feature_group_count, node_.batch_group_count);
    columns_ = of(kernel.shape, dims_.kernel_output_feature) / groups_;
    rows_ = of(node_.shape, dims_.output_batch);
    for (std::int64_t d : dims_.output_spatial) {
      output_spatial_.push_back(of(node_.shape, d));
      rows_ *= output_spatial_.back();
    }
    for (const hlo::WindowDimension& w : node_.window) {
      window_.push_back(w.size);
      window_count_ *= w.size;
    }
  }

  Value run() {
    Value result = make_value(node_.shape);
    if (result.size() == 0) return result;
    const std::int64_t depth = window_count_ * depth_features_;
    std::vector<float> rows(static_cast<std::size_t>(kRows * depth));
    for (std::int64_t group = 0; group < groups_; ++group) {
      const std::vector<float> columns = kernel_columns(group);
      for (std::int64_t first = 0; first < rows_; first += kRows) {
        const std::int64_t count = std::min(kRows, rows_ - first);
        std::vector<double> sums(static_cast<std::size_t>(count * columns_), 0.0);
        for (std::int64_t r = 0; r < count; ++r) {
          input_row(group, first + r, rows.data() + r * depth);
        }
        multiply(rows.data(), columns.data(), static_cast<std::size_t>(count),
                 static_cast<std::size_t>(depth), static_cast<std::size_t>(columns_), sums.data());
        store(group, first, count, sums, result);
      }
    }
    return result;
  }

 private:
  static constexpr std::int64_t kRows = 256;

  static std::int64_t of(const hlo::Shape& shape, std::int64_t dimension) {
    return shape.dimensions[static_cast<std::size_t>(dimension)];
  }
  static std::int64_t stride(const Extents& strides, std::int64_t dimension) {
    return strides[static_cast<std::size_t>(dimension)];
  }

  /// [window positions x input features, output features of the group].
  std::vector<float> kernel_columns(std::int64_t group) const {
    std::vector<float> columns(
        static_cast<std::size_t>(window_count_ * depth_features_ * columns_));
    Index position(window_);
    std::size_t to = 0;
    const std::int64_t out_step = stride(kernel_strides_, dims_.kernel_output_feature);
    for (std::int64_t p = 0; p < window_count_; ++p, position.next()) {
      std::int64_t base = group * columns_ * out_step;
      for (std::size_t d = 0; d < window_.size(); ++d) {
        const std::int64_t at =
            node_.window[d].reversal ? window_[d] - 1 - position.at()[d] : position.at()[d];
        base += at * stride(kernel_strides_, dims_.kernel_spatial[d]);
      }
      for (std::int64_t i = 0; i < depth_features_; ++i) {
        const std::int64_t row = base + i * stride(kernel_strides_, dims_.kernel_input_feature);
        for (std::int64_t o = 0; o < columns_; ++o) {
          columns[to++] = weights_[static_cast<std::size_t>(row + o * out_step)];
        }
      }
    }
    return columns;
  }

  /// What one output position reads of the input: zeros for padding and between dilated elements.
  void input_row(std::int64_t group, std::int64_t row, float* to) const {
    std::int64_t rest = row;
    Extents place(output_spatial_.size());
    for (std::size_t d = place.size(); d-- > 0;) {
      place[d] = rest % output_spatial_[d];
      rest /= output_spatial_[d];
    }
    std::int64_t batch = rest;
    std::int64_t feature = 0;
    if (node_.batch_group_count > 1) {
      batch += group * of(node_.shape, dims_.output_batch);
    } else {
      feature = group * depth_features_;
    }
    const std::int64_t step = stride(input_strides_, dims_.input_feature);
    const std::int64_t base = batch * stride(input_strides_, dims_.input_batch) + feature * step;
    Index position(window_);
    for (std::int64_t p = 0; p < window_count_; ++p, position.next(), to += depth_features_) {
      std::int64_t from = base;
      bool inside = true;
      for (std::size_t d = 0; d < window_.size() && inside; ++d) {
        const hlo::WindowDimension& w = node_.window[d];
        const std::int64_t at =
            place[d] * w.stride + position.at()[d] * w.window_dilation - w.padding_low;
        inside = at >= 0 && at % w.base_dilation == 0 &&
                 at / w.base_dilation < of(input_.shape, dims_.input_spatial[d]);
        from += at / w.base_dilation * stride(input_strides_, dims_.input_spatial[d]);
      }
      for (std::int64_t i = 0; i < depth_features_; ++i) {
        to[i] = inside ? inputs_[static_cast<std::size_t>(from + i * step)] : 0;
      }
    }
  }

  void store(std::int64_t group, std::int64_t first, std::int64_t count,
             const std::vector<double>& sums, Value& result) const {
    for (std::int64_t r = 0; r < count; ++r) {
      std::int64_t rest = first + r;
      std::int64_t to = group * columns_ * stride(output_strides_, dims_.output_feature);
      for (std::size_t d = output_spatial_.size(); d-- > 0;) {
        to += rest % output_spatial_[d] * stride(output_strides_, dims_.output_spatial[d]);
        rest /= output_spatial_[d];
      }
      to += rest * stride(output_strides_, dims_.output_batch);
      for (std::int64_t o = 0; o < columns_; ++o) {
        const std::int64_t at = to + o * stride(output_strides_, dims_.output_feature);
        result.numbers[static_cast<std::size_t>(at)] =
            round_to(result.shape.type, sums[static_cast<std::size_t>(r * columns_ + o)]);
      }
    }
  }

  const HloInstruction& node_;
  const hlo::ConvolutionDimensions& dims_;
  const Value& input_;
  std::vector<float> inputs_, weights_;  ///< Rounded if asked for.
  Extents input_strides_, kernel_strides_, output_strides_;
  Extents output_spatial_, window_;
  std::int64_t window_count_ = 1, depth_features_ = 1, groups_ = 1, columns_ = 1, rows_ = 1;
};

}  // namespace

namespace {

/// Four bits of each integer as floats.
Value digits(const Value& x, int number) {
  Value found = as_floats(x);
  for (std::size_t i = 0; i < x.integers.size(); ++i) {
    const auto bits = static_cast<std::uint64_t>(x.integers[i]);
    found.numbers[i] = static_cast<float>(bits >> (4 * number) & 0xf);
  }
  return found;
}

/// From convolutions of digits, whose sums fp32 holds up to 74,565 products.
Value integer_convolution(const HloInstruction& instruction, const Value& input,
                          const Value& kernel) {
  Value result = make_value(instruction.shape);
  HloInstruction of_digits = instruction;
  of_digits.shape.type = hlo::ElementType::kF32;
  const int count = 2 * hlo::byte_size(instruction.shape.type);
  for (int left = 0; left < count; ++left) {
    for (int right = 0; left + right < count; ++right) {
      const Value part =
          Convolver(of_digits, digits(input, left), digits(kernel, right), false).run();
      for (std::size_t i = 0; i < result.size(); ++i) {
        const std::uint64_t sum =
            static_cast<std::uint64_t>(result.integers[i]) +
            (static_cast<std::uint64_t>(part.numbers[i]) << (4 * (left + right)));
        result.integers[i] = wrap_to(result.shape.type, static_cast<std::int64_t>(sum));
      }
    }
  }
  return result;
}

}  // namespace

Value convolution(const HloInstruction& instruction, const Value& input, const Value& kernel,
                  bool round_operands) {
  if (!is_floating(instruction.shape.type)) return integer_convolution(instruction, input, kernel);
  return Convolver(instruction, input, kernel, round_operands).run();
}

}  // namespace tpu::reference
