#include "workloads/compiler/passes/memory/hbm_plan.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "sim/base/error.h"
#include "workloads/compiler/compiler.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/bucket_shape.h"
#include "workloads/compiler/ir/iteration_place.h"
#include "workloads/compiler/passes/expand/rings.h"
#include "workloads/compiler/passes/layout/copies.h"
#include "workloads/compiler/passes/memory/storage.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// Storages that get one range together: those of an all-reduce side by side, those that are
/// written over each other at the same place.
struct Block {
  std::uint64_t size = 0;
  InstructionId first = 0, last = 0;
  std::vector<std::pair<std::size_t, std::uint64_t>> members;  ///< Storage, offset in the block.
  std::uint64_t granule = 0;
};

/// What the body of a loop or branch is told by the computation that runs it.
struct Frame {
  std::vector<std::uint64_t> parameters;  ///< Granules.
  std::uint64_t constants = 0;            ///< First granule of its constants and its bodies'.
  std::uint64_t temporaries = 0;          ///< First granule of everything else.
};

/// A granule for the predicate of a loop, then its bodies' temporaries.
constexpr std::uint64_t kPredicateGranules = 1;

class HbmPlanner {
 public:
  HbmPlanner(const ScheduledModule& scheduled, const Target& target)
      : scheduled_(scheduled),
        module_(scheduled.module),
        target_(target),
        entry_(scheduled.module.entry_computation()),
        map_(entry_),
        granule_(map_.storages().size(), 0),
        step_(map_.storages().size(), 0),
        is_placed_(map_.storages().size(), false) {}

  /// The plan of a whole program.
  HbmPlan run() {
    place_parameters();
    constants_ = base_;
    base_ += constant_granules(scheduled_);
    return place_rest();
  }

  /// The plan of a body.
  HbmPlan run(const Frame& frame) {
    is_body_ = true;
    const std::vector<InstructionId> parameters = entry_.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      place(map_.of(parameters[i])[0], frame.parameters.at(i));
    }
    place_results_in_parameters();
    place_updates_in_arrays();
    constants_ = frame.constants;
    base_ = frame.temporaries;
    return place_rest();
  }

  /// What run() was told, for the bodies of a region's instruction; valid after it.
  std::vector<Frame> frames_of(const HloInstruction& instruction) const;

  /// Granules that constants take, those of bodies included.
  static std::uint64_t constant_granules(const ScheduledModule& scheduled);

 private:
  std::uint64_t size(std::size_t storage) const { return granules(map_.at(storage).shape); }
  void place(std::size_t storage, std::uint64_t granule) {
    granule_[storage] = granule;
    is_placed_[storage] = true;
  }
  HbmPlan place_rest() {
    end_ = base_;
    place_constants();
    make_blocks();
    place_blocks();
    return finish();
  }
  void place_parameters();
  void place_results_in_parameters();
  void place_updates_in_arrays();
  bool can_write_in_place(const HloInstruction& update) const;
  void place_constants();
  std::uint64_t region_granules(const HloInstruction& instruction) const;
  void make_blocks();
  void add_to_block(std::size_t block, std::size_t storage, std::uint64_t offset);
  bool reads_once(const HloInstruction& kernel, std::size_t storage) const;
  void write_over_operands(const HloInstruction& kernel);
  void place_blocks();
  HbmPlan finish();
  isa::Buffer buffer(std::size_t storage, isa::BufferRole role, std::uint32_t index) const;
  void add_constants_and_results(HbmPlan& plan) const;
  /// A body's result that stands in the memory of the computation that runs it.
  bool is_in_parameter(std::size_t storage) const {
    return is_body_ && block_of_.count(storage) == 0;
  }

  const ScheduledModule& scheduled_;
  const hlo::Module& module_;
  const Target& target_;
  const Computation& entry_;
  StorageMap map_;
  std::vector<std::uint64_t> granule_;
  std::vector<std::int64_t> step_;  ///< Granules from one iteration to the next.
  std::vector<bool> is_placed_;
  std::set<InstructionId> written_in_place_;
  std::vector<Block> blocks_;
  std::map<std::size_t, std::size_t> block_of_;
  std::map<InstructionId, std::size_t> region_block_;  ///< What bodies use while they run.
  bool is_body_ = false;
  std::uint64_t constants_ = 0;  ///< First granule of the constants.
  std::uint64_t base_ = 0;       ///< First granule behind the parameters and constants.
  std::uint64_t infeed_granules_ = 0;
  std::uint64_t end_ = 0;
};

