#include "workloads/compiler/passes/simplify/stacked_vectors.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/fuse/kernel_sequences.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Shape;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

constexpr std::int64_t kTile = std::int64_t{isa::kSublanes} * isa::kLanes;

bool holds_vectors(const Shape& shape) {
  return !shape.is_tuple() && shape.rank() == 2 && hlo::byte_size(shape.type) == 4 &&
         shape.dimensions[0] > 1 && 2 * shape.dimensions[1] >= kTile;
}

std::int64_t padded(std::int64_t extent) { return round_up(extent, kTile); }

Extents stacked(const Extents& extents) {
  return {extents[0], padded(extents[1]) / isa::kLanes, isa::kLanes};
}

/// Granules of an array of rows.
std::uint64_t granules_of_rows(const Shape& shape) {
  return static_cast<std::uint64_t>(ceil_divide(shape.dimensions[0], std::int64_t{isa::kSublanes}) *
                                    ceil_divide(shape.dimensions[1], std::int64_t{isa::kLanes})) *
         4;
}

/// [T, N] as [T, 8 R, 128], and back.
Id to_tiles(GraphEditor& edit, Id rows) {
  const Extents extents = edit.dimensions(rows);
  const std::int64_t more = padded(extents[1]) - extents[1];
  if (more > 0) rows = edit.pad_high(rows, {0, more});
  return edit.reshape(rows, stacked(extents));
}
Id to_rows(GraphEditor& edit, Id tiles, const Extents& extents) {
  const Id rows = edit.reshape(tiles, {extents[0], padded(extents[1])});
  return edit.dimensions(rows) == extents ? rows : edit.slice(rows, {0, 0}, extents);
}

class StackedVectors {
 public:
  StackedVectors(ScheduledModule& scheduled, const Target& target)
      : scheduled_(scheduled), target_(target), edit_(scheduled.module) {}

  void run() {
    const std::size_t count = entry().instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      const HloInstruction& loop = entry().instructions[i];
      if (loop.opcode == HloOpcode::kWhile && runs_region(loop)) visit(loop.id);
    }
    if (entry().instructions.size() > count) tidy(entry());
  }

 private:
  Computation& entry() { return scheduled_.module.entry_computation(); }
  std::vector<std::size_t> arrays_of(const HloInstruction& loop, const Computation& body);
  void visit(Id id);
  void give(Id id, std::size_t k);
  void take(Id id, std::size_t k, const Extents& extents);

  ScheduledModule& scheduled_;
  const Target& target_;
  GraphEditor edit_;
  std::map<Id, Id> tiles_of_;  ///< Of arrays of rows that another loop has made.
};

/// Whether an instruction reads or writes one row of the array.
bool takes_row(const Computation& body, const HloInstruction& user, Id array) {
  const std::size_t first = user.opcode == HloOpcode::kDynamicSlice ? 1 : 2;
  const bool updates = user.opcode == HloOpcode::kDynamicUpdateSlice;
  if ((first == 2 && !updates) || user.operands[0] != array || user.operands.size() < first + 2) {
    return false;
  }
  for (std::size_t i = 1; i < user.operands.size(); ++i) {
    if (user.operands[i] == array) return false;
  }
  const Shape& part = updates ? body.at(user.operands[1]).shape : user.shape;
  const Shape& whole = body.at(array).shape;
  return part.dimensions == Extents{1, whole.dimensions[1]} &&
         splat_value(body, user.operands[first + 1]) == 0.0;
}

/// Whether all that the body does with its parameter is to read and write rows.
bool takes_rows(const Computation& body, Id parameter, std::optional<Id> result) {
  int updates = 0;
  Id last = parameter;
  for (const HloInstruction& user : body.instructions) {
    const auto reads = std::count(user.operands.begin(), user.operands.end(), parameter);
    if (reads == 0 || user.id == body.root) continue;
    if (!takes_row(body, user, parameter)) return false;
    if (user.opcode != HloOpcode::kDynamicUpdateSlice) continue;
    ++updates;
    last = user.id;
  }
  if (updates > 1 || (result && *result != last) || (!result && updates > 0)) return false;
  // The root's tuple alone has the array, once, and what an update makes of it.
  for (const HloInstruction& user : body.instructions) {
    const auto reads = std::count(user.operands.begin(), user.operands.end(), last);
    if (user.id == body.root && reads != (result ? 1 : 0)) return false;
    if (updates > 0 && user.id != body.root && reads > 0) return false;
    if (updates > 0 && user.id == body.root &&
        std::count(user.operands.begin(), user.operands.end(), parameter) > 0) {
      return false;
    }
  }
  return true;
}

