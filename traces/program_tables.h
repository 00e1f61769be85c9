#pragma once

#include <string>
#include <vector>

#include "isa/program.h"
#include "traces/hdf5_file.h"

namespace tpu::traces {

/// One number or text of each element of a list, as a column.
template <class Type, class List, class Member>
std::vector<Type> column_of(const List& list, Member&& member) {
  std::vector<Type> column;
  column.reserve(list.size());
  for (const auto& each : list) column.push_back(static_cast<Type>(member(each)));
  return column;
}

/// The ops and buffers of a program as tables of program files and run files.
Table ops_table(const std::vector<isa::OpInfo>& ops);
std::vector<isa::OpInfo> ops_of(const Table& table);
/// The loops and conditionals, and their branches in the code.
Table control_table(const std::vector<isa::ControlOp>& control);
Table control_points_table(const std::vector<isa::ControlOp>& control);
std::vector<isa::ControlOp> control_of(const Table& ops, const Table& points,
                                       const std::string& file);
Table buffers_table(const std::vector<isa::Buffer>& buffers);
/// Without the data of constants. `file` names the file in errors.
std::vector<isa::Buffer> buffers_of(const Table& table, const std::string& file);
/// Between which ops each buffer holds data.
Table lifetimes_table(const std::vector<isa::Lifetime>& lifetimes);
std::vector<isa::Lifetime> lifetimes_of(const Table& table, std::size_t buffers, std::size_t ops,
                                        const std::string& file);

}  // namespace tpu::traces
