#pragma once

#include <vector>

#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Chooses orders for the arrays of rank >= 2 whose order in `orders` is empty, so that what the
/// program moves is least: bytes of arrays that stand in memory, padding of tiles included; copies
/// where a reshape, transpose, broadcast or reduction joins two orders that do not go together;
/// blocks that dots have to transpose.
///
/// Arrays that elementwise operations, slices, pads or concatenations join have one order. The
/// search goes from row-major order everywhere to a local minimum: one order is changed at a time,
/// and those of its neighbours with it as long as that pays. Arrays that other operations read or
/// make, and those that a computation other than the entry takes or gives, stay in row-major order;
/// tables of rows that are gathered or added to cost a copy where they lie otherwise.
/// `given`: orders of arrays that others have or want, by instruction; an array that lies otherwise
/// costs a copy.
/// An order in which the sums of a reduction fit no VMEM is taken where there is no other.
void search_orders(const hlo::Computation& computation, bool is_entry, const Target& target,
                   const std::vector<DimensionOrder>& given, std::vector<DimensionOrder>& orders);

}  // namespace tpu::compiler
