#include "traces/column_texts.h"

#include <algorithm>
#include <string_view>

namespace tpu::traces {
namespace {

struct Row {
  std::string_view name;  ///< "column", or "table:column" where tables differ.
  const char* units;
  const char* text;
};

constexpr Row kColumns[] = {
    {"parameters:path", "", "dotted name, as in configurations"},
    {"parameters:value", "", "value as text"},
    {"parameters:unit", "", "unit of the value"},
    {"help", "", "what the parameter is"},
    {"summary:name", "", "name of the number"},
    {"summary:value", "", "the number; units as in its name"},
    {"core", "", "number of the core in the slice"},
    {"chip", "", "number of the chip in the slice"},
    {"core_of_chip", "", "number of the core on its chip"},
    {"late_core", "", "number of the core that was waited for"},
    {"waited_for:cycles", "cycles", "waited for it"},
    {"beside_op", "", "row of the table ops that the core executed; 4294967295: none"},
    {"transfers_beside:cycles", "cycles", "under way meanwhile"},
    {"end_cycle", "cycles", "end, since the run began"},
    {"begin_cycle", "cycles", "begin, since the run began"},
    {"step", "", "number of the step, from 0 on"},
    {"bundles", "", "bundles issued"},
    {"scalar_ops", "", "scalar operations issued"},
    {"vector_alu_ops", "", "vector ALU operations issued, two slots a cycle"},
    {"vector_loads", "", "vector loads issued"},
    {"vector_stores", "", "vector stores issued"},
    {"matmul_pushes", "", "pushes of eight rows into MXUs, once per block of 128x128"},
    {"weight_pushes", "", "pushes of weights into MXUs"},
    {"xlu_pushes", "", "pushes into the cross-lane unit"},
    {"eup_pushes", "", "pushes into the transcendental unit"},
    {"dmas", "", "DMAs issued"},
    {"hbm_read_bytes", "bytes", "HBM to VMEM or SMEM"},
    {"hbm_write_bytes", "bytes", "VMEM to HBM, and infeed"},
    {"ici_bytes", "bytes", "sent to other cores"},
    {"unit", "", "unit of the core (enumerations: unit)"},
    {"op", "", "row of the table ops"},
    {"ops:name", "", "name of the HLO instruction"},
    {"category", "", "kind of operation, in XLA's words"},
    {"op_name", "", "scope of the framework"},
    {"source", "", "line of the user's program"},
    {"shape", "", "shape of the result, with its layout"},
    {"flops", "FLOP", "useful, of one execution; 0: unknown"},
    {"matmul_flops", "FLOP", "of dots and convolutions, of one execution"},
    {"padded_matmul_flops", "FLOP", "the same with dimensions padded to the MXU"},
    {"ops:hbm_bytes", "bytes", "compulsory, of one execution"},
    {"estimated_cycles", "cycles", "XLA's own estimate of one execution; 0: none"},
    {"vmem_bytes", "bytes", "of VMEM that the compiler gave its kernel; 0: unknown"},
    {"op_counters:count", "", "executions"},
    {"kernel", "", "number of the kernel in the program; ops of equal code have one"},
    {"kernels:name", "", "name of the kernel"},
    {"kernels:bundles", "", "of its code"},
    {"instructions", "", "of its code"},
    {"operand", "", "row of the table ops that made it, or number of the parameter"},
    {"is_parameter", "", "1: the operand is a parameter of the program"},
    {"op_counters:cycles", "cycles", "of all executions"},
    {"buffers:name", "", "name of the buffer"},
    {"role", "", "what it is for (enumerations: role)"},
    {"index", "", "number of the parameter or output"},
    {"granule", "KiB", "first granule in the HBM of the core"},
    {"buffers:bytes", "bytes", "with the padding of tiles"},
    {"unpadded_bytes", "bytes", "without the padding of tiles"},
    {"buffer", "", "row of the table buffers"},
    {"first_op", "", "first op, a row of ops, with data in the buffer"},
    {"last_op", "", "last op, a row of ops, with data in the buffer"},
    {"enumeration", "", "column whose numbers have the names"},
    {"number", "", "number that stands for the name"},
    {"enumerations:name", "", "the name"},
    {"events/ops:hbm_bytes", "bytes", "moved from and to the HBM"},
    {"reason", "", "what was waited for (enumerations: reason)"},
    {"source_chip", "", "chip that sends"},
    {"source_core", "", "core of that chip"},
    {"source_space", "", "memory that is read (enumerations: space)"},
    {"destination_chip", "", "chip that receives"},
    {"destination_core", "", "core of that chip"},
    {"destination_space", "", "memory that is written (enumerations: space)"},
    {"events/dmas:bytes", "bytes", "moved by the DMA"},
    {"control:name", "", "name of the while or conditional"},
    {"branches", "", "branches of a conditional; 0: a while"},
    {"control", "", "row of the table control"},
    {"executions", "", "how often it ran"},
    {"least_trips", "", "least trips of an execution"},
    {"most_trips", "", "most trips of an execution"},
    {"stated", "", "1: path stated by --trips or --branch"},
    {"assumed", "", "1: path assumed, its data was not followed"},
    {"path", "", "row of the table paths"},
    {"branch", "", "number of the branch"},
    {"path_branches:count", "", "how often the branch ran"},
    {"loss", "", "loss of the step"},
    {"notes:text", "", "what was not modelled or not confirmed"},
    {"training:name", "", "name of the number"},
    {"training:value", "", "the number; units as in its name"},
    {"training_shapes:name", "", "a shape that steps have: step, last batch, evaluation"},
    {"training_shapes:batch", "", "examples of such a step on all cores"},
    {"training_shapes:cycles", "cycles", "of such a step, its batch there"},
    {"input_cycles", "cycles", "that the input pipeline takes for the batch"},
    {"compile_cycles", "cycles", "that the host takes to compile the shape"},
    {"training_causes:name", "", "where time goes"},
    {"training_causes:cycles", "cycles", "of the training, by cause"},
    {"training_steps:cycles", "cycles", "from the end of a step to the end of the next"},
    {"training_steps:steps", "", "how many took so long"},
    {"host_verdict:text", "", "what bounds the input pipeline, and what would lift it"},
    {"word", "", "word of the command line of the run, but for where its reports went"},
    {"what_if:name", "", "what is changed"},
    {"as_it_is_ms", "ms",
     "mean step without the change, of the program compiled anew; 0: the run's"},
    {"settings", "", "flags that make the change"},
    {"step_time_ms", "ms", "mean step"},
    {"examples_per_s", "1/s", "examples of all cores"},
    {"problem", "", "why it did not run; empty: it ran"},
    {"model_flops", "FLOP", "useful, of a step on a core"},
    {"critical_path:resource", "", "what the time goes to"},
    {"critical_path:path_cycles", "cycles", "on the critical path"},
    {"critical_path:share", "1", "of the run: mean gain of freeing it over all orders"},
    {"free_resources:free", "", "resources that take no time; empty: none"},
    {"free_resources:cycles", "cycles", "of the run then, the program the same"},
    {"links:from_chip", "", "chip that sends over the link"},
    {"links:to_chip", "", "chip at its other end"},
    {"links:direction", "", "of the link: +x, -x, +y, -y, +z, -z"},
    {"links:bytes", "bytes", "that DMAs of the counted steps took over the link"},
    {"links:utilization", "1", "of what the link could carry in the counted steps"},
    {"parts:part", "", "part beside the cores"},
    {"parts:activity", "", "what it does; idle: nothing, and why"},
    {"parts:cycles", "cycles",
     "that it does so, in the counted steps; of a channel of the HBM: "
     "its clocks"},
    {"channel", "", "number of the channel among those of the core"},
    {"hbm_channels:bytes", "bytes", "that passed the channel from then to its next row"},
    {"host_stages:stage", "", "stage of the input pipeline of a host"},
    {"host_stages:capacity_examples_per_s", "1/s", "most that the stage lets through"},
    {"host_stages:examples_per_s", "1/s", "that went through it in the counted steps"},
    {"host_stages:utilization", "1", "share of its capacity that was used"},
};

const Row* find(std::string_view name) {
  const auto row = std::find_if(std::begin(kColumns), std::end(kColumns),
                                [&](const Row& each) { return each.name == name; });
  return row == std::end(kColumns) ? nullptr : row;
}

std::string in_words(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

/// Columns of accounts say in their names what was counted.
ColumnText text_of_account(const std::string& column) {
  const auto before = [&](std::string_view ending) -> std::string {
    const bool ends = column.size() > ending.size() &&
                      column.compare(column.size() - ending.size(), ending.size(), ending) == 0;
    return ends ? in_words(column.substr(0, column.size() - ending.size())) : "";
  };
  if (const std::string unit = before("_busy_cycles"); !unit.empty()) {
    return {"cycles", "in which " + unit + " works"};
  }
  if (const std::string wait = before("_wait_cycles"); !wait.empty()) {
    return {"cycles", "of waits: " + wait};
  }
  if (const std::string resource = before("_path_cycles"); !resource.empty()) {
    return {"cycles", "on the critical path: " + resource};
  }
  if (const std::string resource = before("_share_cycles"); !resource.empty()) {
    return {"cycles", "of the op that depend on it, mean of the cores: " + resource};
  }
  if (const std::string resource = before("_free_gains_cycles"); !resource.empty()) {
    return {"cycles", "that a run with a free one gains in the op, mean of the cores: " + resource};
  }
  if (const std::string result = before("_result_cycles"); !result.empty()) {
    return {"cycles", "that the schedule awaits a result of: " + result};
  }
  for (const char* state : {"issue", "delay", "finished"}) {
    if (column == std::string(state) + "_cycles")
      return {"cycles", "in the state: " + in_words(state)};
  }
  const std::string cause = before("_cycles");
  if (cause.empty()) return {};
  return {"cycles", "of the schedule, by cause: " + cause};
}

}  // namespace

ColumnText column_text(const std::string& table, const std::string& column) {
  const Row* row = find(table + ":" + column);
  if (row == nullptr) row = find(column);
  if (row != nullptr) return {row->units, row->text};
  return text_of_account(column);
}

void describe_columns(Hdf5Contents& contents) {
  for (auto& [path, table] : contents.tables) {
    for (const Table::NamedColumn& column : table.columns()) {
      const ColumnText text = column_text(path, column.name);
      table.describe(column.name, text.units, text.text);
    }
  }
}

}  // namespace tpu::traces
