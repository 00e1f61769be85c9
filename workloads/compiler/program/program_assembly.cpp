#include "workloads/compiler/program/program_assembly.h"

#include <unordered_map>

#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/iteration_place.h"
#include "workloads/compiler/kernels/infeed.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/fuse/bucket_phases.h"
#include "workloads/compiler/passes/memory/storage.h"
#include "workloads/compiler/passes/op_info.h"
#include "workloads/compiler/passes/refusal_list.h"
#include "workloads/compiler/program/call_sequence.h"
#include "workloads/compiler/program/kernel_selection.h"
#include "workloads/compiler/program/top_level.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// A kernel of the program.
struct MadeKernel {
  std::uint32_t number = 0;
  CalledKernel called;
};

class Assembly {
 public:
  Assembly(const ScheduledModule& scheduled, const Target& target, const KernelMaker& make_kernel)
      : scheduled_(scheduled),
        target_(target),
        make_kernel_(make_kernel),
        top_(scheduled.module.name, target.chip),
        openings_(program_, target),
        calls_(top_, openings_, target) {
    program_.kernels.emplace_back();
  }

  isa::Program run() {
    if (scheduled_.plan.infeed_granules > 0) add_infeed();
    add_straight(scheduled_);
    refusals_.report(scheduled_.module.name);
    program_.kernels[0] = top_.take();
    program_.buffers = scheduled_.plan.buffers;
    program_.hbm_peak_bytes = scheduled_.plan.peak_granules * isa::kHbmGranuleBytes;
    return std::move(program_);
  }

 private:
  void add_infeed();
  void add_all(const ScheduledModule& scheduled);
  void add_straight(const ScheduledModule& scheduled);
  void add_region(const ScheduledModule& scheduled, const HloInstruction& instruction);
  void add_op(const ScheduledModule& scheduled, const HloInstruction& instruction,
              std::uint64_t trips = 1);
  void refuse(const hlo::Module& module, const HloInstruction& instruction, const std::string& why);
  const MadeKernel& kernel_for(const hlo::Module& module, const HloInstruction& instruction,
                               const SequenceLoop& loop);
  void add_call(const MadeKernel& made, isa::OpInfo info, SequencedCall call);

  const ScheduledModule& scheduled_;
  const Target& target_;
  const KernelMaker& make_kernel_;
  TopLevel top_;
  isa::Program program_;
  Openings openings_;
  CallSequence calls_;
  std::unordered_map<std::string, MadeKernel> kernel_of_;
  RefusalList refusals_;
};

void Assembly::add_call(const MadeKernel& made, isa::OpInfo info, SequencedCall call) {
  isa::CallSite site;
  site.kernel = made.number;
  site.op = static_cast<std::uint32_t>(program_.ops.size());
  info.vmem_bytes = program_.kernels[made.number].vmem_bytes;
  program_.ops.push_back(std::move(info));
  call.site = static_cast<std::uint32_t>(program_.call_sites.size());
  call.kernel = made.called;
  program_.call_sites.push_back(std::move(site));
  calls_.add(std::move(call));
}

void Assembly::add_infeed() {
  const HbmPlan& plan = scheduled_.plan;
  const hlo::Module& module = scheduled_.module;
  const Computation& entry = module.entry_computation();
  const auto granules = static_cast<std::uint32_t>(plan.infeed_granules);
  isa::OpInfo info;
  info.name = "infeed";
  info.category = "infeed";
  const std::vector<InstructionId> parameters = entry.parameters();
  for (std::int64_t number : module.infeed_parameters) {
    const hlo::Shape& shape = entry.at(parameters.at(static_cast<std::size_t>(number))).shape;
    info.hbm_bytes += static_cast<std::uint64_t>(shape.unpadded_bytes());
    info.shape += (info.shape.empty() ? "" : ", ") + to_string(shape);
  }
  program_.infeed_bytes = plan.infeed_granules * isa::kHbmGranuleBytes;
  program_.infeed_host_bytes = info.hbm_bytes;
  MadeKernel made;
  made.number = static_cast<std::uint32_t>(program_.kernels.size());
  made.called.stands_apart = true;
  program_.kernels.push_back(infeed_kernel(granules, target_));
  SequencedCall call;
  call.operands = {{static_cast<std::uint32_t>(plan.infeed_granule), 0}};
  add_call(made, std::move(info), std::move(call));
}

