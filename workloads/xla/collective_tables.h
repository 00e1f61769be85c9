#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "isa/listing/packed_listing.h"
#include "workloads/graph/graph.h"
#include "workloads/xla/address_uses.h"

namespace tpu::xla {

/// The device (chip * 2 + core) of each partition. On eight cores a ring; the order on others is
/// not known, there it is that of their numbers.
std::vector<std::uint32_t> devices_of_partitions(std::uint32_t partitions);

/// The tag of the tables that the compiler makes for itself and prints nowhere.
constexpr const char* kTableTag = "deduplicated constant";

/// A table as an operand of a call: the `number`th of `count` tables that the call takes.
struct TableUse {
  std::uint32_t call = 0;
  std::uint32_t number = 0;
  std::uint32_t count = 1;
};

/// The calls that take each table, by allocation.
std::unordered_map<std::uint32_t, std::vector<TableUse>> table_uses(
    const isa::PackedListing& packed, const AddressUses& uses);

/// A table that the compiler makes for a collective operation, as experiments showed it to be. The
/// `device` of a partition is chip * 2 + core.
///   all-gather: a row per partition: rank in its group, device of the next, of the previous, 0.
///     With several tables the group is a grid of 2 x 2 ... (cores and the chips along both axes):
///     each table has the rank along one axis and the neighbours there, the most significant first
///   all-to-all: a row per partition: number of its group, rank in it; and the devices of the
///   groups
/// `words` is the size of the table, which tells the two of an all-to-all apart. Empty for other
/// operations, group sizes or slices than those that were tried (eight cores).
std::vector<std::uint32_t> collective_table(const hlo::HloInstruction& collective,
                                            std::uint32_t partitions, std::size_t words,
                                            const TableUse& use);

}  // namespace tpu::xla
