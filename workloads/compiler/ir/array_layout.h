#pragma once

#include <cstdint>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// How arrays lie in HBM. One convention for all kernels:
///
/// - Rank >= 2: tiles T(8,128) over the two minor-most physical dimensions; bf16 as T(8,128)(2,1).
///   Physical order row-major, but for what a convolution or a pooling window touches: there the
///   spatial dimensions are the major ones and the two others follow in logical order, so that
///   NHWC lies as (H, W, N, C) = {3,0,2,1} and HWIO as (H, W, I, O) = {3,2,1,0}. Images of a
///   convolution with three spatial dimensions lie as (N, D, H, W, C).
/// - Rank 1: T(1024), 32-bit types only: element i stands in row i / 128, lane i % 128.
/// - Scalars: the first word of a granule, 32-bit types only.
/// - Only f32, s32, u32 and (rank >= 2) bf16 exist in memory: pass `widen` stores pred as 0 or 1 of
///   bf16 (rank >= 2) or s32, and bf16 of rank < 2 as f32.
/// - What the padding of tiles and rows holds is unspecified: a consumer masks it.
///
/// Two kernels never disagree about a layout: they read it in the shape.

/// The layout of an array of this type with the physical order given from minor to major.
hlo::Layout tiled_layout(hlo::ElementType type, std::vector<std::int64_t> minor_to_major);

/// tiled_layout() in row-major order.
hlo::Layout row_major_layout(hlo::ElementType type, std::int64_t rank);
/// The array in row-major order of its physical dimensions, which is the same bytes; vectors as
/// they are.
hlo::Shape as_it_lies(hlo::Shape shape);

/// The array in another type, its dimensions in the same order.
hlo::Shape in_type(hlo::Shape shape, hlo::ElementType type);

/// Granules from one place to the next along each physical dimension; 0 for the two minor ones,
/// whose places share tiles. Needs a layout.
std::vector<std::int64_t> major_strides(const hlo::Shape& shape);

/// Granules of 1 KiB that the array takes in HBM, tile padding included; at least 1. Tuples: the
/// sum over their elements.
std::uint64_t granules(const hlo::Shape& shape);

/// Registers of 1,024 elements that it fills, padding included.
double registers_of(const hlo::Shape& shape);
/// Of an array of 32 bits in the tiles that suit it best.
std::int64_t fewest_registers(const std::vector<std::int64_t>& extents);

/// Granules of a tile.
std::int64_t granules_of_tile(const hlo::Shape& shape);
/// Those of each tile that hold rows, of an array with a single tile of so few rows that they are
/// not all; else 0. Elementwise kernels leave the others, which are padding, as they are.
std::int64_t granules_with_rows(const hlo::Shape& shape);
/// Those that such kernels move.
std::int64_t moved_granules(const hlo::Shape& shape);

/// Extents of an array in physical order, major to minor (row-major without a layout).
std::vector<std::int64_t> physical_extents(const hlo::Shape& shape);

/// Logical dimensions in physical order, major to minor.
std::vector<std::int64_t> major_to_minor(const hlo::Shape& shape);

}  // namespace tpu::compiler