/// Numbers of the loop's operands that are such arrays.
std::vector<std::size_t> StackedVectors::arrays_of(const HloInstruction& loop,
                                                   const Computation& body) {
  const std::vector<Id> parameters = body.parameters();
  const HloInstruction& root = body.at(body.root);
  const std::size_t carried = loop.shape.elements.size();
  std::vector<std::size_t> found;
  std::uint64_t granules = 0;
  if (root.opcode != HloOpcode::kTuple || parameters.size() != loop.operands.size()) return found;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const Shape& shape = body.at(parameters[k]).shape;
    const std::optional<Id> result = k < carried ? std::optional(root.operands[k]) : std::nullopt;
    if (!holds_vectors(shape) || !takes_rows(body, parameters[k], result)) continue;
    found.push_back(k);
    granules += granules_of_rows(shape);
  }
  if (granules > most_granules_in_vmem(target_) / 8) return found;
  const auto fills_no_tile = [&](std::size_t k) {
    return body.at(parameters[k]).shape.dimensions[1] < kTile;
  };
  found.erase(std::remove_if(found.begin(), found.end(), fills_no_tile), found.end());
  return found;
}

/// The body of an array's loop, whose rows are tiles now.
void rewrite_body(hlo::Module& module, std::size_t k) {
  GraphEditor edit(module);
  Computation& body = module.entry_computation();
  const Id parameter = body.parameters()[k];
  const Extents extents = edit.dimensions(parameter), tiles = stacked(extents);
  const Extents row{1, extents[1]};
  const std::size_t count = body.instructions.size();
  body.at(parameter).shape = hlo::array_shape(body.at(parameter).shape.type, tiles);
  for (std::size_t i = 0; i < count; ++i) {
    const HloInstruction given = body.instructions[i];
    if (given.id == body.root || given.operands.empty() || given.operands[0] != parameter) continue;
    edit.stand_for(given.id);
    HloInstruction made = given;
    made.operands.push_back(given.operands.back());  // 0 in the last dimension, too.
    if (given.opcode == HloOpcode::kDynamicSlice) {
      made.shape = hlo::array_shape(given.shape.type, stacked(row));
      made.dynamic_slice_sizes = made.shape.dimensions;
      made.name += ".tiles";
      edit.finish(to_rows(edit, append(body, std::move(made)), row));
      continue;
    }
    made.operands[1] = to_tiles(edit, given.operands[1]);
    made.shape = hlo::array_shape(given.shape.type, tiles);
    body.at(given.id) = std::move(made);
  }
  HloInstruction& root = body.at(body.root);
  for (std::size_t r = 0; r < root.operands.size(); ++r) {
    const Shape& shape = body.at(root.operands[r]).shape;
    if (!shape.is_tuple()) root.shape.elements[r].dimensions = shape.dimensions;
  }
  tidy(body);
}

/// The loop's operand.
void StackedVectors::give(Id id, std::size_t k) {
  const Id rows = entry().at(id).operands[k];
  const auto known = tiles_of_.find(rows);
  edit_.stand_for(rows);
  const Id tiles = known != tiles_of_.end() ? known->second : to_tiles(edit_, rows);
  entry().at(id).operands[k] = tiles;
}

/// The loop's result: who reads it gets rows.
void StackedVectors::take(Id id, std::size_t k, const Extents& extents) {
  Shape& element = entry().at(id).shape.elements[k];
  element = hlo::array_shape(element.type, stacked(extents));
  const std::size_t count = entry().instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    HloInstruction& part = entry().instructions[i];
    if (part.opcode != HloOpcode::kGetTupleElement || part.operands[0] != id ||
        part.tuple_index != static_cast<std::int64_t>(k)) {
      continue;
    }
    const Id tiles = part.id;
    part.shape = element;
    edit_.stand_for(tiles);
    const std::size_t before = entry().instructions.size();
    const Id rows = to_rows(edit_, tiles, extents);
    tiles_of_[rows] = tiles;
    for (std::size_t u = 0; u < before; ++u) {
      std::vector<Id>& operands = entry().instructions[u].operands;
      std::replace(operands.begin(), operands.end(), tiles, rows);
    }
    if (entry().root == tiles) entry().root = rows;
  }
}

void StackedVectors::visit(Id id) {
  const HloInstruction loop = entry().at(id);
  ScheduledRegion& region = scheduled_.regions[static_cast<std::size_t>(loop.tuple_index)];
  if (!region.is_loop || !region.trips || region.bodies.size() != 1) return;
  hlo::Module& body = region.bodies[0].module;
  for (const std::size_t k : arrays_of(loop, body.entry_computation())) {
    const Extents extents = edit_.dimensions(loop.operands[k]);
    rewrite_body(body, k);
    give(id, k);
    if (k < loop.shape.elements.size()) take(id, k, extents);
  }
}

}  // namespace

void tile_stacked_vectors(ScheduledModule& scheduled, const Target& target) {
  StackedVectors(scheduled, target).run();
}

}  // namespace tpu::compiler