/// First granules of the operands, then of the results; 0 for what stands in no buffer.
std::vector<CallOperand> addresses(const HbmPlan& plan, const Computation& entry,
                                   const HloInstruction& instruction) {
  std::vector<CallOperand> all;
  const auto add = [&](InstructionId id) {
    const std::vector<std::uint64_t>& granules = plan.granules_of[static_cast<std::size_t>(id)];
    const std::vector<std::int64_t>& steps = plan.steps_of[static_cast<std::size_t>(id)];
    if (granules.empty()) all.push_back({});
    for (std::size_t i = 0; i < granules.size(); ++i) {
      all.push_back({static_cast<std::uint32_t>(granules[i]), steps[i]});
    }
  };
  if (is_bucket_phase(instruction)) {
    // The arrays, one behind the other, and the landing place of a start.
    const bool is_start = instruction.opcode == HloOpcode::kAllReduceStart;
    add(is_start ? instruction.id : instruction.operands[0]);
    return {all.front(), all.back()};
  }
  if (instruction.opcode == HloOpcode::kAllReduce) {
    return {{static_cast<std::uint32_t>(
                 plan.granules_of[static_cast<std::size_t>(instruction.id)].at(0)),
             0}};
  }
  for (InstructionId operand : instruction.operands) add(operand);
  add(instruction.id);
  if (is_update_of_iteration(instruction)) {
    const IterationPlace place = iteration_place(entry, instruction);
    all.back().number += static_cast<std::uint32_t>(place.granule);
    all.back().step += place.step;
  }
  return all;
}

void Assembly::add_all(const ScheduledModule& scheduled) {
  for (const HloInstruction& instruction : scheduled.module.entry_computation().instructions) {
    if (is_bookkeeping(instruction)) continue;
    if (scheduled.plan.written_in_place.count(instruction.id) != 0) continue;
    if (runs_region(instruction)) {
      add_region(scheduled, instruction);
    } else {
      add_op(scheduled, instruction);
    }
  }
}

/// Behind it something else begins than the next call.
void Assembly::add_straight(const ScheduledModule& scheduled) {
  add_all(scheduled);
  calls_.finish();
}

/// The only kernel of a body, where it can loop by itself.
const HloInstruction* looping_kernel(const ScheduledModule& body) {
  const HloInstruction* only = nullptr;
  for (const HloInstruction& instruction : body.module.entry_computation().instructions) {
    if (is_bookkeeping(instruction)) continue;
    if (body.plan.written_in_place.count(instruction.id) != 0) continue;
    if (only != nullptr || !is_kernel_sequence(instruction)) return nullptr;
    only = &instruction;
  }
  return only;
}

/// State is what a result leaves where an operand stands. The addresses no longer move: the kernel
/// moves them.
SequenceLoop loop_around(std::uint64_t trips, std::size_t operand_count,
                         std::vector<CallOperand>& addresses) {
  SequenceLoop loop;
  loop.trips = trips;
  loop.next.assign(operand_count, -1);
  for (std::size_t i = 0; i < operand_count; ++i) {
    for (std::size_t result = operand_count; result < addresses.size(); ++result) {
      if (addresses[i].step != 0 || addresses[result].step != 0) continue;
      if (addresses[i].number != addresses[result].number) continue;
      loop.next[i] = static_cast<int>(result - operand_count);
    }
  }
  for (CallOperand& address : addresses) {
    loop.steps.push_back(address.step);
    address.step = 0;
  }
  return loop;
}

