#include "workloads/compiler/kernels/contraction/pixel_lines.h"

#include <algorithm>

#include "workloads/compiler/kernels/contraction/contraction_blocks.h"
#include "workloads/compiler/kernels/tiles/step_counter.h"

namespace tpu::compiler {

namespace {

/// Of the vector unit, for a tile, and for a piece of straight code beside its tiles.
constexpr double kTileLineCycles = 1, kPackedTileLineCycles = 1.5, kLinePieceCycles = 11;
/// Tiles in a piece of straight code, at most.
constexpr std::uint32_t kTilesInPiece = 16;

}  // namespace

void PixelLines::set_line(std::int64_t image_pixels, std::int64_t first, std::int64_t last) {
  pixels = static_cast<std::uint32_t>(image_pixels);
  left = 8 * tiles_of(std::max<std::int64_t>(0, -first), 8);
  line_rows = left + 8 * tiles_of(std::max(image_pixels, last + 1), 8);
}

PixelLines::Piece PixelLines::piece() const {
  Piece found;
  found.pixel_tiles = largest_divisor(pixel_tiles(), kTilesInPiece);
  found.tiles = largest_divisor(tiles, kTilesInPiece / found.pixel_tiles);
  found.lines = largest_divisor(lines, kTilesInPiece / (found.pixel_tiles * found.tiles));
  return found;
}

double PixelLines::cycles() const {
  const Piece of = piece();
  const double all = double(lines) * tiles * pixel_tiles();
  return all * (is_packed(type) ? kPackedTileLineCycles : kTileLineCycles) +
         all / (of.lines * of.tiles * of.pixel_tiles) * kLinePieceCycles;
}

/// Where a line ends inside of a tile, zeros stand behind it.
void PixelLines::emit(KernelBuilder& builder, MatmulMemory& memory, const VmemAddress& block,
                      VmemRegion region) const {
  const Piece of = piece();
  const std::uint32_t tile = tile_rows(type), pixel = tiles * tile, line = pixel_tiles() * pixel;
  builder.new_block();
  StepCounter counter(builder,
                      {lines / of.lines, tiles / of.tiles, pixel_tiles() / of.pixel_tiles});
  builder.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> digits = counter.present();
    const SReg from = weighted_sum(
        builder, digits, {of.lines * line, of.tiles * tile, of.pixel_tiles * pixel}, block.base);
    const SReg to = weighted_sum(
        builder, digits, {of.lines * image_line(), of.tiles * line_rows, 8 * of.pixel_tiles});
    for (std::uint32_t l = 0; l < of.lines; ++l) {
      for (std::uint32_t t = 0; t < of.tiles; ++t) {
        for (std::uint32_t p = 0; p < of.pixel_tiles; ++p) {
          builder.store(
              {region, left + l * image_line() + t * line_rows + 8 * p, to},
              memory.load_rows(
                  type, {block.region, block.offset + l * line + t * tile + p * pixel, from}));
        }
      }
    }
    counter.advance(counter.next());
  });
  builder.new_block();
  const auto part = static_cast<int>(pixels % 8);
  if (part == 0) return;
  StepCounter ends(builder, {lines, tiles});
  builder.loop(ends.steps(), [&](SReg) {
    const VmemAddress last(region, left + 8 * (pixel_tiles() - 1),
                           weighted_sum(builder, ends.present(), {image_line(), line_rows}));
    const MReg inside = builder.vector_compare(
        isa::Opcode::kVcmpLtS32, builder.shift_right(builder.lane_sequence(), 7), part);
    builder.store(last, builder.select(inside, builder.load(last), 0.0F));
    ends.advance(ends.next());
  });
  builder.new_block();
}

void clear_line_ends(KernelBuilder& builder, MatmulMemory& memory, hlo::ElementType type,
                     const VmemAddress& block, std::uint32_t lines, std::uint32_t line_rows,
                     std::uint32_t pixels, std::uint32_t tiles) {
  builder.new_block();
  builder.loop(lines, [&](SReg line) {
    SReg row = builder.mul(line, line_rows);
    if (block.base) row = builder.add(row, block.base);
    memory.clear_rows(type, {block.region, block.offset, row}, pixels, tiles_of(pixels, 8), tiles);
  });
  builder.new_block();
}

}  // namespace tpu::compiler
