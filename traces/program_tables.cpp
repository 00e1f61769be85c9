#include "traces/program_tables.h"

#include "sim/base/error.h"

namespace tpu::traces {

Table ops_table(const std::vector<isa::OpInfo>& ops) {
  Table table;
  table.add("name", column_of<std::string>(ops, [](const auto& o) { return o.name; }));
  table.add("category", column_of<std::string>(ops, [](const auto& o) { return o.category; }));
  table.add("op_name", column_of<std::string>(ops, [](const auto& o) { return o.op_name; }));
  table.add("source", column_of<std::string>(ops, [](const auto& o) { return o.source; }));
  table.add("shape", column_of<std::string>(ops, [](const auto& o) { return o.shape; }));
  table.add("flops", column_of<std::uint64_t>(ops, [](const auto& o) { return o.flops; }));
  table.add("matmul_flops",
            column_of<std::uint64_t>(ops, [](const auto& o) { return o.matmul_flops; }));
  table.add("padded_matmul_flops",
            column_of<std::uint64_t>(ops, [](const auto& o) { return o.padded_matmul_flops; }));
  table.add("hbm_bytes", column_of<std::uint64_t>(ops, [](const auto& o) { return o.hbm_bytes; }));
  table.add("estimated_cycles",
            column_of<std::uint64_t>(ops, [](const auto& o) { return o.estimated_cycles; }));
  return table;
}

std::vector<isa::OpInfo> ops_of(const Table& table) {
  std::vector<isa::OpInfo> ops(table.rows());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    ops[i].name = table.column<std::string>("name")[i];
    ops[i].category = table.column<std::string>("category")[i];
    ops[i].op_name = table.column<std::string>("op_name")[i];
    ops[i].source = table.column<std::string>("source")[i];
    ops[i].shape = table.column<std::string>("shape")[i];
    ops[i].flops = table.column<std::uint64_t>("flops")[i];
    ops[i].matmul_flops = table.column<std::uint64_t>("matmul_flops")[i];
    ops[i].padded_matmul_flops = table.column<std::uint64_t>("padded_matmul_flops")[i];
    ops[i].hbm_bytes = table.column<std::uint64_t>("hbm_bytes")[i];
    ops[i].estimated_cycles = table.column<std::uint64_t>("estimated_cycles")[i];
  }
  return ops;
}

Table buffers_table(const std::vector<isa::Buffer>& buffers) {
  Table table;
  table.add("name", column_of<std::string>(buffers, [](const auto& b) { return b.name; }));
  table.add("role", column_of<std::uint32_t>(buffers, [](const auto& b) { return b.role; }));
  table.add("index", column_of<std::uint32_t>(buffers, [](const auto& b) { return b.index; }));
  table.add("granule", column_of<std::uint64_t>(buffers, [](const auto& b) { return b.granule; }));
  table.add("bytes", column_of<std::uint64_t>(buffers, [](const auto& b) { return b.bytes; }));
  table.add("unpadded_bytes",
            column_of<std::uint64_t>(buffers, [](const auto& b) { return b.unpadded_bytes; }));
  table.add("shape", column_of<std::string>(buffers, [](const auto& b) { return b.shape; }));
  table.add("op_name", column_of<std::string>(buffers, [](const auto& b) { return b.op_name; }));
  return table;
}

std::vector<isa::Buffer> buffers_of(const Table& table, const std::string& file) {
  std::vector<isa::Buffer> buffers(table.rows());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::uint32_t role = table.column<std::uint32_t>("role")[i];
    if (role > static_cast<std::uint32_t>(isa::BufferRole::kInfeed)) {
      throw WorkloadError(file + ": buffers: expected a role from 0 to 4, found " +
                          std::to_string(role));
    }
    buffers[i].name = table.column<std::string>("name")[i];
    buffers[i].role = static_cast<isa::BufferRole>(role);
    buffers[i].index = table.column<std::uint32_t>("index")[i];
    buffers[i].granule = table.column<std::uint64_t>("granule")[i];
    buffers[i].bytes = table.column<std::uint64_t>("bytes")[i];
    buffers[i].unpadded_bytes = table.column<std::uint64_t>("unpadded_bytes")[i];
    buffers[i].shape = table.column<std::string>("shape")[i];
    buffers[i].op_name = table.column<std::string>("op_name")[i];
  }
  return buffers;
}

}  // namespace tpu::traces
