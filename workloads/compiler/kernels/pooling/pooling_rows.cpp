#include <algorithm>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "sim/base/power_of_two.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/kernels/pooling/pooling.h"

namespace tpu::compiler {

namespace {

SReg in_register(KernelBuilder& builder, Index index) {
  const ScalarOperand operand = to_operand(builder, index);
  return operand.reg ? operand.reg : builder.constant(operand.immediate);
}

Refusal refuse(const hlo::HloInstruction& instruction, const hlo::Shape& image,
               const std::string& why) {
  return {"no kernel for " + std::string(hlo::to_string(instruction.opcode)) + " " +
          hlo::to_string(image) + " -> " + hlo::to_string(instruction.shape) + " \"" +
          instruction.name + "\": " + why};
}

/// Pixels in front of a row or column with gaps.
Index pixels_before(KernelBuilder& builder, Index place, std::int64_t base) {
  if (base == 1) return place;
  return is_power_of_two(base) ? divide_by_power_of_two(builder, place, floor_log2(base))
                               : divide(builder, place, base);
}

}  // namespace

bool is_trivial(const hlo::WindowDimension& window) {
  return window.size == 1 && window.stride == 1 && window.padding_low == 0 &&
         window.padding_high == 0 && window.base_dilation == 1;
}

OrRefusal<PoolingPlan> read_window(const hlo::HloInstruction& instruction, const hlo::Shape& image,
                                   const hlo::Shape& windows) {
  if (image.type != hlo::ElementType::kF32 && image.type != hlo::ElementType::kBf16) {
    return refuse(instruction, image, "expected f32 or bf16");
  }
  if (image.rank() < 3 || image.rank() != windows.rank() ||
      image.layout.minor_to_major != windows.layout.minor_to_major) {
    return refuse(instruction, image,
                  "expected three or more dimensions and one order of dimensions");
  }
  PoolingPlan plan;
  plan.packed = image.type == hlo::ElementType::kBf16;
  const std::vector<std::int64_t> order(image.layout.minor_to_major.rbegin(),
                                        image.layout.minor_to_major.rend());
  const std::size_t majors = order.size() - 2;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto d = static_cast<std::size_t>(order[i]);
    const hlo::WindowDimension& window = instruction.window.at(d);
    PoolingPlan::Dimension dimension;
    dimension.image = image.dimensions[d];
    dimension.windows = windows.dimensions[d];
    dimension.size = window.size;
    dimension.stride = window.stride;
    dimension.padding = window.padding_low;
    dimension.dilation = window.window_dilation;
    dimension.base = window.base_dilation;
    if (window.reversal || window.padding_low < 0 || window.padding_high < 0) {
      return refuse(instruction, image, "expected no reversal or negative padding");
    }
    if (i + 1 == majors) {
      plan.columns = dimension;
    } else if (i + 2 == majors) {
      plan.rows = dimension;
      if (!is_power_of_two(dimension.base) &&
          !has_modulo(dimension.base, dimension.padded() + dimension.reach())) {
        return refuse(instruction, image,
                      "expected a base dilation that numbers of rows can be divided by");
      }
    } else if (!is_trivial(window) || (i < majors && dimension.image != 1)) {
      return refuse(
          instruction, image,
          "expected a window over the dimensions next to the two minor ones of the layout");
    }
  }
  const std::vector<std::int64_t> extents = physical_extents(image);
  plan.pixel_tiles = ceil_divide(extents[majors], 8) * ceil_divide(extents[majors + 1], 128);
  plan.chunk_tiles = plan.pixel_tiles;
  return plan;
}

Index rows_in_image(KernelBuilder& builder, const PoolingPlan::Dimension& dimension, Index first,
                    std::int64_t count) {
  // Of the image in front of a row.
  const auto before = [&](Index row) {
    row = row.plus(dimension.base - 1 - dimension.padding);
    const std::int64_t most = dimension.image * dimension.base;
    if (row.is_constant()) {
      row = {{}, std::clamp<std::int64_t>(row.offset, 0, most)};
    } else {
      row = {builder.max(builder.min(to_operand(builder, row), most), 0), 0};
    }
    return pixels_before(builder, row, dimension.base);
  };
  const Index low = before(first);
  const Index high = before(first.plus(count));
  if (low.is_constant() && high.is_constant()) return {{}, high.offset - low.offset};
  return {builder.sub(to_operand(builder, high), to_operand(builder, low)), 0};
}

PReg is_in_image(KernelBuilder& builder, const PoolingPlan::Dimension& dimension, Index row) {
  const SReg place = in_register(builder, row.plus(-dimension.padding));
  const std::int64_t behind = dimension.image * dimension.base;
  const PReg inside = builder.and_(builder.less(-1, place), builder.less(place, behind));
  if (dimension.base == 1) return inside;
  const SReg gap = in_register(
      builder, is_power_of_two(dimension.base)
                   ? modulo_power_of_two(builder, {place, 0}, floor_log2(dimension.base))
                   : modulo(builder, {place, 0}, dimension.base));
  return builder.and_(inside, builder.equal(gap, 0));
}

BoxDma pixel_dma(KernelBuilder& builder, const PoolingPlan& plan, bool to_vmem, std::int64_t pixels,
                 std::int64_t distance) {
  const StridedBox box{static_cast<std::uint32_t>(plan.pixel_granules()),
                       static_cast<std::uint32_t>(pixels),
                       static_cast<std::uint32_t>(plan.hbm_pixel_granules()),
                       static_cast<std::uint32_t>(distance * plan.pixel_granules())};
  return {builder, to_vmem, box};
}