void HbmPlanner::place_parameters() {
  const std::vector<InstructionId> parameters = entry_.parameters();
  const auto take = [&](InstructionId parameter) {
    const std::size_t storage = map_.of(parameter)[0];
    if (is_placed_[storage]) return;
    place(storage, base_);
    base_ += size(storage);
  };
  for (std::int64_t number : module_.infeed_parameters) {
    take(parameters.at(static_cast<std::size_t>(number)));
  }
  infeed_granules_ = base_;
  for (InstructionId parameter : parameters) take(parameter);
  place_results_in_parameters();
}

void HbmPlanner::place_results_in_parameters() {
  const std::vector<InstructionId> parameters = entry_.parameters();
  for (const ResultInParameter& result : results_in_parameters(module_)) {
    const InstructionId parameter =
        parameters.at(static_cast<std::size_t>(result.parameter_number));
    place(result.storage, granule_[map_.of(parameter)[0]]);
  }
}

std::uint64_t HbmPlanner::constant_granules(const ScheduledModule& scheduled) {
  std::uint64_t sum = 0;
  const StorageMap map(scheduled.module.entry_computation());
  for (const Storage& storage : map.storages()) {
    if (storage.kind == Storage::Kind::kConstant) sum += granules(storage.shape);
  }
  for (const ScheduledRegion& region : scheduled.regions) {
    for (const ScheduledModule& body : region.bodies) sum += constant_granules(body);
  }
  return sum;
}

/// Whether who makes an update of a slice may write it into the array: it is all that it makes of
/// the storage, and nothing but the update touches the array.
bool HbmPlanner::can_write_in_place(const HloInstruction& update) const {
  const std::size_t array = map_.of(update.operands[0])[0];
  const std::size_t value = map_.of(update.operands[1])[0];
  const Storage& made = map_.at(value);
  if (map_.at(array).kind != Storage::Kind::kParameter || made.kind != Storage::Kind::kResult ||
      is_placed_[value] || made.all_reduce >= 0 || runs_region(entry_.at(made.definer)) ||
      size(value) != granules(entry_.at(update.operands[1]).shape)) {
    return false;
  }
  const auto touches = [this](const HloInstruction& instruction, std::size_t storage) {
    return std::any_of(instruction.operands.begin(), instruction.operands.end(),
                       [&](InstructionId operand) {
                         const std::vector<std::size_t>& of = map_.of(operand);
                         return std::find(of.begin(), of.end(), storage) != of.end();
                       });
  };
  return std::none_of(entry_.instructions.begin(), entry_.instructions.end(),
                      [&](const HloInstruction& other) {
                        if (other.id == update.id || is_bookkeeping(other)) return false;
                        if (touches(other, array)) return true;
                        return touches(other, value) &&
                               (runs_region(other) || other.opcode == HloOpcode::kScatter ||
                                other.opcode == HloOpcode::kAllReduce ||
                                (other.opcode == HloOpcode::kDynamicUpdateSlice &&
                                 map_.of(other.operands[0])[0] == value));
                      });
}

void HbmPlanner::place_updates_in_arrays() {
  for (const HloInstruction& instruction : entry_.instructions) {
    if (!is_update_of_iteration(instruction) || !can_write_in_place(instruction)) continue;
    const IterationPlace at = iteration_place(entry_, instruction);
    const std::size_t value = map_.of(instruction.operands[1])[0];
    place(value,
          granule_[map_.of(instruction.operands[0])[0]] + static_cast<std::uint64_t>(at.granule));
    step_[value] = at.step;
    written_in_place_.insert(instruction.id);
  }
}