void Assembly::add_region(const ScheduledModule& scheduled, const HloInstruction& instruction) {
  const ScheduledRegion& region =
      scheduled.regions[static_cast<std::size_t>(instruction.tuple_index)];
  if (region.trips) {
    if (const HloInstruction* kernel = looping_kernel(region.bodies[0])) {
      add_op(region.bodies[0], *kernel, *region.trips);
      return;
    }
    calls_.finish();
    top_.counted_loop(*region.trips, [&] { add_straight(region.bodies[0]); });
    return;
  }
  calls_.finish();
  const auto granule_of = [](const ScheduledModule& module, InstructionId id) {
    return static_cast<std::uint32_t>(module.plan.granules_of[static_cast<std::size_t>(id)].at(0));
  };
  isa::ControlOp op;
  op.name = instruction.name.substr(0, instruction.name.rfind(".region"));
  op.op_name = instruction.metadata.op_name;
  op.source = hlo::source_of(scheduled.module, instruction.metadata);
  const std::size_t at = program_.control.size();
  program_.control.push_back(std::move(op));
  if (region.is_loop) {
    const ScheduledModule& test = region.bodies[1];
    const Computation& code = test.module.entry_computation();
    const isa::ControlPoint point = top_.tested_loop(
        granule_of(test, code.parameters().back()), [&] { add_straight(test); },
        [&] { add_straight(region.bodies[0]); });
    program_.control[at].points = {point};
    return;
  }
  const InstructionId selector = instruction.operands[0];
  const std::vector<isa::ControlPoint> points =
      top_.branches(granule_of(scheduled, selector), region.by_predicate, region.bodies.size(),
                    [&](std::size_t i) { add_straight(region.bodies[i]); });
  program_.control[at].branches = static_cast<std::uint32_t>(region.bodies.size());
  program_.control[at].points = points;
}

/// Of a sequence the members that have no kernel by themselves are named.
void Assembly::refuse(const hlo::Module& module, const HloInstruction& instruction,
                      const std::string& why) {
  bool has_named = false;
  if (is_kernel_sequence(instruction)) {
    hlo::Module inside = module;
    inside.entry = instruction.called[0];
    for (const HloInstruction& member : inside.entry_computation().instructions) {
      if (is_bookkeeping(member)) continue;
      try {
        make_kernel_(inside, member, {}, {});
      } catch (const WorkloadError& error) {
        refusals_.add(inside, member, error.what(), target_);
        has_named = true;
      }
    }
  }
  if (!has_named) refusals_.add(module, instruction, why, target_);
}

std::string key_of(const SequenceLoop& loop) {
  std::string key = std::to_string(loop.trips);
  for (std::int64_t step : loop.steps) key += " " + std::to_string(step);
  for (int next : loop.next) key += "," + std::to_string(next);
  return key;
}

/// Bytes of the operands and results whose places move from one iteration to the next.
std::uint64_t moving_bytes(const Computation& entry, const HloInstruction& instruction,
                           const SequenceLoop& loop) {
  std::vector<hlo::Shape> shapes;
  for (InstructionId operand : instruction.operands) shapes.push_back(entry.at(operand).shape);
  const std::vector<hlo::Shape>& results = instruction.shape.elements;
  shapes.insert(shapes.end(), results.begin(), results.end());
  if (!instruction.shape.is_tuple()) shapes.push_back(instruction.shape);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < loop.steps.size(); ++i) {
    if (loop.steps[i] != 0) bytes += static_cast<std::uint64_t>(shapes.at(i).unpadded_bytes());
  }
  return bytes;
}

/// Granules of each array of a shape: one, or those of a tuple.
void add_sizes(const hlo::Shape& shape, std::vector<std::uint64_t>& sizes) {
  if (!shape.is_tuple()) return sizes.push_back(granules(shape));
  for (const hlo::Shape& element : shape.elements) sizes.push_back(granules(element));
}

/// What the call of an instruction writes, and how much it moves. `trips`: of the kernel;
/// `trips_around`: of the loop whose iterations move its addresses.
void add_ranges(const Computation& entry, const HloInstruction& instruction, std::uint64_t trips,
                std::uint64_t trips_around, SequencedCall& call) {
  std::vector<std::uint64_t> sizes;
  for (InstructionId operand : instruction.operands) add_sizes(entry.at(operand).shape, sizes);
  const std::size_t reads = sizes.size();
  add_sizes(instruction.shape, sizes);
  TPU_CHECK(sizes.size() == call.operands.size(),
            instruction.name << " has " << call.operands.size() << " addresses of " << sizes.size()
                             << " arrays");
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const CallOperand& address = call.operands[i];
    if (i >= reads) {
      call.writes.push_back(range_of(address, sizes[i], std::max(trips, trips_around)));
    }
    call.granules += sizes[i] * (address.step == 0 ? 1 : trips);
  }
}

