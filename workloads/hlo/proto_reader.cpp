#include "workloads/hlo/proto_reader.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>

#include "sim/base/error.h"
#include "workloads/graph/replica_groups.h"
#include "workloads/hlo/proto_cursor.h"
#include "workloads/hlo/proto_instruction.h"
#include "workloads/hlo/proto_values.h"

namespace tpu::hlo {

namespace {

/// The HloModuleProto in a message: the message itself, or the one inside an HloProto, HloSnapshot
/// or HloUnoptimizedSnapshot, which have theirs, or the message around it, as their first field.
ProtoCursor module_message(const ProtoCursor& outer) {
  ProtoCursor message = outer;
  for (int depth = 0; depth < 3; ++depth) {
    std::optional<ProtoCursor> first;
    bool is_module = false;
    for (ProtoCursor fields = message; fields.next();) {
      if (fields.field() == 1 && !first) first = fields.message("hlo_module");
      is_module = is_module || fields.field() == 6 || fields.field() == 5;
    }
    if (is_module || !first) break;
    message = *first;
  }
  return message;
}

class ProtoReader {
 public:
  ProtoReader(std::string_view file, std::string_view bytes)
      : message_(module_message(ProtoCursor(file, bytes, "HloModuleProto"))) {}

  Module read() {
    std::int64_t entry_id = 0;
    std::optional<ProtoCursor> schedule;
    while (message_.next()) {
      switch (message_.field()) {
        case 1:
          module_.name = message_.identifier("name");
          break;
        case 3:
          computation(message_.message("computations"));
          break;
        case 4:
          entry_layout(message_.message("host_program_shape"));
          break;
        case 6:
          entry_id = message_.integer("entry_computation_id");
          break;
        case 7:
          schedule = message_.message("schedule");
          break;
        case 8:
          aliases(message_.message("input_output_alias"));
          break;
        case 15:
          devices(message_.message("device_assignment"));
          break;
        case 17:
          frames(message_.message("stack_frame_index"));
          break;
        case 18:
          donors(message_.message("buffer_donor"));
          break;
        case 19:
          frontend_attributes(message_.message("frontend_attributes"));
          break;
        default:
          break;
      }
    }
    if (module_.computations.empty()) message_.fail("an HloModuleProto with computations");
    link();
    const auto entry = computations_.find(entry_id);
    if (entry == computations_.end()) message_.fail("an entry_computation_id of a computation");
    module_.entry = entry->second;
    if (schedule) order(*schedule);
    refuse_recursion();
    return std::move(module_);
  }

 private:
  void computation(ProtoCursor message) {
    const auto id = static_cast<ComputationId>(module_.computations.size());
    Computation& made = module_.computations.emplace_back();
    std::unordered_map<std::int64_t, InstructionId>& ids = instructions_.emplace_back();
    std::int64_t own_id = 0, root_id = 0;
    std::unordered_map<std::string_view, bool> names;
    while (message.next()) {
      switch (message.field()) {
        case 1:
          made.name = message.identifier("name");
          break;
        case 2:
          instruction(message.message("instructions"), made, ids);
          break;
        case 5:
          own_id = message.integer("id");
          break;
        case 6:
          root_id = message.integer("root_id");
          break;
        case 8: {
          const std::string_view thread = message.text("execution_thread");
          if (!thread.empty() && thread != "main") {
            made.raw_attributes = "execution_thread=\"" + escaped(thread) + "\"";
          }
          break;
        }
        default:
          break;
      }
    }
    const auto root = ids.find(root_id);
    if (made.name.empty()) message.fail("a computation with a name");
    if (root == ids.end()) message.fail("a root_id of an instruction of " + made.name);
    made.root = root->second;
    if (!computations_.emplace(own_id, id).second) {
      message.fail("an id that no other computation has, found " + std::to_string(own_id));
    }
  }