void HbmPlanner::place_constants() {
  std::uint64_t next = constants_;
  for (std::size_t i = 0; i < map_.storages().size(); ++i) {
    if (map_.at(i).kind != Storage::Kind::kConstant) continue;
    place(i, next);
    next += size(i);
  }
}

/// What the bodies of a region take beyond their parameters, results and constants; they run one at
/// a time.
std::uint64_t HbmPlanner::region_granules(const HloInstruction& instruction) const {
  const ScheduledRegion& region =
      scheduled_.regions[static_cast<std::size_t>(instruction.tuple_index)];
  std::uint64_t most = 0;
  for (const ScheduledModule& body : region.bodies) {
    Frame frame;
    frame.parameters.resize(body.module.entry_computation().parameters().size());
    most = std::max(most, HbmPlanner(body, target_).run(frame).peak_granules);
  }
  return kPredicateGranules + most;
}

std::vector<Frame> HbmPlanner::frames_of(const HloInstruction& instruction) const {
  const ScheduledRegion& region =
      scheduled_.regions[static_cast<std::size_t>(instruction.tuple_index)];
  const std::uint64_t begin = blocks_[region_block_.at(instruction.id)].granule;
  const auto place_of = [this](InstructionId id) { return granule_[map_.of(id).at(0)]; };
  std::uint64_t constants = constants_;
  for (const Storage& storage : map_.storages()) {
    if (storage.kind == Storage::Kind::kConstant) constants += granules(storage.shape);
  }
  for (std::int64_t before = 0; before < instruction.tuple_index; ++before) {
    for (const ScheduledModule& body :
         scheduled_.regions[static_cast<std::size_t>(before)].bodies) {
      constants += constant_granules(body);
    }
  }
  std::vector<Frame> frames;
  std::size_t operand = region.is_loop ? 0 : 1;
  for (const ScheduledModule& body : region.bodies) {
    Frame frame;
    frame.constants = constants;
    frame.temporaries = begin + kPredicateGranules;
    constants += constant_granules(body);
    const std::size_t parameters = body.module.entry_computation().parameters().size();
    if (region.is_loop) {
      for (InstructionId id : instruction.operands) frame.parameters.push_back(place_of(id));
      if (frame.parameters.size() < parameters) frame.parameters.push_back(begin);
    } else {
      const std::vector<std::size_t>& results = map_.of(instruction.id);
      for (std::size_t i = results.size(); i < parameters; ++i) {
        frame.parameters.push_back(place_of(instruction.operands.at(operand++)));
      }
      for (std::size_t result : results) frame.parameters.push_back(granule_[result]);
    }
    frames.push_back(std::move(frame));
  }
  return frames;
}

void HbmPlanner::add_to_block(std::size_t block, std::size_t storage, std::uint64_t offset) {
  Block& target = blocks_[block];
  const Storage& member = map_.at(storage);
  const bool is_first = target.members.empty();
  target.first = is_first ? member.definer : std::min(target.first, member.definer);
  target.last = is_first ? member.last_use : std::max(target.last, member.last_use);
  target.size = std::max(target.size, offset + size(storage));
  target.members.emplace_back(storage, offset);
  block_of_[storage] = block;
}

void HbmPlanner::make_blocks() {
  for (const HloInstruction& instruction : entry_.instructions) {
    const bool is_start = instruction.opcode == HloOpcode::kAllReduceStart;
    if (instruction.opcode != HloOpcode::kAllReduce && !is_start) continue;
    blocks_.emplace_back();
    for (std::size_t storage : map_.of(instruction.id)) {
      if (map_.at(storage).all_reduce < 0) continue;  // A landing place.
      add_to_block(blocks_.size() - 1, storage, blocks_.back().size);
    }
    std::uint64_t& size = blocks_.back().size;
    size = is_start ? bucket_shape(size, target_).granules()
                    : all_reduce_shape(size, target_, ring_of(instruction)).granules;
  }
  for (const HloInstruction& instruction : entry_.instructions) {
    if (instruction.opcode == HloOpcode::kParameter) continue;
    if (is_bookkeeping(instruction)) continue;
    if (instruction.opcode == HloOpcode::kAllReduce) continue;
    if (runs_region(instruction)) {
      region_block_[instruction.id] = blocks_.size();
      blocks_.emplace_back();
      blocks_.back().size = region_granules(instruction);
      blocks_.back().first = blocks_.back().last = instruction.id;
    }
    write_over_operands(instruction);
    for (std::size_t storage : map_.of(instruction.id)) {
      if (is_placed_[storage] || block_of_.count(storage) != 0) continue;
      blocks_.emplace_back();
      add_to_block(blocks_.size() - 1, storage, 0);
    }
  }
}

