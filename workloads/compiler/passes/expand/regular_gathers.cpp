#include "workloads/compiler/passes/expand/regular_gathers.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"
#include "workloads/compiler/passes/simplify/known_values.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;
using Numbers = KnownValues::Numbers;

constexpr std::size_t kMostTablePieces = 16;
constexpr std::int64_t kMostFrameParts = 16;
/// From here on what lies between rows is not worth reading, where they are few.
constexpr std::int64_t kDistantRows = 128;

/// Indices first, first + step ..., each `repeat` times.
struct TablePiece {
  std::int64_t first = 0, step = 1, count = 1, repeat = 1;
  std::int64_t indices() const { return count * repeat; }
  std::int64_t least() const { return std::min(first, first + (count - 1) * step); }
};

/// The longest piece of indices from `begin` on, each as often as the first.
TablePiece piece_from(const std::vector<std::int64_t>& indices, std::size_t begin) {
  const auto run = [&](std::size_t from) {
    std::size_t end = from;
    while (end < indices.size() && indices[end] == indices[from]) ++end;
    return static_cast<std::int64_t>(end - from);
  };
  TablePiece piece;
  piece.first = indices[begin];
  piece.repeat = run(begin);
  for (;;) {
    const std::size_t next = begin + static_cast<std::size_t>(piece.indices());
    if (next >= indices.size() || run(next) < piece.repeat) return piece;
    const std::int64_t step = indices[next] - (piece.first + (piece.count - 1) * piece.step);
    if (piece.count > 1 ? step != piece.step : step == 0) return piece;
    piece.step = step;
    ++piece.count;
  }
}

/// Frames: of `count` the i-th has the `length` indices from first + hop * i on.
struct Frames {
  std::int64_t first = 0, hop = 1, count = 1, length = 1;
  /// Each is so many parts as long as the hop, the last one maybe cut.
  std::int64_t parts() const { return ceil_divide(length, hop); }
  /// Parts from the first index to the end of the last frame.
  std::int64_t all_parts() const { return count + parts() - 1; }
};

/// None: they are no frames that overlap or leave gaps, or of too many parts.
std::optional<Frames> frames_of(const std::vector<std::int64_t>& indices) {
  const auto total = static_cast<std::int64_t>(indices.size());
  Frames frames;
  frames.first = indices[0];
  const auto at = [&](std::int64_t i) { return indices[static_cast<std::size_t>(i)]; };
  while (frames.length < total && at(frames.length) == frames.first + frames.length) {
    ++frames.length;
  }
  if (frames.length == total || frames.length == 1 || total % frames.length != 0) {
    return std::nullopt;
  }
  frames.count = total / frames.length;
  frames.hop = at(frames.length) - frames.first;
  if (frames.hop < 1 || frames.parts() > kMostFrameParts) return std::nullopt;
  for (std::int64_t i = 0; i < total; ++i) {
    const std::int64_t frame = i / frames.length;
    if (at(i) != frames.first + frames.hop * frame + i % frames.length) return std::nullopt;
  }
  return frames;
}

/// What is known of the indices of a gather or scatter along one dimension.
struct RegularIndices {
  std::vector<TablePiece> pieces;
  std::optional<Frames> frames;  ///< In place of pieces.
};

/// A part of an array whose place the program states.
struct Window {
  Extents starts, sizes;
  Extents limits() const {
    Extents ends = starts;
    for (std::size_t d = 0; d < ends.size(); ++d) ends[d] += sizes[d];
    return ends;
  }
};

class RegularGathers {
 public:
  explicit RegularGathers(hlo::Module& module) : module_(module), edit_(module), known_(module) {}

