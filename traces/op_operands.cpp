#include "traces/op_operands.h"

#include "sim/base/error.h"
#include "traces/program_tables.h"

namespace tpu::traces {

Table op_operands_table(const std::vector<OpOperand>& operands) {
  Table table;
  table.add("op", column_of<std::uint32_t>(operands, [](auto& o) { return o.op; }))
      .add("operand", column_of<std::uint32_t>(operands, [](auto& o) { return o.operand; }))
      .add("is_parameter",
           column_of<std::uint32_t>(operands, [](auto& o) { return o.is_parameter; }));
  return table;
}

std::vector<OpOperand> op_operands_of(const Hdf5Contents& contents, std::size_t ops) {
  const Table& table = contents.table("op_operands");
  std::vector<OpOperand> operands(table.rows());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    operands[i] = {table.column<std::uint32_t>("op")[i], table.column<std::uint32_t>("operand")[i],
                   table.column<std::uint32_t>("is_parameter")[i] != 0};
    const bool is_op = operands[i].is_parameter || operands[i].operand < ops;
    if (operands[i].op < ops && is_op) continue;
    throw WorkloadError(contents.file + ": op_operands: row " + std::to_string(i) +
                        ": expected ops below " + std::to_string(ops));
  }
  return operands;
}

}  // namespace tpu::traces
