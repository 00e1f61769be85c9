#include "workloads/compiler/passes/simplify/element_orders.h"

#include <algorithm>
#include <numeric>

namespace tpu::compiler {

namespace {

using Extents = GraphEditor::Extents;

/// For each run, how far apart its elements stand in the rearranged array.
Extents places_of(const ElementOrder& order) {
  Extents places(order.size());
  std::int64_t place = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    places[i] = place;
    place *= order[i].extent;
  }
  return places;
}

/// Runs, from major to minor, cut where dimensions of the rearranged array end.
std::optional<std::vector<ElementPiece>> cut_at_dimensions(const ElementOrder& order,
                                                           const Extents& extents) {
  std::vector<ElementPiece> pieces;
  ElementOrder left = order;
  for (std::size_t d = extents.size(); d-- > 0;) {
    std::int64_t missing = extents[d];
    while (missing > 1) {
      if (left.empty()) return std::nullopt;
      ElementRun& run = left.back();
      const std::int64_t taken = std::min(missing, run.extent);
      if (missing % taken != 0 || run.extent % taken != 0) return std::nullopt;
      if (taken > 1) pieces.push_back({taken, run.stride, d, 0});
      missing /= taken;
      run.extent /= taken;
      run.stride *= taken;
      if (run.extent == 1) left.pop_back();
    }
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

/// A piece cut where dimensions of the other array end, from major to minor, at the end of a list.
bool cut_at_sources(const ElementPiece& piece, const Extents& from,
                    std::vector<ElementPiece>& pieces) {
  const std::size_t begin = pieces.size();
  ElementPiece left = piece;
  std::int64_t stride = 1;
  for (std::size_t s = from.size(); s-- > 0 && left.extent > 1; stride *= from[s]) {
    const std::int64_t end = stride * from[s];
    if (left.stride >= end) continue;
    if (left.stride % stride != 0 || end % left.stride != 0) return false;
    const std::int64_t taken = std::min(left.extent, end / left.stride);
    if (left.extent % taken != 0) return false;
    pieces.push_back({taken, left.stride, left.dimension, s});
    left.extent /= taken;
    left.stride *= taken;
  }
  std::reverse(pieces.begin() + static_cast<std::ptrdiff_t>(begin), pieces.end());
  return left.extent == 1;
}

}  // namespace

ElementOrder same_order(std::int64_t elements) { return joined_runs({{elements, 1}}); }

bool is_same_order(const ElementOrder& order) {
  const ElementOrder joined = joined_runs(order);
  return joined.empty() || (joined.size() == 1 && joined[0].stride == 1);
}

ElementOrder joined_runs(const ElementOrder& order) {
  ElementOrder joined;
  for (const ElementRun& run : order) {
    if (run.extent == 1) continue;
    if (!joined.empty() && joined.back().stride == run.extent * run.stride) {
      joined.back() = {joined.back().extent * run.extent, run.stride};
    } else {
      joined.push_back(run);
    }
  }
  return joined;
}

std::optional<std::vector<ElementPiece>> pieces_of(const ElementOrder& order,
                                                   const Extents& extents, const Extents& from) {
  const auto cut = cut_at_dimensions(joined_runs(order), extents);
  if (!cut) return std::nullopt;
  std::vector<ElementPiece> pieces;
  for (const ElementPiece& piece : *cut) {
    if (!cut_at_sources(piece, from, pieces)) return std::nullopt;
  }
  return pieces;
}

std::optional<ElementOrder> transposed(const ElementOrder& order, const Extents& extents,
                                       const Extents& permutation) {
  const auto pieces = cut_at_dimensions(joined_runs(order), extents);
  if (!pieces) return std::nullopt;
  ElementOrder result;
  for (std::int64_t d : permutation) {
    for (const ElementPiece& piece : *pieces) {
      if (piece.dimension == static_cast<std::size_t>(d)) {
        result.push_back({piece.extent, piece.stride});
      }
    }
  }
  return joined_runs(result);
}

ElementOrder inverse(const ElementOrder& order) {
  const ElementOrder runs = joined_runs(order);
  const Extents places = places_of(runs);
  std::vector<std::size_t> by_stride(runs.size());
  std::iota(by_stride.begin(), by_stride.end(), 0);
  std::sort(by_stride.begin(), by_stride.end(),
            [&](std::size_t a, std::size_t b) { return runs[a].stride > runs[b].stride; });
  ElementOrder result;
  for (std::size_t i : by_stride) result.push_back({runs[i].extent, places[i]});
  return joined_runs(result);
}

std::optional<ElementOrder> composed(const ElementOrder& outer, const ElementOrder& inner) {
  const ElementOrder runs = joined_runs(inner);
  const Extents places = places_of(runs);
  Extents between;
  for (const ElementRun& run : runs) between.push_back(run.extent);
  ElementOrder result;
  for (const ElementRun& run : joined_runs(outer)) {
    std::vector<ElementPiece> pieces;
    if (!cut_at_sources({run.extent, run.stride, 0, 0}, between, pieces)) return std::nullopt;
    for (const ElementPiece& piece : pieces) {
      result.push_back(
          {piece.extent, piece.stride / places[piece.source] * runs[piece.source].stride});
    }
  }
  return joined_runs(result);
}

hlo::InstructionId rearrange(GraphEditor& editor, hlo::InstructionId value,
                             const ElementOrder& order, const Extents& extents) {
  // Whole dimensions of both arrays stay dimensions.
  ElementOrder runs = joined_runs(order);
  if (const auto pieces = pieces_of(order, extents, editor.dimensions(value))) {
    runs.clear();
    for (const ElementPiece& piece : *pieces) runs.push_back({piece.extent, piece.stride});
  }
  const auto reshaped = [&](const Extents& to) {
    if (editor.dimensions(value) != to) value = editor.reshape(value, to);
  };
  if (!is_same_order(runs)) {
    std::vector<std::size_t> by_stride(runs.size());
    std::iota(by_stride.begin(), by_stride.end(), 0);
    std::sort(by_stride.begin(), by_stride.end(),
              [&](std::size_t a, std::size_t b) { return runs[a].stride > runs[b].stride; });
    Extents split, permutation(runs.size());
    for (std::size_t i = 0; i < by_stride.size(); ++i) {
      split.push_back(runs[by_stride[i]].extent);
      permutation[by_stride[i]] = static_cast<std::int64_t>(i);
    }
    reshaped(split);
    value = editor.transpose(value, permutation);
  }
  reshaped(extents);
  return value;
}

}  // namespace tpu::compiler