RowRing::RowRing(KernelBuilder& builder, std::int64_t rows, std::int64_t row_rows)
    : builder_(builder),
      rows_(rows),
      row_rows_(row_rows),
      region_(builder.allocate_vmem(static_cast<std::uint64_t>(rows * row_rows + 8))),
      first_(builder.scalar_variable(0)) {}

void RowRing::reset() { builder_.set(first_, 0); }

void RowRing::advance(std::int64_t rows) {
  rows %= rows_;
  if (rows == 0) return;
  const SReg moved = builder_.add(builder_.get(first_), rows);
  const PReg wraps = builder_.less(rows_ - 1, moved);
  builder_.set(first_, builder_.select(wraps, builder_.sub(moved, rows_), moved));
}

SReg RowRing::row(Index ahead) {
  SReg slot = builder_.get(first_);
  if (!ahead.is_constant() || ahead.offset % rows_ != 0) {
    const std::int64_t offset = ahead.is_constant() ? ahead.offset % rows_ : ahead.offset;
    const SReg moved = builder_.add(slot, to_operand(builder_, {ahead.reg, offset}));
    const PReg wraps = builder_.less(rows_ - 1, moved);
    slot = builder_.select(wraps, builder_.sub(moved, rows_), moved);
  }
  return builder_.mul(slot, static_cast<std::uint32_t>(row_rows_));
}

void RowRing::fill(std::uint32_t word) {
  const auto registers = static_cast<std::uint64_t>(ceil_divide(rows_ * row_rows_, 8));
  builder_.loop(ceil_divide(registers, 8), [&](SReg index) {
    const SReg first = builder_.mul(index, 64);
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(8, registers); ++i) {
      // The last group may begin earlier: it fills some registers twice.
      const std::uint64_t last = (registers - std::min<std::uint64_t>(8, registers)) * 8;
      const SReg from = builder_.min(first, last);
      builder_.store(VmemAddress(region_, static_cast<std::int64_t>(8 * i), from), word);
    }
  });
}

WindowRows::WindowRows(KernelBuilder& builder, const PoolingPlan& plan, std::uint32_t fill,
                       std::uint32_t flag)
    : builder_(builder),
      plan_(plan),
      fill_(fill),
      flag_(flag),
      ring_(builder, ring_rows(plan), plan.row_rows()),
      row_dma_(pixel_dma(builder, plan, true, plan.columns.image, plan.columns.base)) {
  if (plan.columns.padded() > plan.columns.image) ring_.fill(fill);
}

/// `ahead`: ring rows between the window's first row and the first one to start.
void WindowRows::start_rows(SReg hbm, Index first_row, std::int64_t ahead, std::int64_t count,
                            Index flag) {
  const PoolingPlan::Dimension& rows = plan_.rows;
  const bool always_inside = rows.padding == 0 && rows.padded() == rows.image;
  const std::int64_t margin = plan_.columns.padding * plan_.pixel_rows();
  for (std::int64_t i = 0; i < count; ++i) {
    const SReg slot = ring_.row({{}, ahead + i});
    const Index row = first_row.plus(i);
    const Index image_row = pixels_before(builder_, row.plus(-rows.padding), rows.base);
    const SReg place = builder_.add(
        hbm, to_operand(builder_, multiply(builder_, image_row,
                                           plan_.columns.image * plan_.hbm_pixel_granules())));
    const VmemAddress to(ring_.region(), margin, slot);
    const ScalarOperand on = to_operand(builder_, flag.plus(flag_));
    if (always_inside) {
      row_dma_.start(place, to, on);
      continue;
    }
    const PReg inside = is_in_image(builder_, rows, row);
    builder_.guarded(inside, [&] { row_dma_.start(place, to, on); });
    const SReg outside = builder_.select(inside, 0, 1);
    builder_.if_(builder_.equal(outside, 1), [&] {
      const std::int64_t registers = plan_.row_rows() / 8;
      in_pieces(builder_, registers, 8, [&](Index first, std::int64_t many) {
        const Index place = multiply(builder_, first, 8);
        for (std::int64_t r = 0; r < many; ++r) {
          builder_.store(VmemAddress(ring_.region(), place.offset + 8 * r, slot, place.reg), fill_);
        }
      });
      if (plan_.row_rows() % 8 != 0) {
        builder_.store(VmemAddress(ring_.region(), 8 * registers, slot).mask(0x0f), fill_);
      }
    });
  }
}

void WindowRows::start(SReg hbm, Index window) {
  const PoolingPlan::Dimension& rows = plan_.rows;
  if (window.is_constant() && window.offset == 0) {
    ring_.reset();
    start_rows(hbm, {}, 0, rows.reach(), {});
    return;
  }
  const Index first = multiply(builder_, window, rows.stride).plus(rows.reach() - rows.fresh());
  const std::int64_t before = window.is_constant() ? window.offset - 1 : plan_.buffers - 2;
  start_rows(hbm, first, rows.reach() + before * rows.fresh(), rows.fresh(),
             modulo_power_of_two(builder_, window, floor_log2(plan_.buffers)));
}

SReg WindowRows::granules(Index window) {
  const PoolingPlan::Dimension& rows = plan_.rows;
  const std::int64_t row = plan_.columns.image * plan_.pixel_granules();
  const Index fresh = rows_in_image(
      builder_, rows, multiply(builder_, window, rows.stride).plus(rows.reach() - rows.fresh()),
      rows.fresh());
  const Index first = rows_in_image(builder_, rows, {}, rows.reach());
  return builder_.select(builder_.equal(to_operand(builder_, window), 0), first.offset * row,
                         to_operand(builder_, multiply(builder_, fresh, row)));
}

}  // namespace tpu::compiler