  void run() {
    const std::size_t count = entry().instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      const HloOpcode opcode = entry().instructions[i].opcode;
      if (opcode == HloOpcode::kGather) visit_gather(static_cast<Id>(i));
      if (opcode == HloOpcode::kScatter) visit_scatter(static_cast<Id>(i));
      if (opcode == HloOpcode::kDynamicSlice || opcode == HloOpcode::kDynamicUpdateSlice) {
        visit_dynamic(static_cast<Id>(i));
      }
    }
    if (entry().instructions.size() > count) tidy(module_.entry_computation());
  }

 private:
  const hlo::Computation& entry() const { return module_.entry_computation(); }
  void visit_gather(Id id);
  void visit_scatter(Id id);
  void visit_dynamic(Id id);
  bool visit_one_window(Id id);
  Extents window_sizes(const HloInstruction& instruction) const;
  std::optional<Window> window_of(const HloInstruction& instruction);
  bool may_be_written(const HloInstruction& update, const Window& window) const;
  Id updated(Id array, Id update, const Window& window);
  Id joined(Id array, Id update, std::int64_t dimension, const Window& window);
  Id padded(Id update, const Extents& extents, const Window& window, double fill);
  Id is_inside(const Extents& extents, const Window& window);
  Extents with_joined_indices(const HloInstruction& instruction, const Extents& rows) const;
  std::optional<RegularIndices> regular_indices(const HloInstruction& instruction,
                                                const Extents& rows);
  std::int64_t place_of_indices(const HloInstruction& instruction, std::int64_t rank) const;
  Id framed(Id array, std::int64_t dimension, const Frames& frames);
  Id unframed(Id updates, std::int64_t dimension, const Frames& frames, std::int64_t extent);
  Id gathered(Id array, std::int64_t dimension, const TablePiece& piece);
  Id scattered(Id updates, std::int64_t dimension, const TablePiece& piece, std::int64_t extent);
  Id moved(Id value, std::int64_t from, std::int64_t to);

  hlo::Module& module_;
  GraphEditor edit_;
  KnownValues known_;
};

/// Extents of what is gathered, or of updates, with all dimensions of the indices as one; none:
/// they do not follow each other.
Extents RegularGathers::with_joined_indices(const HloInstruction& instruction,
                                            const Extents& rows) const {
  const auto rank = static_cast<std::int64_t>(rows.size());
  const std::int64_t indices =
      rank - static_cast<std::int64_t>(instruction.gather->offset_dims.size());
  const std::int64_t first = place_of_indices(instruction, rank);
  if (indices < 1 || first + indices > rank) return {};
  const Extents& offsets = instruction.gather->offset_dims;
  Extents joined = rows;
  for (std::int64_t d = first + 1; d < first + indices; ++d) {
    if (std::find(offsets.begin(), offsets.end(), d) != offsets.end()) return {};
    joined[static_cast<std::size_t>(first)] *= rows[static_cast<std::size_t>(d)];
  }
  joined.erase(joined.begin() + first + 1, joined.begin() + first + indices);
  return joined;
}

/// The order of the indices of a gather or scatter of whole slices along one dimension; none for
/// others. `rows`: extents of what is gathered, or of the updates, with joined indices.
std::optional<RegularIndices> RegularGathers::regular_indices(const HloInstruction& instruction,
                                                              const Extents& rows) {
  const hlo::GatherDimensions& dims = instruction.gather;
  const Extents array = edit_.dimensions(instruction.operands[0]);
  const hlo::Shape index_shape = edit_.shape(instruction.operands[1]);
  if (dims.start_index_map.size() != 1 || dims.collapsed_slice_dims != dims.start_index_map ||
      rows.size() != array.size() || dims.offset_dims.size() + 1 != array.size() ||
      index_shape.element_count() == 0) {
    return std::nullopt;
  }
  const std::int64_t dimension = dims.start_index_map[0];
  Extents slice = rows, whole = array;
  slice.erase(slice.begin() +
              place_of_indices(instruction, static_cast<std::int64_t>(rows.size())));
  whole.erase(whole.begin() + dimension);
  if (slice != whole) return std::nullopt;
  const Numbers& numbers = known_.of(instruction.operands[1]);
  if (!numbers) return std::nullopt;
  std::vector<std::int64_t> indices;
  for (double number : *numbers) {
    if (number < 0 || number >= double(array[static_cast<std::size_t>(dimension)])) {
      return std::nullopt;
    }
    indices.push_back(static_cast<std::int64_t>(number));
  }
  RegularIndices found;
  for (std::size_t at = 0; at < indices.size();
       at += static_cast<std::size_t>(found.pieces.back().indices())) {
    if (found.pieces.size() == kMostTablePieces) {
      found.frames = frames_of(indices);
      if (!found.frames) return std::nullopt;
      return found;
    }
    found.pieces.push_back(piece_from(indices, at));
  }
  return found;
}

