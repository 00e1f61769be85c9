#include "traces/program_tables.h"

#include <algorithm>
#include <numeric>

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
  table.add("vmem_bytes",
            column_of<std::uint64_t>(ops, [](const auto& o) { return o.vmem_bytes; }));
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
    ops[i].vmem_bytes = table.column<std::uint64_t>("vmem_bytes")[i];
  }
  return ops;
}

Table control_table(const std::vector<isa::ControlOp>& control) {
  Table table;
  table.add("name", column_of<std::string>(control, [](const auto& c) { return c.name; }));
  table.add("op_name", column_of<std::string>(control, [](const auto& c) { return c.op_name; }));
  table.add("source", column_of<std::string>(control, [](const auto& c) { return c.source; }));
  table.add("branches",
            column_of<std::uint32_t>(control, [](const auto& c) { return c.branches; }));
  return table;
}

Table control_points_table(const std::vector<isa::ControlOp>& control) {
  std::vector<std::uint32_t> owner;
  std::vector<isa::ControlPoint> points;
  for (std::size_t i = 0; i < control.size(); ++i) {
    owner.resize(owner.size() + control[i].points.size(), static_cast<std::uint32_t>(i));
    points.insert(points.end(), control[i].points.begin(), control[i].points.end());
  }
  Table table;
  table.add("control", owner);
  table.add("bundle", column_of<std::uint32_t>(points, [](const auto& p) { return p.bundle; }));
  table.add("trip_when_taken",
            column_of<std::uint32_t>(points, [](const auto& p) { return p.trip_when_taken; }));
  table.add("first_branch",
            column_of<std::uint32_t>(points, [](const auto& p) { return p.first_branch; }));
  table.add("end_branch",
            column_of<std::uint32_t>(points, [](const auto& p) { return p.end_branch; }));
  return table;
}

std::vector<isa::ControlOp> control_of(const Table& ops, const Table& points,
                                       const std::string& file) {
  std::vector<isa::ControlOp> control(ops.rows());
  for (std::size_t i = 0; i < control.size(); ++i) {
    control[i].name = ops.column<std::string>("name")[i];
    control[i].op_name = ops.column<std::string>("op_name")[i];
    control[i].source = ops.column<std::string>("source")[i];
    control[i].branches = ops.column<std::uint32_t>("branches")[i];
  }
  for (std::size_t i = 0; i < points.rows(); ++i) {
    const std::uint32_t owner = points.column<std::uint32_t>("control")[i];
    isa::ControlPoint point;
    point.bundle = points.column<std::uint32_t>("bundle")[i];
    point.trip_when_taken = points.column<std::uint32_t>("trip_when_taken")[i] != 0;
    point.first_branch = points.column<std::uint32_t>("first_branch")[i];
    point.end_branch = points.column<std::uint32_t>("end_branch")[i];
    if (owner >= control.size() || point.end_branch > control[owner].branches ||
        point.first_branch > point.end_branch) {
      throw WorkloadError(file + ": control_points: row " + std::to_string(i) +
                          ": expected a loop or conditional of the " +
                          std::to_string(control.size()) + " and some of its branches");
    }
    control[owner].points.push_back(point);
  }
  return control;
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

Table lifetimes_table(const std::vector<isa::Lifetime>& lifetimes) {
  std::vector<std::uint32_t> buffer(lifetimes.size());
  std::iota(buffer.begin(), buffer.end(), 0U);
  Table table;
  table.add("buffer", buffer);
  table.add("first_op", column_of<std::uint32_t>(lifetimes, [](auto& l) { return l.first_op; }));
  table.add("last_op", column_of<std::uint32_t>(lifetimes, [](auto& l) { return l.last_op; }));
  return table;
}

std::vector<isa::Lifetime> lifetimes_of(const Table& table, std::size_t buffers, std::size_t ops,
                                        const std::string& file) {
  std::vector<isa::Lifetime> lifetimes;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    lifetimes.push_back(
        {table.column<std::uint32_t>("first_op")[i], table.column<std::uint32_t>("last_op")[i]});
    const isa::Lifetime& life = lifetimes.back();
    const bool has_ops =
        life.first_op <= life.last_op && life.last_op < std::max<std::size_t>(1, ops);
    if (has_ops && table.column<std::uint32_t>("buffer")[i] == i) continue;
    throw WorkloadError(file + ": lifetimes: row " + std::to_string(i) + ": expected buffer " +
                        std::to_string(i) + " between two of " + std::to_string(ops) + " ops");
  }
  if (lifetimes.size() == buffers) return lifetimes;
  throw WorkloadError(file + ": lifetimes: expected a row for each of " + std::to_string(buffers) +
                      " buffers, found " + std::to_string(lifetimes.size()));
}

}  // namespace tpu::traces
