#include "traces/event_tables.h"

#include <array>
#include <utility>
#include <vector>

#include "models/machine.h"
#include "traces/core_events.h"
#include "traces/program_tables.h"

namespace tpu::traces {
namespace {

using U64 = std::vector<std::uint64_t>;
using U32 = std::vector<std::uint32_t>;

constexpr std::array<const char*, 4> kMxuColumns{"mxu0_busy_cycles", "mxu1_busy_cycles",
                                                 "mxu2_busy_cycles", "mxu3_busy_cycles"};

}  // namespace

void add_events(const Events& events, Hdf5Contents& contents) {
  Table& ops = contents.tables["events/ops"];
  ops.add("core", column_of<std::uint32_t>(events.ops, [](auto& e) { return e.core; }));
  ops.add("op", column_of<std::uint32_t>(events.ops, [](auto& e) { return e.op; }));
  ops.add("begin_cycle", column_of<std::uint64_t>(events.ops, [](auto& e) { return e.begin; }));
  ops.add("end_cycle", column_of<std::uint64_t>(events.ops, [](auto& e) { return e.end; }));
  ops.add("matmul_pushes",
          column_of<std::uint64_t>(events.ops, [](auto& e) { return e.matmul_pushes; }));
  ops.add("vector_alu_ops",
          column_of<std::uint64_t>(events.ops, [](auto& e) { return e.vector_alu_ops; }));
  ops.add("hbm_bytes", column_of<std::uint64_t>(events.ops, [](auto& e) { return e.hbm_bytes; }));

  for (std::size_t mxu = 0; mxu < kMxuColumns.size(); ++mxu) {
    ops.add(kMxuColumns[mxu],
            column_of<std::uint64_t>(events.ops, [&](auto& e) { return e.mxu_busy[mxu]; }));
  }

  Table& waits = contents.tables["events/waits"];
  waits.add("core", column_of<std::uint32_t>(events.waits, [](auto& e) { return e.core; }));
  waits.add("reason", column_of<std::uint32_t>(events.waits, [](auto& e) { return e.reason; }));
  waits.add("begin_cycle", column_of<std::uint64_t>(events.waits, [](auto& e) { return e.begin; }));
  waits.add("end_cycle", column_of<std::uint64_t>(events.waits, [](auto& e) { return e.end; }));

  const std::vector<DmaEvent>& list = events.dmas;
  Table& dmas = contents.tables["events/dmas"];
  dmas.add("source_chip", column_of<std::uint32_t>(list, [](auto& e) { return e.source_chip; }));
  dmas.add("source_core", column_of<std::uint32_t>(list, [](auto& e) { return e.source_core; }));
  dmas.add("source_space", column_of<std::uint32_t>(list, [](auto& e) { return e.source; }));
  dmas.add("destination_chip",
           column_of<std::uint32_t>(list, [](auto& e) { return e.destination_chip; }));
  dmas.add("destination_core",
           column_of<std::uint32_t>(list, [](auto& e) { return e.destination_core; }));
  dmas.add("destination_space",
           column_of<std::uint32_t>(list, [](auto& e) { return e.destination; }));
  dmas.add("begin_cycle", column_of<std::uint64_t>(list, [](auto& e) { return e.begin; }));
  dmas.add("end_cycle", column_of<std::uint64_t>(list, [](auto& e) { return e.end; }));
  dmas.add("bytes", column_of<std::uint64_t>(list, [](auto& e) { return e.bytes; }));
}

Events events_of(const Hdf5Contents& contents) {
  Events events;
  const Table& ops = contents.table("events/ops");
  events.ops.resize(ops.rows());
  const U32 &op_core = ops.column<std::uint32_t>("core"), &op = ops.column<std::uint32_t>("op");
  const U64 &op_begin = ops.column<std::uint64_t>("begin_cycle"),
            &op_end = ops.column<std::uint64_t>("end_cycle"),
            &pushes = ops.column<std::uint64_t>("matmul_pushes"),
            &alu = ops.column<std::uint64_t>("vector_alu_ops"),
            &hbm = ops.column<std::uint64_t>("hbm_bytes");
  for (std::size_t i = 0; i < events.ops.size(); ++i) {
    events.ops[i] = {op_core[i], op[i], op_begin[i], op_end[i], pushes[i], alu[i], hbm[i], {}};
  }
  for (std::size_t mxu = 0; mxu < kMxuColumns.size(); ++mxu) {
    const U64& busy = ops.column<std::uint64_t>(kMxuColumns[mxu]);
    for (std::size_t i = 0; i < busy.size(); ++i) events.ops[i].mxu_busy[mxu] = busy[i];
  }
  const Table& waits = contents.table("events/waits");
  events.waits.resize(waits.rows());
  for (std::size_t i = 0; i < events.waits.size(); ++i) {
    events.waits[i] = {waits.column<std::uint32_t>("core")[i],
                       checked_enum<CoreState>(waits.column<std::uint32_t>("reason")[i],
                                               static_cast<std::uint32_t>(CoreState::kCount),
                                               contents.file + ": events/waits: reason"),
                       waits.column<std::uint64_t>("begin_cycle")[i],
                       waits.column<std::uint64_t>("end_cycle")[i]};
  }
  const Table& dmas = contents.table("events/dmas");
  events.dmas.resize(dmas.rows());
  const auto space = [&](const char* column, std::size_t row) {
    return checked_enum<isa::MemorySpace>(
        dmas.column<std::uint32_t>(column)[row],
        static_cast<std::uint32_t>(isa::MemorySpace::kOutfeed) + 1,
        contents.file + ": events/dmas: " + column);
  };
  for (std::size_t i = 0; i < events.dmas.size(); ++i) {
    DmaEvent& event = events.dmas[i];
    event.source_chip = dmas.column<std::uint32_t>("source_chip")[i];
    event.source_core = dmas.column<std::uint32_t>("source_core")[i];
    event.source = space("source_space", i);
    event.destination_chip = dmas.column<std::uint32_t>("destination_chip")[i];
    event.destination_core = dmas.column<std::uint32_t>("destination_core")[i];
    event.destination = space("destination_space", i);
    event.begin = dmas.column<std::uint64_t>("begin_cycle")[i];
    event.end = dmas.column<std::uint64_t>("end_cycle")[i];
    event.bytes = dmas.column<std::uint64_t>("bytes")[i];
  }
  return events;
}

Table enumerations_table() {
  std::vector<std::string> enumeration, name;
  U32 number;
  const auto add = [&](const char* of, std::uint32_t value, std::string_view text) {
    enumeration.emplace_back(of);
    number.push_back(value);
    name.emplace_back(text);
  };
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(CoreState::kCount); ++i) {
    add("reason", i, to_string(static_cast<CoreState>(i)));
  }
  for (std::uint32_t i = 0; i < kUnits; ++i) add("unit", i, to_string(static_cast<Unit>(i)));
  for (std::uint32_t i = 0; i <= static_cast<std::uint32_t>(isa::MemorySpace::kOutfeed); ++i) {
    add("space", i, space_name(static_cast<isa::MemorySpace>(i)));
  }
  const std::pair<isa::BufferRole, const char*> roles[] = {
      {isa::BufferRole::kParameter, "parameter"},
      {isa::BufferRole::kOutput, "output"},
      {isa::BufferRole::kTemporary, "temporary"},
      {isa::BufferRole::kConstant, "constant"},
      {isa::BufferRole::kInfeed, "infeed"}};
  for (const auto& [role, text] : roles) add("role", static_cast<std::uint32_t>(role), text);
  return Table().add("enumeration", enumeration).add("number", number).add("name", name);
}

}  // namespace tpu::traces