/// Which dimension of what is gathered, or of updates, counts the indices.
std::int64_t RegularGathers::place_of_indices(const HloInstruction& instruction,
                                              std::int64_t rank) const {
  const Extents& offsets = instruction.gather->offset_dims;
  std::int64_t place = 0;
  while (place + 1 < rank && std::find(offsets.begin(), offsets.end(), place) != offsets.end()) {
    ++place;
  }
  return place;
}

Id RegularGathers::moved(Id value, std::int64_t from, std::int64_t to) {
  Extents order(edit_.dimensions(value).size());
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return edit_.transpose(value, order);
}

Id RegularGathers::gathered(Id array, std::int64_t d, const TablePiece& piece) {
  const std::int64_t distance = std::max<std::int64_t>(1, std::abs(piece.step));
  Id value = -1;
  if (distance >= kDistantRows && piece.count <= static_cast<std::int64_t>(kMostTablePieces)) {
    std::vector<Id> rows;
    for (std::int64_t i = 0; i < piece.count; ++i) {
      rows.push_back(edit_.take(array, d, piece.first + i * piece.step, 1, 1));
    }
    value = edit_.concatenate(rows, d);
  } else {
    value = edit_.take(array, d, piece.least(), piece.count, distance);
    if (piece.step < 0) value = edit_.reverse(value, d);
  }
  if (piece.repeat == 1) return value;
  Extents extents = edit_.dimensions(value), places(extents.size());
  std::iota(places.begin(), places.end(), 0);
  for (std::int64_t& place : places) place += place > d ? 1 : 0;
  extents.insert(extents.begin() + d + 1, piece.repeat);
  value = edit_.broadcast(value, extents, places);
  extents.erase(extents.begin() + d + 1);
  extents[static_cast<std::size_t>(d)] *= piece.repeat;
  return edit_.reshape(value, extents);
}

/// Where the updates of a piece go in an array of `extent`, zeros elsewhere, in f32.
Id RegularGathers::scattered(Id updates, std::int64_t d, const TablePiece& piece,
                             std::int64_t extent) {
  Id value = edit_.convert(updates, ElementType::kF32);
  if (piece.repeat > 1) {
    Extents extents = edit_.dimensions(value);
    extents[static_cast<std::size_t>(d)] = piece.count;
    extents.insert(extents.begin() + d + 1, piece.repeat);
    value = edit_.reduce(edit_.reshape(value, extents), HloOpcode::kAdd, {d + 1}, 0);
  }
  if (piece.step < 0) value = edit_.reverse(value, d);
  const std::int64_t distance = std::max<std::int64_t>(1, std::abs(piece.step));
  std::vector<hlo::PaddingDimension> padding(edit_.dimensions(value).size());
  padding[static_cast<std::size_t>(d)] = {
      piece.least(), extent - piece.least() - (piece.count - 1) * distance - 1, distance - 1};
  return edit_.pad(value, padding);
}

/// The array cut into parts as long as the hop; frames are as many parts one after the other.
Id RegularGathers::framed(Id array, std::int64_t d, const Frames& frames) {
  const auto at = static_cast<std::size_t>(d);
  Extents extents = edit_.dimensions(array);
  const std::int64_t length = frames.all_parts() * frames.hop;
  const std::int64_t there = std::min(length, extents[at] - frames.first);
  Id value = edit_.take(array, d, frames.first, there, 1);
  Extents missing(extents.size(), 0);
  missing[at] = length - there;
  value = edit_.pad_high(value, missing);
  extents[at] = frames.all_parts();
  extents.insert(extents.begin() + d + 1, frames.hop);
  value = edit_.reshape(value, extents);
  std::vector<Id> parts;
  for (std::int64_t i = 0; i < frames.parts(); ++i) {
    const std::int64_t width = std::min(frames.hop, frames.length - i * frames.hop);
    parts.push_back(edit_.take(edit_.take(value, d, i, frames.count, 1), d + 1, 0, width, 1));
  }
  value = edit_.concatenate(parts, d + 1);
  extents.erase(extents.begin() + d + 1);
  extents[at] = frames.count * frames.length;
  return edit_.reshape(value, extents);
}

