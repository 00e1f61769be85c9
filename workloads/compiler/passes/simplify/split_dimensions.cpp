#include "workloads/compiler/passes/simplify/split_dimensions.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

using Extents = GraphEditor::Extents;

/// Values between the two arrays, at most.
constexpr std::size_t kMostValuesBetween = 64;

std::int64_t product(Extents::const_iterator begin, Extents::const_iterator end) {
  return std::accumulate(begin, end, std::int64_t{1}, std::multiplies<>());
}

class WholeArraySearch {
 public:
  WholeArraySearch(const hlo::Computation& computation, InstructionId value, std::int64_t dimension)
      : computation_(computation),
        extents_(computation.at(value).shape.dimensions),
        dimension_(static_cast<std::size_t>(dimension)) {}

  std::optional<WholeArray> from(InstructionId id, const ElementOrder& order, bool is_computed);

 private:
  std::optional<WholeArray> split_of(InstructionId id, const ElementOrder& order) const;

  const hlo::Computation& computation_;
  const Extents& extents_;
  std::size_t dimension_;
  std::set<InstructionId> seen_;
};

/// Whether the dimension is a part of one of this array.
std::optional<WholeArray> WholeArraySearch::split_of(InstructionId id,
                                                     const ElementOrder& order) const {
  const Extents& whole = computation_.at(id).shape.dimensions;
  const auto pieces = pieces_of(order, extents_, whole);
  if (!pieces) return std::nullopt;
  const auto is_ours = [&](const ElementPiece& piece) { return piece.dimension == dimension_; };
  if (std::count_if(pieces->begin(), pieces->end(), is_ours) != 1) return std::nullopt;
  const ElementPiece& piece = *std::find_if(pieces->begin(), pieces->end(), is_ours);
  const std::int64_t extent = whole[piece.source];
  if (piece.extent == extent) return std::nullopt;
  WholeArray found;
  found.source = id;
  found.extents = whole;
  found.order = order;
  found.dimension = piece.source;
  const auto place = whole.begin() + static_cast<std::ptrdiff_t>(piece.source);
  found.before = product(whole.begin(), place);
  found.behind = product(place + 1, whole.end());
  found.size = piece.extent;
  found.inner = piece.stride / found.behind;
  found.parts = extent / (found.size * found.inner);
  if (found.parts * found.size * found.inner != extent) return std::nullopt;
  const auto split = found.split(found.size);
  const Extents from(split.begin(), split.end());
  auto parts = pieces_of(order, extents_, from);
  if (!parts) return std::nullopt;
  for (ElementPiece& part : *parts) {
    part.stride /= product(from.begin() + static_cast<std::ptrdiff_t>(part.source) + 1, from.end());
  }
  found.pieces = std::move(*parts);
  return found;
}

std::optional<WholeArray> WholeArraySearch::from(InstructionId id, const ElementOrder& order,
                                                 bool is_computed) {
  if (seen_.size() >= kMostValuesBetween || !seen_.insert(id).second) return std::nullopt;
  if (auto found = split_of(id, order)) {
    found->is_computed = is_computed;
    return found;
  }
  const HloInstruction& made = computation_.at(id);
  if (made.opcode == HloOpcode::kReshape) return from(made.operands[0], order, is_computed);
  if (made.opcode == HloOpcode::kTranspose) {
    const hlo::Shape& before = computation_.at(made.operands[0]).shape;
    const auto turned =
        transposed(same_order(before.element_count()), before.dimensions, made.dimensions);
    const auto all = turned ? composed(order, *turned) : std::nullopt;
    return all ? from(made.operands[0], *all, is_computed) : std::nullopt;
  }
  if (!hlo::is_elementwise(made.opcode)) return std::nullopt;
  for (const InstructionId operand : made.operands) {
    if (computation_.at(operand).shape.dimensions != made.shape.dimensions) continue;
    if (auto found = from(operand, order, true)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<WholeArray> whole_array_of(const hlo::Computation& computation, InstructionId value,
                                         std::int64_t dimension) {
  const hlo::Shape& shape = computation.at(value).shape;
  return WholeArraySearch(computation, value, dimension)
      .from(value, same_order(shape.element_count()), false);
}

}  // namespace tpu::compiler