  /// Operands come before their users, so that no cycle can be.
  void instruction(const ProtoCursor& message, Computation& computation,
                   std::unordered_map<std::int64_t, InstructionId>& ids) {
    ProtoInstruction read = read_instruction(message);
    HloInstruction& made = read.made;
    made.id = static_cast<InstructionId>(computation.instructions.size());
    for (std::int64_t operand : read.operands) {
      const auto found = ids.find(operand);
      if (found == ids.end()) {
        message.fail("operand_ids of instructions that stand before " + made.name + ", found " +
                     std::to_string(operand));
      }
      made.operands.push_back(found->second);
    }
    if (!ids.emplace(read.id, made.id).second) {
      message.fail("an id that no other instruction has, found " + std::to_string(read.id));
    }
    if (!read.predecessors.empty() || !read.called.empty()) {
      const auto id = static_cast<ComputationId>(module_.computations.size()) - 1;
      links_.push_back({id, made.id, std::move(read.predecessors), std::move(read.called)});
    }
    computation.instructions.push_back(std::move(made));
  }

  void link() {
    for (const Link& link : links_) {
      HloInstruction& made =
          module_.computations[static_cast<std::size_t>(link.computation)].at(link.instruction);
      const auto& ids = instructions_[static_cast<std::size_t>(link.computation)];
      for (std::int64_t before : link.predecessors) {
        const auto found = ids.find(before);
        if (found == ids.end()) {
          message_.fail("control_predecessor_ids in the computation of " + made.name);
        }
        made.control_predecessors.edit().push_back(found->second);
      }
      for (std::int64_t called : link.called) {
        const auto found = computations_.find(called);
        if (found == computations_.end()) {
          message_.fail("called_computation_ids of this module at " + made.name + ", found " +
                        std::to_string(called));
        }
        made.called.push_back(found->second);
      }
    }
  }

  void refuse_recursion() const {
    // In a module of XLA callees stand before their callers: then there is no recursion.
    for (std::size_t id = 0; id < module_.computations.size(); ++id) {
      for (const HloInstruction& made : module_.computations[id].instructions) {
        for (ComputationId called : made.called) {
          if (static_cast<std::size_t>(called) >= id) {
            message_.fail("computations before those that call them, found " +
                          module_.computation(called).name + " called by " +
                          module_.computations[id].name);
          }
        }
      }
    }
  }

  /// Puts the instructions in the order of the schedule.
  void order(ProtoCursor message) {
    module_.raw_attributes =
        "is_scheduled=true" + (module_.raw_attributes.empty() ? "" : ", " + module_.raw_attributes);
    while (message.next()) {
      if (message.field() != 1) continue;
      std::int64_t key = 0;
      std::vector<std::int64_t> sequence;
      ProtoCursor entry = message.message("sequences");
      while (entry.next()) {
        if (entry.field() == 1) key = entry.integer("key");
        if (entry.field() != 2) continue;
        ProtoCursor list = entry.message("value");
        while (list.next()) {
          if (list.field() == 1) list.integers("instruction_ids", sequence);
        }
      }
      const auto found = computations_.find(key);
      if (found == computations_.end()) message.fail("a schedule of this module's computations");
      reorder(message, found->second, sequence);
    }
  }

  void reorder(const ProtoCursor& message, ComputationId id,
               const std::vector<std::int64_t>& sequence) {
    Computation& computation = module_.computations[static_cast<std::size_t>(id)];
    const auto& ids = instructions_[static_cast<std::size_t>(id)];
    std::vector<InstructionId> place(computation.instructions.size(), -1);
    std::vector<HloInstruction> ordered;
    ordered.reserve(sequence.size());
    for (std::int64_t number : sequence) {
      const auto found = ids.find(number);
      if (found == ids.end() || place[static_cast<std::size_t>(found->second)] >= 0) {
        message.fail("each instruction of " + computation.name + " once in its schedule");
      }
      HloInstruction& made = computation.at(found->second);
      for (InstructionId& operand : made.operands) {
        operand = place[static_cast<std::size_t>(operand)];
        if (operand < 0) message.fail("operands before their users in the schedule");
      }
      place[static_cast<std::size_t>(found->second)] = static_cast<InstructionId>(ordered.size());
      made.id = static_cast<InstructionId>(ordered.size());
      ordered.push_back(std::move(made));
    }
    if (ordered.size() != computation.instructions.size()) {
      message.fail("each instruction of " + computation.name + " once in its schedule");
    }
    for (HloInstruction& made : ordered) {
      made.renumber_predecessors(
          [&](InstructionId before) { return place[static_cast<std::size_t>(before)]; });
    }
    computation.instructions = std::move(ordered);
    computation.root = place[static_cast<std::size_t>(computation.root)];
  }