/// The sum of frames where they lie in an array of `extent`, zeros elsewhere, in f32.
Id RegularGathers::unframed(Id updates, std::int64_t d, const Frames& frames, std::int64_t extent) {
  const auto at = static_cast<std::size_t>(d);
  Extents extents = edit_.dimensions(updates);
  extents[at] = frames.count;
  extents.insert(extents.begin() + d + 1, frames.length);
  const Id rows = edit_.reshape(edit_.convert(updates, ElementType::kF32), extents);
  Id sum = -1;
  for (std::int64_t i = 0; i < frames.parts(); ++i) {
    const std::int64_t width = std::min(frames.hop, frames.length - i * frames.hop);
    std::vector<hlo::PaddingDimension> around(extents.size());
    around[at] = {i, frames.parts() - 1 - i, 0};
    around[at + 1] = {0, frames.hop - width, 0};
    const Id part = edit_.pad(edit_.take(rows, d + 1, i * frames.hop, width, 1), around);
    sum = sum < 0 ? part : edit_.binary(HloOpcode::kAdd, sum, part);
  }
  extents.erase(extents.begin() + d + 1);
  const std::int64_t length = frames.all_parts() * frames.hop;
  extents[at] = length;
  const std::int64_t there = std::min(length, extent - frames.first);
  const Id value = edit_.take(edit_.reshape(sum, extents), d, 0, there, 1);
  std::vector<hlo::PaddingDimension> around(extents.size());
  around[at] = {frames.first, extent - frames.first - there, 0};
  return edit_.pad(value, around);
}

void RegularGathers::visit_gather(Id id) {
  const HloInstruction gather = entry().at(id);
  if (gather.shape.is_tuple() || gather.operands.size() != 2) return;
  if (visit_one_window(id)) return;
  const Extents rows = with_joined_indices(gather, gather.shape.dimensions);
  const std::optional<RegularIndices> indices = regular_indices(gather, rows);
  if (!indices) return;
  edit_.stand_for(id);
  const Id array = gather.operands[0];
  const std::int64_t dimension = gather.gather->start_index_map[0];
  Id found = -1;
  if (indices->frames) {
    found = framed(array, dimension, *indices->frames);
  } else {
    std::vector<Id> parts;
    for (const TablePiece& piece : indices->pieces) {
      parts.push_back(gathered(array, dimension, piece));
    }
    found = edit_.concatenate(parts, dimension);
  }
  found = moved(found, dimension, place_of_indices(gather, gather.shape.rank()));
  edit_.finish(edit_.reshape(found, gather.shape.dimensions));
}

void RegularGathers::visit_scatter(Id id) {
  const HloInstruction scatter = entry().at(id);
  if (scatter.shape.is_tuple() || scatter.operands.size() != 3 || visit_one_window(id)) return;
  const bool adds =
      combining_operation(module_.computation(scatter.called.at(0))) == HloOpcode::kAdd;
  const ElementType type = scatter.shape.type;
  if (!adds || (type != ElementType::kF32 && type != ElementType::kBf16)) return;
  const Extents updates = edit_.dimensions(scatter.operands[2]);
  const Extents extents = with_joined_indices(scatter, updates);
  const std::optional<RegularIndices> indices = regular_indices(scatter, extents);
  if (!indices) return;
  edit_.stand_for(id);
  const std::int64_t dimension = scatter.gather->start_index_map[0];
  const std::int64_t extent = scatter.shape.dimensions[static_cast<std::size_t>(dimension)];
  const Id rows =
      moved(edit_.reshape(scatter.operands[2], extents),
            place_of_indices(scatter, static_cast<std::int64_t>(updates.size())), dimension);
  Id sum = edit_.convert(scatter.operands[0], ElementType::kF32);
  if (indices->frames) {
    sum = edit_.binary(HloOpcode::kAdd, sum, unframed(rows, dimension, *indices->frames, extent));
    return edit_.finish(edit_.convert(sum, type));
  }
  std::int64_t begin = 0;
  for (const TablePiece& piece : indices->pieces) {
    const Id part = edit_.take(rows, dimension, begin, piece.indices(), 1);
    begin += piece.indices();
    sum = edit_.binary(HloOpcode::kAdd, sum, scattered(part, dimension, piece, extent));
  }
  edit_.finish(edit_.convert(sum, type));
}