bool HbmPlanner::reads_once(const HloInstruction& kernel, std::size_t storage) const {
  return std::count_if(kernel.operands.begin(), kernel.operands.end(), [&](InstructionId operand) {
           const std::vector<std::size_t>& read = map_.of(operand);
           return std::find(read.begin(), read.end(), storage) != read.end();
         }) == 1;
}

/// Results of an elementwise kernel take the memory of operands that die in it.
void HbmPlanner::write_over_operands(const HloInstruction& kernel) {
  for (std::size_t storage : map_.of(kernel.id)) {
    if (is_placed_[storage] || block_of_.count(storage) != 0) continue;
    for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
      if (map_.of(kernel.operands[i]).size() != 1) continue;
      const std::size_t dying = map_.of(kernel.operands[i])[0];
      const auto found = block_of_.find(dying);
      if (found == block_of_.end() || map_.at(dying).kind != Storage::Kind::kResult) continue;
      const Block& block = blocks_[found->second];
      const bool is_alone = block.size == size(dying) && block.last == kernel.id &&
                            map_.at(block.members.back().first).definer != kernel.id &&
                            reads_once(kernel, dying);
      if (!is_alone || map_.at(dying).all_reduce >= 0) continue;
      if (!may_overwrite(module_, kernel, i, map_.at(storage).shape)) continue;
      add_to_block(found->second, storage, 0);
      break;
    }
  }
}

void HbmPlanner::place_blocks() {
  std::vector<std::size_t> order(blocks_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return blocks_[a].size > blocks_[b].size;
  });
  std::vector<std::size_t> placed;  // By granule.
  for (std::size_t index : order) {
    Block& block = blocks_[index];
    std::uint64_t cursor = base_, best = 0, best_gap = ~std::uint64_t{0};
    for (std::size_t other_index : placed) {
      const Block& other = blocks_[other_index];
      if (other.last < block.first || block.last < other.first) continue;
      if (other.granule > cursor) {
        const std::uint64_t gap = other.granule - cursor;
        if (gap >= block.size && gap < best_gap) {
          best = cursor;
          best_gap = gap;
        }
      }
      cursor = std::max(cursor, other.granule + other.size);
    }
    block.granule = best_gap == ~std::uint64_t{0} ? cursor : best;
    end_ = std::max(end_, block.granule + block.size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [this](std::size_t a, std::size_t b) {
                                     return blocks_[a].granule < blocks_[b].granule;
                                   }),
                  index);
    for (const auto& [storage, offset] : block.members) place(storage, block.granule + offset);
  }
}

isa::Buffer HbmPlanner::buffer(std::size_t storage, isa::BufferRole role,
                               std::uint32_t index) const {
  const Storage& source = map_.at(storage);
  const HloInstruction& definer = entry_.at(source.definer);
  isa::Buffer buffer;
  buffer.name = definer.name;
  if (definer.shape.is_tuple()) buffer.name += "{" + std::to_string(source.leaf) + "}";
  buffer.role = role;
  buffer.index = index;
  buffer.granule = granule_[storage];
  buffer.bytes = size(storage) * isa::kHbmGranuleBytes;
  buffer.unpadded_bytes = static_cast<std::uint64_t>(source.shape.unpadded_bytes());
  buffer.shape = to_string(source.shape);
  buffer.op_name = definer.metadata.op_name;
  const bool is_made = role == isa::BufferRole::kTemporary || role == isa::BufferRole::kOutput;
  // Copies of whole tiles read padding that elementwise kernels leave as it is.
  buffer.zeroed = is_made && !is_in_parameter(storage) && granules_with_rows(source.shape) > 0;
  return buffer;
}