  void entry_layout(ProtoCursor message) {
    EntryLayout& layout = module_.entry_layout.edit();
    while (message.next()) {
      if (message.field() == 1) {
        layout.parameters.push_back(read_shape(message.message("parameters")));
      } else if (message.field() == 2) {
        layout.result = read_shape(message.message("result"));
      }
    }
  }

  void aliases(ProtoCursor message) {
    while (message.next()) {
      if (message.field() != 1) continue;
      Alias alias;
      ProtoCursor entry = message.message("entries");
      while (entry.next()) {
        if (entry.field() == 1) entry.integers("output_shape_index", alias.within_output);
        if (entry.field() == 2) alias.parameter_number = entry.integer("parameter_number");
        if (entry.field() == 3) entry.integers("parameter_shape_index", alias.within_parameter);
        if (entry.field() == 4) alias.must = entry.integer("kind") == 2;
      }
      if (!alias.within_output.empty()) {
        alias.output_index = alias.within_output.front();
        alias.within_output.erase(alias.within_output.begin());
      }
      module_.aliases.push_back(std::move(alias));
    }
  }

  void donors(ProtoCursor message) {
    std::string text;
    while (message.next()) {
      if (message.field() != 1) continue;
      std::int64_t parameter = 0;
      std::vector<std::int64_t> index;
      ProtoCursor entry = message.message("entries");
      while (entry.next()) {
        if (entry.field() == 1) parameter = entry.integer("parameter_number");
        if (entry.field() == 2) entry.integers("parameter_shape_index", index);
      }
      text += (text.empty() ? "" : ", ") + ("(" + std::to_string(parameter) + ", ") +
              list_text(index) + ")";
    }
    if (!text.empty()) module_.raw_attributes = "buffer_donor={ " + text + " }";
  }

  /// How many replicas and partitions the module runs on, where it says so.
  void devices(ProtoCursor message) {
    std::int64_t replicas = 1, partitions = 1;
    while (message.next()) {
      if (message.field() == 1) replicas = message.integer("replica_count");
      if (message.field() == 2) partitions = message.integer("computation_count");
    }
    if (replicas < 1 || replicas > kMostReplicas || partitions < 1 || partitions > kMostReplicas) {
      message.fail("from 1 to 2^20 replicas and partitions");
    }
    module_.replicas = replicas * partitions;
    module_.partitions = partitions;
  }

  void frames(ProtoCursor message) {
    StackFrames& tables = module_.stack_frames;
    const auto number = [](ProtoCursor& row) {
      const std::int64_t value = row.integer("a number");
      if (value < 0 || value >= INT32_MAX) row.fail("a number below 2^31");
      return static_cast<int>(value);
    };
    while (message.next()) {
      if (message.field() == 1) tables.files.push_back(escaped(message.text("file_names")));
      if (message.field() == 2) {
        tables.functions.push_back(escaped(message.text("function_names")));
      }
      if (message.field() == 3) {
        StackFrames::Location at;
        int* const columns[] = {&at.file,   &at.function, &at.line,
                                &at.column, &at.end_line, &at.end_column};
        ProtoCursor row = message.message("file_locations");
        while (row.next()) {
          if (row.field() <= 6) *columns[row.field() - 1] = number(row);
        }
        tables.locations.push_back(at);
      }
      if (message.field() == 4) {
        StackFrames::Frame frame;
        frame.parent = 1;
        ProtoCursor row = message.message("stack_frames");
        while (row.next()) {
          if (row.field() == 1) frame.location = number(row);
          if (row.field() == 2) frame.parent = number(row) + 1;
        }
        tables.frames.push_back(frame);
      }
    }
  }

  void frontend_attributes(const ProtoCursor& message) {
    module_.frontend_attributes = frontend_attributes_text(message);
  }

  /// References to what may stand later in the message.
  struct Link {
    ComputationId computation = -1;
    InstructionId instruction = -1;
    std::vector<std::int64_t> predecessors, called;
  };

  ProtoCursor message_;
  Module module_;
  std::unordered_map<std::int64_t, ComputationId> computations_;
  std::vector<std::unordered_map<std::int64_t, InstructionId>> instructions_;
  std::vector<Link> links_;
};

}  // namespace

Module read_hlo_proto(std::string_view file, std::string_view bytes) {
  return ProtoReader(file, bytes).read();
}

}  // namespace tpu::hlo
