#include "workloads/compiler/passes/expand/fourier_expander.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "sim/base/token_cursor.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// Lengths whose largest prime factor is above have a table of their own up to here.
constexpr std::int64_t kLongestTable = 2048;

/// cos and sin of -2 pi i / n times an integer, reduced before it is rounded.
struct Turn {
  double cosine, sine;
};
Turn turn(std::int64_t times, std::int64_t n) {
  const double angle = -2 * M_PI * static_cast<double>(times % n) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

/// The largest divisor that is short enough for a product of its own; 1 of a long prime.
std::int64_t short_divisor(std::int64_t n) {
  for (std::int64_t d = std::min<std::int64_t>(kDirectTransform, n - 1); d > 1; --d) {
    if (n % d == 0) return d;
  }
  return 1;
}

/// The one of two factors whose square is nearest to n, both short where that can be.
std::int64_t first_factor(std::int64_t n) {
  std::int64_t best = short_divisor(n);
  for (std::int64_t d = 2; d <= kDirectTransform && d * d <= n; ++d) {
    if (n % d == 0 && n / d <= kDirectTransform) best = d;
  }
  return best;
}

/// Of a transform, pieces whose numbers meet on the vector unit: most of them.
constexpr std::int64_t kMostMeeting = 16;
/// Columns of an array of the MXUs, and lanes.
constexpr std::int64_t kTableColumns = 128;

/// How a transform of rows is made, by cycles for each element about.
struct Way {
  double cycles = 0;
  std::int64_t pieces = 1;  ///< 1: one product with a table.
};

/// By one product: six passes for each of four tables, what is moved of the operand's parts of
/// bf16, and of the tables. (256 rows of 2048 elements on a v3: 0.19 of MXUs at 256, 0.2 of parts.)
double direct_cycles(std::int64_t rows, std::int64_t n) {
  const auto length = static_cast<double>(n);
  const auto padded = static_cast<double>(round_up(n, kTableColumns));
  return 12 * padded * padded / length / (kTableColumns * kTableColumns) + 0.2 * padded / length +
         0.05 * padded * padded / length / static_cast<double>(rows);
}

Way way_of(std::int64_t rows, std::int64_t n) {
  Way best{direct_cycles(rows, n), 1};
  if (n <= kDirectTransform) return best;
  if (n > kLongestTable) best.cycles = std::numeric_limits<double>::infinity();
  for (std::int64_t a = 2; a <= kMostMeeting; ++a) {
    if (n % a != 0) continue;
    const std::int64_t b = n / a;
    const double lanes = static_cast<double>(round_up(b, kTableColumns)) / static_cast<double>(b);
    const double cycles =
        way_of(rows * a, b).cycles + (0.4 + 0.01 * static_cast<double>(a)) * lanes;
    if (cycles < best.cycles) best = {cycles, a};
  }
  return best;
}

/// Transforms of the last dimension of arrays [rows, length].
class RowTransform {
 public:
  explicit RowTransform(GraphEditor& edit) : edit_(edit), math_(edit) {}

  /// Forward, or backward without the division by the length.
  ComplexParts whole(const ComplexParts& x, std::int64_t n, bool is_inverse) {
    if (n == 1) return x;
    const Way way = way_of(rows(x), n);
    if (way.pieces > 1) return from_pieces(x, n, way.pieces, n, is_inverse);
    if (n <= kLongestTable) return direct(x, n, n, is_inverse);
    return short_divisor(n) > 1 ? in_two_steps(x, n, is_inverse) : by_convolution(x, n, is_inverse);
  }
  /// The first n / 2 + 1 numbers of the transform of a real array.
  ComplexParts of_real(Id x, std::int64_t n) {
    const std::int64_t kept = n / 2 + 1;
    const ComplexParts given = math_.from_real(x);
    const Way way = way_of(rows(given), n);
    if (way.pieces > 1) return from_pieces(given, n, way.pieces, kept, false);
    if (n <= kLongestTable) return direct(given, n, kept, false);
    return part(whole(given, n, false), 0, kept);
  }
  /// The real array whose transform begins with these n / 2 + 1 numbers, times n.
  Id to_real(const ComplexParts& x, std::int64_t n);

 private:
  using Pieces = std::vector<ComplexParts>;

  std::int64_t rows(const ComplexParts& x) { return edit_.dimensions(x.real)[0]; }

  /// A table [a, b] of a function of row and column.
  Id table(std::int64_t a, std::int64_t b,
           const std::function<double(std::int64_t, std::int64_t)>& value) {
    std::vector<float> numbers;
    for (std::int64_t i = 0; i < a; ++i) {
      for (std::int64_t j = 0; j < b; ++j) numbers.push_back(static_cast<float>(value(i, j)));
    }
    return edit_.numbers({a, b}, numbers);
  }
  ComplexParts complex_table(std::int64_t a, std::int64_t b,
                             const std::function<Turn(std::int64_t, std::int64_t)>& value) {
    return {table(a, b, [&](std::int64_t i, std::int64_t j) { return value(i, j).cosine; }),
            table(a, b, [&](std::int64_t i, std::int64_t j) { return value(i, j).sine; })};
  }
  HloInstruction dot_of(Id x, std::int64_t columns) {
    HloInstruction dot =
        edit_.start(HloOpcode::kDot, {},
                    hlo::array_shape(ElementType::kF32, {edit_.dimensions(x)[0], columns}));
    dot.dot = hlo::DotDimensions{{}, {}, {1}, {0}};
    dot.raw_attributes = std::string("operand_precision={highest,highest}");
    return dot;
  }
  Id product(Id x, Id table) {
    HloInstruction dot = dot_of(x, edit_.dimensions(table)[1]);
    dot.operands = {x, table};
    dot.name += "." + std::to_string(table);
    return edit_.append_instruction(dot);
  }

  ComplexParts direct(const ComplexParts& x, std::int64_t n, std::int64_t kept, bool is_inverse);
  Id real_part(const ComplexParts& x, std::int64_t n, bool is_inverse);

  template <class Function>
  ComplexParts each(const ComplexParts& x, Function function) {
    return {function(x.real), function(x.imaginary)};
  }
  ComplexParts reshaped(const ComplexParts& x, const Extents& extents) {
    return each(x, [&](Id a) { return edit_.reshape(a, extents); });
  }
  ComplexParts transposed(const ComplexParts& x, const Extents& order) {
    return each(x, [&](Id a) { return edit_.transpose(a, order); });
  }
  ComplexParts part(const ComplexParts& x, std::int64_t from, std::int64_t to) {
    return each(x, [&](Id a) { return edit_.slice(a, {0, from}, {rows(x), to}); });
  }
  ComplexParts joined(const Pieces& pieces, std::int64_t dimension) {
    std::vector<Id> reals, imaginaries;
    for (const ComplexParts& piece : pieces) {
      reals.push_back(piece.real);
      imaginaries.push_back(piece.imaginary);
    }
    return {edit_.concatenate(reals, dimension), edit_.concatenate(imaginaries, dimension)};
  }
  /// Rows of a table beside all rows.
  ComplexParts spread(const ComplexParts& table, const Extents& extents, const Extents& places) {
    return each(table, [&](Id a) { return edit_.broadcast(a, extents, places); });
  }
  /// Numbers [rows, b] times the turns of n by `times` j in column j.
  ComplexParts rotated(const ComplexParts& x, std::int64_t times, std::int64_t n, bool is_inverse) {
    if (times == 0) return x;
    const std::int64_t b = edit_.dimensions(x.real)[1];
    const ComplexParts turns = complex_table(1, b, [&](std::int64_t, std::int64_t j) {
      return turn(is_inverse ? n - times * j % n : times * j, n);
    });
    return math_.multiply(x, spread(reshaped(turns, {b}), {rows(x), b}, {1}));
  }
  ComplexParts turned(const ComplexParts& x, const Turn& by);
  Pieces transformed(const Pieces& x, bool is_inverse);

  ComplexParts from_pieces(const ComplexParts& x, std::int64_t n, std::int64_t a, std::int64_t kept,
                           bool is_inverse);
  Id real_from_pieces(const ComplexParts& x, std::int64_t n, std::int64_t a);
  ComplexParts in_two_steps(const ComplexParts& x, std::int64_t n, bool is_inverse);
  ComplexParts by_convolution(const ComplexParts& x, std::int64_t n, bool is_inverse);

  GraphEditor& edit_;
  ComplexArithmetic math_;
};

/// Where a part of the result fills the lanes, both parts are one product.
ComplexParts RowTransform::direct(const ComplexParts& x, std::int64_t n, std::int64_t kept,
                                  bool is_inverse) {
  const auto entry = [&](std::int64_t i, std::int64_t j) {
    return turn(is_inverse ? n - i * j % n : i * j, n);
  };
  if (2 * kept <= kTableColumns) {
    return math_.product(dot_of(x.real, kept), x, complex_table(n, kept, entry));
  }
  const std::int64_t columns = round_up(kept, kTableColumns);
  const auto of_part = [&](Id part, bool is_imaginary) {
    return product(part, table(n, 2 * columns, [&](std::int64_t i, std::int64_t j) {
                     const std::int64_t column = j % columns;
                     if (column >= kept) return 0.0;
                     const Turn t = entry(i, column);
                     if (j < columns) return is_imaginary ? -t.sine : t.cosine;
                     return is_imaginary ? t.cosine : t.sine;
                   }));
  };
  Id both = of_part(x.real, false);
  if (!math_.is_zero(x.imaginary)) {
    both = edit_.binary(HloOpcode::kAdd, both, of_part(x.imaginary, true));
  }
  const auto half = [&](std::int64_t from) {
    return edit_.slice(both, {0, from}, {rows(x), from + kept});
  };
  return {half(0), half(columns)};
}

/// Of a transform.
Id RowTransform::real_part(const ComplexParts& x, std::int64_t n, bool is_inverse) {
  if (way_of(rows(x), n).pieces > 1 || n > kLongestTable) return whole(x, n, is_inverse).real;
  const auto entry = [&](std::int64_t i, std::int64_t j) {
    return turn(is_inverse ? n - i * j % n : i * j, n);
  };
  const Id real = product(
      x.real, table(n, n, [&](std::int64_t i, std::int64_t j) { return entry(i, j).cosine; }));
  if (math_.is_zero(x.imaginary)) return real;
  return edit_.binary(HloOpcode::kAdd, real,
                      product(x.imaginary, table(n, n, [&](std::int64_t i, std::int64_t j) {
                                return -entry(i, j).sine;
                              })));
}

/// By one number on the unit circle; those that are 0, 1 or -1 take no product.
ComplexParts RowTransform::turned(const ComplexParts& x, const Turn& by) {
  constexpr double kNothing = 1e-12;
  const auto scaled = [&](Id a, double factor) {
    if (math_.is_zero(a) || std::abs(factor - 1) < kNothing) return a;
    if (std::abs(factor + 1) < kNothing) return edit_.unary(HloOpcode::kNegate, a);
    if (std::abs(factor) < kNothing) {
      return edit_.splat(ElementType::kF32, edit_.dimensions(a), 0);
    }
    return edit_.binary_with(HloOpcode::kMultiply, a, factor);
  };
  const ComplexParts along{scaled(x.real, by.cosine), scaled(x.imaginary, by.cosine)};
  const ComplexParts across{scaled(x.imaginary, -by.sine), scaled(x.real, by.sine)};
  return math_.add(along, across);
}

/// The transform across pieces of equal extents, element by element.
RowTransform::Pieces RowTransform::transformed(const Pieces& x, bool is_inverse) {
  const auto n = static_cast<std::int64_t>(x.size());
  const auto entry = [&](std::int64_t times) {
    return turn(is_inverse ? n - times % n : times, n);
  };
  std::int64_t p = 2;
  while (n > 1 && n % p != 0) ++p;
  Pieces result(x.size());
  if (n == 1) return x;
  if (p == n) {
    for (std::int64_t k = 0; k < n; ++k) {
      ComplexParts sum = x[0];
      for (std::int64_t j = 1; j < n; ++j) {
        sum = math_.add(sum, turned(x[static_cast<std::size_t>(j)], entry(j * k)));
      }
      result[static_cast<std::size_t>(k)] = sum;
    }
    return result;
  }
  const std::int64_t q = n / p;
  std::vector<Pieces> parts;
  for (std::int64_t j = 0; j < p; ++j) {
    Pieces own;
    for (std::int64_t i = j; i < n; i += p) own.push_back(x[static_cast<std::size_t>(i)]);
    parts.push_back(transformed(own, is_inverse));
    for (std::int64_t k = 0; k < q; ++k) {
      ComplexParts& value = parts.back()[static_cast<std::size_t>(k)];
      value = turned(value, entry(j * k));
    }
  }
  for (std::int64_t k = 0; k < q; ++k) {
    Pieces across;
    for (const Pieces& part : parts) across.push_back(part[static_cast<std::size_t>(k)]);
    const Pieces found = transformed(across, is_inverse);
    for (std::int64_t i = 0; i < p; ++i) {
      result[static_cast<std::size_t>(k + q * i)] = found[static_cast<std::size_t>(i)];
    }
  }
  return result;
}

/// Cooley and Tukey: transforms of the elements a * j1 + j2 by j1, a rotation of each, and across
/// them; its piece k1 has the elements k2 + b * k1, of which the first `kept` are wanted.
ComplexParts RowTransform::from_pieces(const ComplexParts& x, std::int64_t n, std::int64_t a,
                                       std::int64_t kept, bool is_inverse) {
  const std::int64_t r = rows(x), b = n / a;
  const ComplexParts split = transposed(reshaped(x, {r, b, a}), {2, 0, 1});
  const ComplexParts found = whole(reshaped(split, {a * r, b}), b, is_inverse);
  Pieces pieces;
  for (std::int64_t j = 0; j < a; ++j) {
    const ComplexParts piece = each(found, [&](Id part) {
      return edit_.slice(part, {j * r, 0}, {(j + 1) * r, b});
    });
    pieces.push_back(rotated(piece, j, n, is_inverse));
  }
  pieces = transformed(pieces, is_inverse);
  pieces.resize(static_cast<std::size_t>(ceil_divide(kept, b)));
  const std::int64_t last = kept - b * (ceil_divide(kept, b) - 1);
  if (last < b) pieces.back() = part(pieces.back(), 0, last);
  return joined(pieces, 1);
}

/// The other way round: across pieces j1 of the elements b * j1 + j2, a rotation, transforms by j2
/// of which the real part is wanted: elements k1 + a * k2. What is not given is 0.
Id RowTransform::real_from_pieces(const ComplexParts& x, std::int64_t n, std::int64_t a) {
  const std::int64_t r = rows(x), b = n / a, given = edit_.dimensions(x.real)[1];
  const std::int64_t count = ceil_divide(given, b);
  const ComplexParts padded = each(x, [&](Id value) {
    return edit_.pad_high(value, {0, count * b - given});
  });
  const Id zero = edit_.splat(ElementType::kF32, {r, b}, 0);
  Pieces pieces(static_cast<std::size_t>(a), ComplexParts{zero, zero});
  for (std::int64_t j = 0; j < count; ++j) {
    pieces[static_cast<std::size_t>(j)] = part(padded, j * b, (j + 1) * b);
  }
  pieces = transformed(pieces, true);
  for (std::int64_t k = 0; k < a; ++k) {
    ComplexParts& piece = pieces[static_cast<std::size_t>(k)];
    piece = rotated(piece, k, n, true);
  }
  const Id found = real_part(joined(pieces, 0), b, true);
  return edit_.reshape(edit_.transpose(edit_.reshape(found, {a, r, b}), {1, 2, 0}), {r, n});
}

/// The same where both factors are long.
ComplexParts RowTransform::in_two_steps(const ComplexParts& x, std::int64_t n, bool is_inverse) {
  const std::int64_t r = rows(x), b = first_factor(n), a = n / b;
  ComplexParts y = transposed(reshaped(x, {r, b, a}), {0, 2, 1});
  y = reshaped(whole(reshaped(y, {r * a, b}), b, is_inverse), {r, a, b});
  const ComplexParts rotation = complex_table(a, b, [&](std::int64_t i, std::int64_t j) {
    return turn(is_inverse ? n - i * j % n : i * j, n);
  });
  y = math_.multiply(y, spread(rotation, {r, a, b}, {1, 2}));
  y = reshaped(transposed(y, {0, 2, 1}), {r * b, a});
  y = reshaped(whole(y, a, is_inverse), {r, b, a});
  return reshaped(transposed(y, {0, 2, 1}), {r, n});
}

/// Bluestein: with j k = (j^2 + k^2 - (k - j)^2) / 2 a convolution with w^(j^2 / 2).
ComplexParts RowTransform::by_convolution(const ComplexParts& x, std::int64_t n, bool is_inverse) {
  const std::int64_t r = rows(x);
  std::int64_t m = 1;
  while (m < 2 * n - 1) m *= 2;
  const auto chirp = [&](std::int64_t j) {
    const Turn found = turn(j * j % (2 * n), 2 * n);
    return is_inverse ? Turn{found.cosine, -found.sine} : found;
  };
  const ComplexParts own =
      spread(each(complex_table(1, n, [&](std::int64_t, std::int64_t j) { return chirp(j); }),
                  [&](Id a) { return edit_.reshape(a, {n}); }),
             {r, n}, {1});
  const auto back = [&](std::int64_t, std::int64_t j) {
    const std::int64_t distance = j < n ? j : m - j;
    if (distance >= n) return Turn{0, 0};
    return Turn{chirp(distance).cosine, -chirp(distance).sine};
  };
  const ComplexParts padded = each(math_.multiply(x, own), [&](Id a) {
    return edit_.pad_high(a, {0, m - n});
  });
  const ComplexParts filter =
      each(whole(complex_table(1, m, back), m, false), [&](Id a) { return edit_.reshape(a, {m}); });
  const ComplexParts product = math_.multiply(whole(padded, m, false), spread(filter, {r, m}, {1}));
  const ComplexParts found = each(part(whole(product, m, true), 0, n), [&](Id a) {
    return edit_.binary_with(HloOpcode::kMultiply, a, 1.0 / static_cast<double>(m));
  });
  return math_.multiply(found, own);
}

Id RowTransform::to_real(const ComplexParts& x, std::int64_t n) {
  const std::int64_t kept = n / 2 + 1;
  // All but the first number, and the last of an even length, stand for two.
  const auto weight = [&](std::int64_t k) { return k == 0 || 2 * k == n ? 1.0 : 2.0; };
  const Way way = way_of(rows(x), n);
  if (way.pieces == 1 && n <= kLongestTable) {
    const auto of_part = [&](Id part, const std::function<double(const Turn&)>& of) {
      return product(part, table(kept, n, [&](std::int64_t k, std::int64_t j) {
                       return weight(k) * of(turn(k * j, n));
                     }));
    };
    const Id real = of_part(x.real, [](const Turn& t) { return t.cosine; });
    if (math_.is_zero(x.imaginary)) return real;
    return edit_.binary(HloOpcode::kAdd, real,
                        of_part(x.imaginary, [](const Turn& t) { return t.sine; }));
  }
  const Id weights = edit_.reshape(
      table(1, kept, [&](std::int64_t, std::int64_t k) { return weight(k); }), {kept});
  const ComplexParts weighed = each(x, [&](Id a) {
    if (math_.is_zero(a)) return a;
    return edit_.binary(HloOpcode::kMultiply, a,
                        edit_.broadcast(weights, edit_.dimensions(a), {1}));
  });
  if (way.pieces > 1) return real_from_pieces(weighed, n, way.pieces);
  const auto all = [&](Id a) { return edit_.pad_high(a, {0, n - kept}); };
  return whole(each(weighed, all), n, true).real;
}

/// `fft_length={4,8}`.
Extents lengths_of(const HloInstruction& fft) {
  const std::string& text = fft.raw_attributes.get();
  constexpr std::string_view kName = "fft_length=";
  const std::size_t at = text.find(kName);
  Extents lengths;
  if (at != std::string::npos) {
    TokenCursor cursor(text, fft.name, TokenCursor::Places::kPartOfIt);
    cursor.move_to(text.data() + at + kName.size());
    lengths = cursor.whole_numbers('{', '}', "a length");
  }
  if (lengths.empty() || static_cast<std::int64_t>(lengths.size()) > fft.shape.rank()) {
    throw WorkloadError(fft.name +
                        ": expected fft_length={...} with as many numbers as dimensions "
                        "are transformed, found " +
                        text);
  }
  return lengths;
}

/// One dimension after the other; the operation in terms of transforms of rows.
class Transform {
 public:
  Transform(GraphEditor& edit, const HloInstruction& fft)
      : edit_(edit), rows_(edit), name_(fft.name), lengths_(lengths_of(fft)) {
    const std::string& text = fft.raw_attributes.get();
    const auto is = [&](const char* type) {
      return text.find(std::string("fft_type=") + type) != std::string::npos;
    };
    from_real_ = is("RFFT");
    to_real_ = is("IRFFT");
    is_inverse_ = to_real_ || is("IFFT");
    if (!from_real_ && !is_inverse_ && !is("FFT")) {
      throw WorkloadError(fft.name + ": expected fft_type=FFT, IFFT, RFFT or IRFFT, found " + text);
    }
  }

  ComplexParts of(ComplexParts x) {
    const auto rank = static_cast<std::int64_t>(edit_.dimensions(x.real).size());
    const auto first = rank - static_cast<std::int64_t>(lengths_.size());
    const std::int64_t last = rank - 1;
    if (from_real_) x = along(x, last);
    for (std::int64_t d = from_real_ || to_real_ ? last - 1 : last; d >= first; --d) {
      x = along(x, d);
    }
    if (to_real_) x = along(x, last);
    if (!is_inverse_) return x;
    double count = 1;
    for (const std::int64_t length : lengths_) count *= static_cast<double>(length);
    const auto divided = [&](Id a) {
      return ComplexArithmetic(edit_).is_zero(a)
                 ? a
                 : edit_.binary_with(HloOpcode::kMultiply, a, 1 / count);
    };
    return {divided(x.real), divided(x.imaginary)};
  }

 private:
  ComplexParts along(const ComplexParts& x, std::int64_t dimension) {
    const Extents extents = edit_.dimensions(x.real);
    const auto rank = static_cast<std::int64_t>(extents.size());
    Extents order, back(extents.size()), moved;
    for (std::int64_t d = 0; d < rank; ++d) {
      if (d != dimension) order.push_back(d);
    }
    order.push_back(dimension);
    std::int64_t count = 1;
    for (std::size_t i = 0; i < order.size(); ++i) {
      back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
      moved.push_back(extents[static_cast<std::size_t>(order[i])]);
      if (i + 1 < order.size()) count *= moved.back();
    }
    const auto as_rows = [&](Id a) {
      return edit_.reshape(edit_.transpose(a, order), {count, moved.back()});
    };
    const ComplexParts found =
        row_transform({as_rows(x.real), as_rows(x.imaginary)}, dimension, rank);
    moved.back() = edit_.dimensions(found.real)[1];
    const auto as_given = [&](Id a) { return edit_.transpose(edit_.reshape(a, moved), back); };
    return {as_given(found.real), as_given(found.imaginary)};
  }
  ComplexParts row_transform(const ComplexParts& x, std::int64_t dimension, std::int64_t rank) {
    const std::size_t place = lengths_.size() - static_cast<std::size_t>(rank - dimension);
    const std::int64_t n = lengths_[place];
    const bool is_last = dimension == rank - 1;
    const std::int64_t expected = is_last && to_real_ ? n / 2 + 1 : n;
    if (edit_.dimensions(x.real)[1] != expected) {
      throw WorkloadError(name_ + ": expected a length of " +
                          std::to_string(edit_.dimensions(x.real)[1]) + " in fft_length, found " +
                          std::to_string(n));
    }
    if (is_last && from_real_) return rows_.of_real(x.real, n);
    if (is_last && to_real_) return ComplexArithmetic(edit_).from_real(rows_.to_real(x, n));
    return rows_.whole(x, n, is_inverse_);
  }

  GraphEditor& edit_;
  RowTransform rows_;
  std::string name_;
  Extents lengths_;
  bool from_real_ = false, to_real_ = false, is_inverse_ = false;
};

}  // namespace

ComplexParts fourier_transform(GraphEditor& edit, const HloInstruction& fft,
                               const ComplexParts& operand) {
  return Transform(edit, fft).of(operand);
}

}  // namespace tpu::compiler