/// Extents of what one index of a gather reads, or of a scatter writes, in the array's dimensions.
Extents RegularGathers::window_sizes(const HloInstruction& instruction) const {
  const hlo::GatherDimensions& dims = instruction.gather;
  if (instruction.opcode == HloOpcode::kGather) return dims.slice_sizes;
  const Extents& left_out = dims.collapsed_slice_dims;
  const Extents updates = edit_.dimensions(instruction.operands[2]);
  Extents sizes(edit_.dimensions(instruction.operands[0]).size(), 1);
  std::size_t offset = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const bool is_one =
        std::find(left_out.begin(), left_out.end(), static_cast<std::int64_t>(d)) != left_out.end();
    if (!is_one) sizes[d] = updates[static_cast<std::size_t>(dims.offset_dims[offset++])];
  }
  return sizes;
}

/// The window of a gather or scatter that has one index; none: it has more, data decides, or
/// nothing is scattered there. What is gathered is clamped into the array.
std::optional<Window> RegularGathers::window_of(const HloInstruction& instruction) {
  const hlo::GatherDimensions& dims = instruction.gather;
  const Id indices = instruction.operands[1];
  if (!dims.operand_batching_dims.empty() || dims.start_index_map.empty() ||
      edit_.shape(indices).element_count() !=
          static_cast<std::int64_t>(dims.start_index_map.size())) {
    return std::nullopt;
  }
  const Numbers& numbers = known_.of(indices);
  if (!numbers) return std::nullopt;
  const Extents extents = edit_.dimensions(instruction.operands[0]);
  Window window{Extents(extents.size(), 0), window_sizes(instruction)};
  for (std::size_t i = 0; i < numbers->size(); ++i) {
    const auto d = static_cast<std::size_t>(dims.start_index_map[i]);
    const std::int64_t start = static_cast<std::int64_t>((*numbers)[i]);
    window.starts[d] = std::clamp<std::int64_t>(start, 0, extents[d] - window.sizes[d]);
    if (window.starts[d] != start && instruction.opcode == HloOpcode::kScatter) {
      return std::nullopt;
    }
  }
  return window;
}

/// Whether an update is one that selects or moves elements: of words or bf16, and not of whole rows
/// of the array, whose kernel may work in place.
bool RegularGathers::may_be_written(const HloInstruction& update, const Window& window) const {
  const ElementType type = update.shape.type;
  const Extents extents = edit_.dimensions(update.operands[0]);
  return (hlo::byte_size(type) == 4 || type == ElementType::kBf16) &&
         !std::equal(window.sizes.begin() + 1, window.sizes.end(), extents.begin() + 1);
}

/// Whether it is a gather or a scatter of one window, and was rewritten.
bool RegularGathers::visit_one_window(Id id) {
  const HloInstruction instruction = entry().at(id);
  const std::optional<Window> window = window_of(instruction);
  if (!window) return false;
  const Id array = instruction.operands[0];
  if (instruction.opcode == HloOpcode::kGather) {
    edit_.stand_for(id);
    edit_.finish(edit_.reshape(edit_.slice(array, window->starts, window->limits()),
                               instruction.shape.dimensions));
    return true;
  }
  const HloOpcode operation = scatter_operation(module_.computation(instruction.called.at(0)));
  const bool adds = operation == HloOpcode::kAdd && instruction.shape.type == ElementType::kF32;
  if ((operation != HloOpcode::kParameter && !adds) || !may_be_written(instruction, *window)) {
    return false;
  }
  edit_.stand_for(id);
  const Extents extents = edit_.dimensions(array);
  const Id update = edit_.reshape(instruction.operands[2], window->sizes);
  const Id zeros = adds ? edit_.splat(ElementType::kF32, extents, 0) : -1;
  edit_.finish(adds ? edit_.binary(HloOpcode::kAdd, array, updated(zeros, update, *window))
                    : updated(array, update, *window));
  return true;
}

/// A slice or an update, clamped into the array.
void RegularGathers::visit_dynamic(Id id) {
  const HloInstruction instruction = entry().at(id);
  const bool is_slice = instruction.opcode == HloOpcode::kDynamicSlice;
  const Id array = instruction.operands[0];
  const Extents extents = edit_.dimensions(array);
  const std::size_t first = is_slice ? 1 : 2;
  Window window{{}, edit_.dimensions(is_slice ? id : instruction.operands[1])};
  if (instruction.operands.size() != first + extents.size() || extents.empty()) return;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const Numbers& start = known_.of(instruction.operands[first + d]);
    if (!start) return;
    window.starts.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>((*start)[0]), 0,
                                                     extents[d] - window.sizes[d]));
  }
  if (!is_slice && !may_be_written(instruction, window)) return;
  edit_.stand_for(id);
  edit_.finish(is_slice ? edit_.slice(array, window.starts, window.limits())
                        : updated(array, instruction.operands[1], window));
}