/// The kernel of an instruction. Its first call decides its place: behind one that is low it is
/// high, where it has room.
const MadeKernel& Assembly::kernel_for(const hlo::Module& module, const HloInstruction& instruction,
                                       const SequenceLoop& loop) {
  const std::string key = kernel_fingerprint(module, instruction) + key_of(loop);
  const auto found = kernel_of_.find(key);
  if (found != kernel_of_.end()) return found->second;
  const auto add = [&](const KernelPlace& place) -> const MadeKernel& {
    LoweredKernel lowered = make_kernel_(module, instruction, place, loop);
    const auto number = static_cast<std::uint32_t>(program_.kernels.size());
    program_.kernels.push_back(std::move(lowered.kernel));
    CalledKernel called{place, lowered.vmem_use, lowered.cycles, std::move(lowered.first_loads),
                        !place.caller_starts_loads};
    return kernel_of_[key] = {number, std::move(called)};
  };
  const bool is_apart = stands_apart(module, instruction);
  if (!is_apart && calls_.asks_for_high()) {
    try {
      return add({true, true});
    } catch (const NoRoomAbove&) {
    }
  }
  return add({false, !is_apart});
}

/// A kernel and its call; with trips the kernel loops by itself.
void Assembly::add_op(const ScheduledModule& scheduled, const HloInstruction& instruction,
                      std::uint64_t trips) {
  const hlo::Module& module = scheduled.module;
  const Computation& entry = module.entry_computation();
  SequencedCall call;
  call.operands = addresses(scheduled.plan, entry, instruction);
  if (!stands_apart(module, instruction)) {
    add_ranges(entry, instruction, trips, trips > 1 ? 1 : top_.trips(), call);
  }
  SequenceLoop loop;
  if (trips > 1) loop = loop_around(trips, instruction.operands.size(), call.operands);
  if (call.operands.size() > kMostKernelAddresses) {
    refusals_.add(module, instruction,
                  "expected at most " + std::to_string(kMostKernelAddresses) +
                      " operands and results, found " + std::to_string(call.operands.size()),
                  target_);
    return;
  }
  const MadeKernel* made = nullptr;
  try {
    made = &kernel_for(module, instruction, loop);
  } catch (const WorkloadError& error) {
    refuse(module, instruction, error.what());
    return;
  }
  isa::OpInfo info = op_info(module, instruction, target_);
  for (std::uint64_t* work : {&info.flops, &info.matmul_flops, &info.padded_matmul_flops}) {
    *work *= trips;
  }
  info.hbm_bytes += (trips - 1) * moving_bytes(entry, instruction, loop);
  add_call(*made, std::move(info), std::move(call));
}

}  // namespace

std::string kernel_fingerprint(const hlo::Module& module, const HloInstruction& instruction) {
  const Computation& entry = module.entry_computation();
  HloInstruction anonymous = instruction;
  std::string operands;
  for (std::size_t i = 0; i < anonymous.operands.size(); ++i) {
    const HloInstruction* start = i == 0 ? uniform_start(entry, instruction) : nullptr;
    HloInstruction operand = start != nullptr ? *start : entry.at(anonymous.operands[i]);
    if (operand.opcode != HloOpcode::kConstant || operand.shape.rank() != 0) {
      HloInstruction array;
      array.opcode = HloOpcode::kParameter;
      array.shape = operand.shape;
      operand = std::move(array);
    }
    operands += value_key(module, operand);
    anonymous.operands[i] = static_cast<InstructionId>(i);
  }
  return value_key(module, anonymous) + operands;
}

isa::Program assemble_program(const ScheduledModule& scheduled, const Target& target,
                              const KernelMaker& make_kernel) {
  return Assembly(scheduled, target, make_kernel).run();
}

}  // namespace tpu::compiler