void HbmPlanner::add_constants_and_results(HbmPlan& plan) const {
  std::vector<bool> is_result(map_.storages().size(), false);
  const std::vector<std::size_t>& results = map_.of(entry_.root);
  for (std::size_t i = 0; !is_body_ && i < results.size(); ++i) {
    is_result[results[i]] = true;
    isa::Buffer result =
        buffer(results[i], isa::BufferRole::kOutput, static_cast<std::uint32_t>(i));
    const HloInstruction& root = entry_.at(entry_.root);
    result.shape = to_string(root.shape.is_tuple() ? root.shape.elements[i] : root.shape);
    plan.buffers.push_back(std::move(result));
  }
  for (std::size_t i = 0; i < map_.storages().size(); ++i) {
    const Storage& storage = map_.at(i);
    if (storage.kind == Storage::Kind::kConstant) {
      plan.buffers.push_back(buffer(i, isa::BufferRole::kConstant, 0));
      const std::vector<std::uint8_t>& literal = entry_.at(storage.definer).literal;
      if (!literal.empty()) plan.buffers.back().data = hlo::pack(storage.shape, literal);
    } else if (storage.kind == Storage::Kind::kResult && !is_result[i] && !is_in_parameter(i)) {
      plan.buffers.push_back(buffer(i, isa::BufferRole::kTemporary, 0));
    }
  }
}

HbmPlan HbmPlanner::finish() {
  HbmPlan plan;
  plan.peak_granules = end_;
  plan.infeed_granules = infeed_granules_;
  plan.written_in_place = written_in_place_;
  std::vector<IterationPlace> part(entry_.instructions.size());  // Of its storage.
  for (const HloInstruction& instruction : entry_.instructions) {
    IterationPlace& own = part[static_cast<std::size_t>(instruction.id)];
    if (instruction.opcode == HloOpcode::kBitcast) {
      own = part[static_cast<std::size_t>(instruction.operands[0])];
    } else if (is_slice_of_iteration(instruction)) {
      own = iteration_place(entry_, instruction);
    }
    std::vector<std::uint64_t> granules;
    std::vector<std::int64_t> steps;
    for (std::size_t storage : map_.of(instruction.id)) {
      granules.push_back(granule_[storage] + static_cast<std::uint64_t>(own.granule));
      steps.push_back(step_[storage] + own.step);
    }
    plan.granules_of.push_back(std::move(granules));
    plan.steps_of.push_back(std::move(steps));
  }
  const std::vector<InstructionId> parameters = entry_.parameters();
  const std::vector<std::int64_t>& infeed = module_.infeed_parameters;
  for (std::size_t i = 0; !is_body_ && i < parameters.size(); ++i) {
    const auto leaf = std::find(infeed.begin(), infeed.end(), static_cast<std::int64_t>(i));
    const bool is_fed = leaf != infeed.end();
    const auto index =
        is_fed ? static_cast<std::uint32_t>(leaf - infeed.begin()) : static_cast<std::uint32_t>(i);
    plan.buffers.push_back(buffer(map_.of(parameters[i])[0],
                                  is_fed ? isa::BufferRole::kInfeed : isa::BufferRole::kParameter,
                                  index));
  }
  add_constants_and_results(plan);
  return plan;
}

}  // namespace

std::string memory_size_text(std::uint64_t bytes) {
  const char* prefix = "BKMG";
  double value = static_cast<double>(bytes);
  while (value >= 1024 && prefix[1] != '\0') {
    value /= 1024;
    ++prefix;
  }
  char text[32];
  std::snprintf(text, sizeof text, *prefix == 'B' ? "%.0f%c" : "%.2f%c", value, *prefix);
  return text;
}

OutOfMemoryError::Use hbm_use(const HbmPlan& plan, const Target& target) {
  OutOfMemoryError::Use use;
  for (const isa::Buffer& buffer : plan.buffers) {
    const bool is_argument =
        buffer.role == isa::BufferRole::kParameter || buffer.role == isa::BufferRole::kInfeed;
    if (is_argument) use.arguments += buffer.bytes;
  }
  use.program = plan.peak_granules * isa::kHbmGranuleBytes - use.arguments;
  use.capacity = target.hbm_bytes;
  return use;
}