/// The array with a window of it replaced. One that goes over all but one dimension is a part of a
/// concatenation; one in an array that is the same everywhere is padded. Else elements are selected
/// by their place, from what is repeated along dimensions of which the window has one element.
Id RegularGathers::updated(Id array, Id update, const Window& window) {
  const Extents extents = edit_.dimensions(array);
  Extents ones, others, whole_or_others;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const auto dimension = static_cast<std::int64_t>(d);
    const bool is_touched = window.sizes[d] != extents[d];
    const bool is_one = is_touched && window.sizes[d] == 1;
    if (is_one) ones.push_back(dimension);
    if (is_touched && !is_one) others.push_back(dimension);
    if (!is_one) whole_or_others.push_back(dimension);
  }
  if (ones.empty() && others.empty()) return update;
  if (!others.empty()) {
    const std::optional<double> fill = splat_value(entry(), array);
    if (fill) return padded(update, extents, window, *fill);
    if (others.size() == 1 && ones.empty()) return joined(array, update, others[0], window);
  }
  Window rest;
  Extents rest_extents;
  for (std::int64_t d : whole_or_others) {
    rest.starts.push_back(window.starts[static_cast<std::size_t>(d)]);
    rest.sizes.push_back(window.sizes[static_cast<std::size_t>(d)]);
    rest_extents.push_back(extents[static_cast<std::size_t>(d)]);
  }
  Id value = edit_.reshape(update, rest.sizes);
  if (!others.empty()) value = padded(value, rest_extents, rest, 0);
  if (!ones.empty()) value = edit_.broadcast(value, extents, whole_or_others);
  return edit_.select(is_inside(extents, window), value, array);
}

/// What stands before the window along a dimension, the window, and what stands behind it.
Id RegularGathers::joined(Id array, Id update, std::int64_t d, const Window& window) {
  const auto at = static_cast<std::size_t>(d);
  const std::int64_t extent = edit_.dimensions(array)[at];
  const std::int64_t start = window.starts[at], end = start + window.sizes[at];
  std::vector<Id> parts;
  if (start > 0) parts.push_back(edit_.take(array, d, 0, start, 1));
  parts.push_back(update);
  if (end < extent) parts.push_back(edit_.take(array, d, end, extent - end, 1));
  return edit_.concatenate(parts, d);
}

Id RegularGathers::padded(Id update, const Extents& extents, const Window& window, double fill) {
  std::vector<hlo::PaddingDimension> padding(extents.size());
  for (std::size_t d = 0; d < extents.size(); ++d) {
    padding[d] = {window.starts[d], extents[d] - window.starts[d] - window.sizes[d], 0};
  }
  return edit_.pad(update, padding, fill);
}

/// Where an element of an array lies in a window that is smaller.
Id RegularGathers::is_inside(const Extents& extents, const Window& window) {
  Id inside = -1;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const std::int64_t start = window.starts[d], end = start + window.sizes[d];
    if (start == 0 && end == extents[d]) continue;
    const Id index = edit_.iota(ElementType::kS32, extents, static_cast<std::int64_t>(d));
    const auto where = [&](hlo::ComparisonDirection direction, std::int64_t bound) {
      const Id condition = edit_.compare(
          index, edit_.splat(ElementType::kS32, extents, static_cast<double>(bound)), direction);
      inside = inside < 0 ? condition : edit_.binary(HloOpcode::kAnd, inside, condition);
    };
    if (window.sizes[d] == 1) {
      where(hlo::ComparisonDirection::kEq, start);
      continue;
    }
    if (start > 0) where(hlo::ComparisonDirection::kGe, start);
    if (end < extents[d]) where(hlo::ComparisonDirection::kLt, end);
  }
  return inside;
}

}  // namespace

void rewrite_regular_gathers(hlo::Module& module) { RegularGathers(module).run(); }

}  // namespace tpu::compiler
