#include "models/core/liveness.h"

#include <array>

#include "isa/opcode_table.h"

namespace tpu {
namespace {

using isa::Opcode;

ScalarSet bit_of(char file, std::uint8_t reg) {
  if (reg == isa::kNoRegister) return 0;
  if (file == 's') return ScalarSet{1} << reg;
  if (file == 'p') return ScalarSet{1} << (isa::kScalarRegisters + reg);
  return 0;
}

bool is_root(const isa::OpcodeInfo& row) {
  switch (row.unit) {
    case isa::UnitKind::kControl:
    case isa::UnitKind::kDma:
    case isa::UnitKind::kSync:
      return true;
    default:
      return row.opcode == Opcode::kSst || row.opcode == Opcode::kSpop ||
             row.opcode == Opcode::kVpush;
  }
}

/// Whether an opcode has something to do with scalar registers, and which: a table, for millions of
/// instructions.
struct OpcodeUse {
  bool root = false;          ///< Whether it acts or not.
  bool guarded_root = false;  ///< Where it has a guard.
  bool computes = false;      ///< Its result is of the scalar unit.
  bool guard_alone = false;   ///< What it reads beside its guard is not.
  bool address = false;
  std::uint8_t operand_count = 0;
  char dest_file = 0;
  std::array<char, 4> operand_files{};
};

const std::array<OpcodeUse, isa::kOpcodeCount> kOpcodeUses = [] {
  std::array<OpcodeUse, isa::kOpcodeCount> all;
  for (std::size_t o = 0; o < all.size(); ++o) {
    const isa::OpcodeInfo& row = isa::info(static_cast<Opcode>(o));
    OpcodeUse& use = all[o];
    use.root = is_root(row);
    use.guarded_root = row.queue != isa::Queue::kNone || row.unit == isa::UnitKind::kMxu;
    use.computes = row.dest_file == 's' || row.dest_file == 'p';
    use.guard_alone = row.dest_file == 'v' || row.unit == isa::UnitKind::kMxu ||
                      row.unit == isa::UnitKind::kXlu || row.unit == isa::UnitKind::kEup;
    use.address = row.address != 0;
    use.operand_count = row.operand_count;
    use.dest_file = row.dest_file;
    use.operand_files = row.operand_files;
  }
  return all;
}();

const OpcodeUse& opcode_use(const isa::Instruction& instruction) {
  return kOpcodeUses[static_cast<std::size_t>(instruction.opcode)];
}

ScalarSet operands_read(const isa::Instruction& instruction, const OpcodeUse& of) {
  ScalarSet reads = 0;
  for (std::uint8_t i = 0; i < of.operand_count; ++i) {
    const isa::Operand& operand = instruction.operands[i];
    if (operand.kind == isa::Operand::Kind::kRegister) {
      reads |= bit_of(of.operand_files[i], operand.reg);
    }
  }
  if (of.address) {
    for (std::uint8_t base : instruction.address.base) reads |= bit_of('s', base);
    reads |= bit_of('s', instruction.address.mask_register);
  }
  return reads;
}

/// The flow of one kernel: uses of its instructions, what is live after each bundle and at entry.
struct Flow {
  std::vector<ScalarUse> uses;           ///< Of the instructions that touch scalar registers.
  std::vector<std::uint32_t> first_use;  ///< Per bundle, and one more.
  std::vector<ScalarSet> before;
  std::vector<ScalarSet> after;
  std::vector<std::uint32_t> branch;  ///< Target of a bundle's branch, or kNone.
  std::vector<std::uint32_t> callee;  ///< Kernel that a bundle calls, or kNone.
  std::vector<bool> call_guarded;
  std::vector<std::uint32_t> callers;  ///< Kernels that call it.
  /// Bundles behind which another one than the next may follow, or a call: all that changes
  /// elsewhere reaches the kernel here, or at its end.
  std::vector<std::uint32_t> joints;
  ScalarSet entry = 0;
  ScalarSet exit = 0;
  bool stale = true;      ///< Something that it follows from has changed since its last pass.
  bool has_loop = false;  ///< A branch goes back.
  bool passed = false;    ///< Each bundle has been visited.
};

constexpr std::uint32_t kNone = ~std::uint32_t{0};

ScalarSet before_bundle(const Flow& flow, std::size_t b) {
  const ScalarSet after = flow.after[b];
  ScalarSet written = 0;
  ScalarSet read = 0;
  for (std::uint32_t i = flow.first_use[b]; i < flow.first_use[b + 1]; ++i) {
    const ScalarUse& use = flow.uses[i];
    const bool live = use.root || (use.write & after) != 0;
    if (!live) continue;
    read |= use.reads;
    if (!use.guarded) written |= use.write;
  }
  return (after & ~written) | read;
}

Flow make_flow(const isa::Program& program, const isa::Kernel& kernel, const BriefCode& brief,
               bool followed) {
  Flow flow;
  flow.first_use.reserve(kernel.bundles.size() + 1);
  flow.after.assign(kernel.bundles.size(), 0);
  flow.branch.assign(kernel.bundles.size(), kNone);
  flow.callee.assign(kernel.bundles.size(), kNone);
  flow.call_guarded.assign(kernel.bundles.size(), false);
  for (std::size_t b = 0; b < kernel.bundles.size(); ++b) {
    flow.first_use.push_back(static_cast<std::uint32_t>(flow.uses.size()));
    const isa::Bundle& bundle = kernel.bundles[b];
    for (std::uint32_t k = 0; k < bundle.instruction_count; ++k) {
      const BriefInstruction& it = brief.begin(bundle)[k];
      if (!followed && !may_matter(it)) continue;
      const isa::Instruction& i = kernel.begin(bundle)[k];
      if (followed) {
        flow.uses.push_back(scalar_use_followed(i));
      } else {
        const ScalarUse use = scalar_use(i);
        if (use.root || use.write != 0) flow.uses.push_back(use);
      }
      if (i.opcode == Opcode::kSbrRel) {
        flow.branch[b] = i.operands[0].immediate;
        // The delay slot is the last bundle before the target.
        flow.has_loop |= flow.branch[b] <= b + 1;
      }
      if (i.opcode == Opcode::kCall) {
        flow.callee[b] = program.call_sites[i.operands[0].immediate].kernel;
        flow.call_guarded[b] = i.guard.predicate != isa::kNoRegister;
      }
    }
  }
  flow.first_use.push_back(static_cast<std::uint32_t>(flow.uses.size()));
  for (std::uint32_t b = 0; b < kernel.bundles.size(); ++b) {
    if (flow.callee[b] != kNone || (b > 0 && flow.branch[b - 1] != kNone)) flow.joints.push_back(b);
  }
  flow.before.resize(kernel.bundles.size());
  for (std::size_t b = 0; b < kernel.bundles.size(); ++b) flow.before[b] = before_bundle(flow, b);
  return flow;
}

/// One backward pass over a kernel, which marks the kernels that what changed concerns; true where
/// another pass may find more. Once all bundles have been visited, those before a change and the
/// joints are.
bool pass(std::vector<Flow>& flows, std::size_t k) {
  Flow& flow = flows[k];
  bool changed = false;
  flow.stale = false;
  const std::size_t count = flow.after.size();
  std::size_t joint = flow.joints.size();
  bool goes_on = true;  // What is live before the last visited bundle has changed.
  const auto before = [&](std::size_t b) { return b == count ? flow.exit : flow.before[b]; };
  for (std::size_t b = count; b-- > 0;) {
    if (flow.passed && !goes_on) {
      while (joint > 0 && flow.joints[joint - 1] > b) --joint;
      if (joint == 0) break;
      b = flow.joints[joint - 1];
    }
    goes_on = false;
    ScalarSet after = before(b + 1);
    if (b > 0 && flow.branch[b - 1] != kNone) after |= before(flow.branch[b - 1]);
    if (flow.callee[b] != kNone) {
      Flow& callee = flows[flow.callee[b]];
      if ((after & ~callee.exit) != 0) {
        callee.exit |= after;
        callee.stale = true;
      }
      after = flow.call_guarded[b] ? after | callee.entry : callee.entry;
    }
    if ((after & ~flow.after[b]) == 0) continue;
    flow.after[b] |= after;
    const ScalarSet live = flow.before[b];
    flow.before[b] = before_bundle(flow, b);
    goes_on = flow.before[b] != live;
    changed = true;
  }
  flow.passed = true;
  const ScalarSet entry = before(0);
  if ((entry & ~flow.entry) != 0) {
    flow.entry |= entry;
    for (const std::uint32_t caller : flow.callers) flows[caller].stale = true;
  }
  return changed && flow.has_loop;
}

}  // namespace

bool may_matter(const BriefInstruction& instruction) {
  const OpcodeUse& of = kOpcodeUses[instruction.opcode];
  return of.root || of.computes || instruction.guard != isa::kNoRegister;
}

ScalarUse scalar_use(const isa::Instruction& instruction) {
  const OpcodeUse& of = opcode_use(instruction);
  ScalarUse use;
  use.guarded = instruction.guard.predicate != isa::kNoRegister;
  use.root = of.root || (of.guarded_root && use.guarded);
  if (!use.root && !of.computes) return use;
  use.write = bit_of(of.dest_file, instruction.dest);
  if (use.guarded) use.reads |= bit_of('p', instruction.guard.predicate);
  if (!of.guard_alone) use.reads |= operands_read(instruction, of);
  return use;
}

ScalarUse scalar_use_followed(const isa::Instruction& instruction) {
  const OpcodeUse& of = opcode_use(instruction);
  ScalarUse use;
  use.root = true;
  use.guarded = instruction.guard.predicate != isa::kNoRegister;
  use.write = bit_of(of.dest_file, instruction.dest);
  use.reads = operands_read(instruction, of);
  if (use.guarded) use.reads |= bit_of('p', instruction.guard.predicate);
  return use;
}

std::vector<std::vector<ScalarSet>> live_after_bundles(const isa::Program& program,
                                                       const std::vector<BriefCode>& brief,
                                                       const FollowedKernels& followed) {
  std::vector<Flow> flows;
  flows.reserve(program.kernels.size());
  for (std::size_t k = 0; k < program.kernels.size(); ++k) {
    const bool follow = followed.follows(static_cast<std::uint32_t>(k));
    flows.push_back(make_flow(program, program.kernels[k], brief[k], follow));
  }
  for (std::size_t k = 0; k < flows.size(); ++k) {
    for (const std::uint32_t callee : flows[k].callee) {
      if (callee != kNone) flows[callee].callers.push_back(static_cast<std::uint32_t>(k));
    }
  }
  bool changed = true;
  while (changed) {
    changed = false;
    for (std::size_t k = flows.size(); k-- > 0;) {
      if (!flows[k].stale) continue;
      changed = true;
      while (pass(flows, k)) {
      }
    }
    // The top-level program runs once per step: what its beginning reads is live at its end.
    if ((flows[0].entry & ~flows[0].exit) != 0) {
      flows[0].exit |= flows[0].entry;
      flows[0].stale = changed = true;
    }
  }
  std::vector<std::vector<ScalarSet>> result;
  result.reserve(flows.size());
  for (Flow& flow : flows) result.push_back(std::move(flow.after));
  return result;
}

}  // namespace tpu