std::string out_of_memory_report(const HbmPlan& plan, const hlo::Module& module,
                                 const Target& target) {
  constexpr std::size_t kLargest = 10;
  std::vector<const isa::Buffer*> largest;
  for (const isa::Buffer& buffer : plan.buffers) largest.push_back(&buffer);
  std::stable_sort(largest.begin(), largest.end(),
                   [](const auto* a, const auto* b) { return a->bytes > b->bytes; });
  const auto [arguments, program, room] = hbm_use(plan, target);
  const std::uint64_t used = arguments + program + target.hbm_reserved_bytes;
  const std::uint64_t capacity = room + target.hbm_reserved_bytes;
  std::string text = "Ran out of memory in memory space hbm. Used " + memory_size_text(used) +
                     " of " + memory_size_text(capacity) + " hbm. Exceeded hbm capacity by " +
                     memory_size_text(used - capacity) + ".\n";
  text += "Total hbm usage >= " + memory_size_text(used) + ":  reserved " +
          memory_size_text(target.hbm_reserved_bytes) + "  program " + memory_size_text(program) +
          "  arguments " + memory_size_text(arguments) + "\n";
  text += "  Largest program allocations in hbm:\n";
  std::map<std::string, const HloInstruction*> by_name;
  for (const HloInstruction& instruction : module.entry_computation().instructions) {
    by_name[instruction.name] = &instruction;
  }
  for (std::size_t i = 0; i < largest.size() && i < kLargest; ++i) {
    const isa::Buffer& buffer = *largest[i];
    const auto found = by_name.find(buffer.name.substr(0, buffer.name.find('{')));
    const std::string op_type =
        found == by_name.end() ? std::string() : found->second->metadata.op_type;
    text += "  " + std::to_string(i + 1) + ". Size: " + memory_size_text(buffer.bytes) +
            "  Operator: op_type=\"" + op_type + "\" op_name=\"" + buffer.op_name +
            "\"  Shape: " + buffer.shape + "\n";
    text += "     Unpadded size: " + memory_size_text(buffer.unpadded_bytes);
    if (buffer.bytes > buffer.unpadded_bytes) {
      char expansion[32];
      std::snprintf(expansion, sizeof expansion, "%.1fx",
                    static_cast<double>(buffer.bytes) /
                        static_cast<double>(std::max<std::uint64_t>(1, buffer.unpadded_bytes)));
      text += "   Extra memory due to padding: " +
              memory_size_text(buffer.bytes - buffer.unpadded_bytes) + " (" + expansion +
              " expansion)";
    }
    text += "\n";
  }
  return text;
}

namespace {

/// Plans what the regions of a planned computation run; their buffers join its own.
void plan_regions(ScheduledModule& scheduled, const HbmPlanner& planner, const Target& target) {
  for (const HloInstruction& instruction : scheduled.module.entry_computation().instructions) {
    if (!runs_region(instruction)) continue;
    const std::vector<Frame> frames = planner.frames_of(instruction);
    ScheduledRegion& region = scheduled.regions[static_cast<std::size_t>(instruction.tuple_index)];
    for (std::size_t i = 0; i < frames.size(); ++i) {
      ScheduledModule& body = region.bodies[i];
      HbmPlanner inner(body, target);
      body.plan = inner.run(frames[i]);
      plan_regions(body, inner, target);
      scheduled.plan.buffers.insert(scheduled.plan.buffers.end(), body.plan.buffers.begin(),
                                    body.plan.buffers.end());
    }
  }
}

}  // namespace

void plan_hbm(ScheduledModule& scheduled, const Target& target) {
  HbmPlanner planner(scheduled, target);
  scheduled.plan = planner.run();
  plan_regions(scheduled, planner, target);
  if (scheduled.plan.peak_granules * isa::kHbmGranuleBytes > target.hbm_bytes) {
    throw OutOfMemoryError(out_of_memory_report(scheduled.plan, scheduled.module, target),
                           hbm_use(scheduled.plan, target));
  }
}

}  // namespace tpu::compiler
