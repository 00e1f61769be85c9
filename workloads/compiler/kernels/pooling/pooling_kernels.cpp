#include <algorithm>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/pooling/pooling.h"
#include "workloads/compiler/kernels/tiles/block_pipeline.h"

namespace tpu::compiler {

namespace {

using hlo::HloOpcode;
using isa::Opcode;

constexpr std::uint32_t kLowest = 0xff800000U;        ///< Minus infinity.
constexpr std::uint32_t kLowestPacked = 0xff80ff80U;  ///< Two of them.
constexpr std::int64_t kMostRegisters = 8;  ///< Of a pixel's chunk: straight code per pixel.
/// Rows of a window in straight code, each with a scalar register, and of its sums with another.
constexpr std::int64_t kMostStraightRows = 8, kMostStraightRowsWithSums = 6;
/// Columns of a window that a scatter reads before it writes the first.
constexpr std::int64_t kMostColumnsAtOnce = 8;

/// The registers that a chunk of a pixel takes; the last may be half a register.
struct PixelRegister {
  std::int64_t rows = 0;  ///< From the begin of the pixel.
  std::uint8_t mask = 0xff;
};
std::vector<PixelRegister> pixel_registers(const PoolingPlan& plan) {
  std::vector<PixelRegister> registers;
  for (std::int64_t row = 0; row < plan.pixel_rows(); row += 8) {
    const bool is_half = plan.pixel_rows() - row < 8;
    registers.push_back({row, is_half ? std::uint8_t{0x0f} : std::uint8_t{0xff}});
  }
  return registers;
}

Refusal refuse_window(const hlo::HloInstruction& instruction, const std::string& why) {
  return {"no kernel for " + std::string(hlo::to_string(instruction.opcode)) + " " +
          hlo::to_string(instruction.shape) + " \"" + instruction.name + "\": " + why};
}

/// The plan with the greatest part of a pixel for which `rows_needed(plan)` VMEM rows fit.
template <class RowsNeeded>
OrRefusal<PoolingPlan> with_chunk(PoolingPlan plan, const Target& target,
                                  const hlo::HloInstruction& instruction,
                                  RowsNeeded&& rows_needed) {
  const std::int64_t room = static_cast<std::int64_t>(target.vmem_bytes / 512) - 256;
  std::int64_t best = 0;
  for (std::int64_t tiles = 1; tiles <= plan.pixel_tiles; ++tiles) {
    if (plan.pixel_tiles % tiles != 0) continue;
    plan.chunk_tiles = tiles;
    if (rows_needed(plan) > room || ceil_divide(plan.pixel_rows(), 8) > kMostRegisters) continue;
    best = tiles;
  }
  if (best == 0) {
    return refuse_window(instruction, "expected the rows of a window, one tile of each pixel, in " +
                                          std::to_string(target.vmem_bytes >> 10) + " KiB of VMEM");
  }
  plan.chunk_tiles = best;
  return plan;
}

/// A register of an image as fp32: one, or of packed rows the even and the odd ones.
std::vector<VReg> unpacked(KernelBuilder& builder, bool packed, VReg value) {
  if (!packed) return {value};
  return {builder.unpack_even(value), builder.unpack_odd(value)};
}

/// Runs `body(column offset)` for each column of windows, some of them in one piece of code.
void for_columns(KernelBuilder& builder, std::int64_t count, std::int64_t unroll,
                 const std::function<void(Index)>& body) {
  const std::int64_t trips = count / unroll;
  if (trips > 1) {
    builder.loop(static_cast<std::uint64_t>(trips), [&](SReg index) {
      const Index first = multiply(builder, {index, 0}, unroll);
      for (std::int64_t i = 0; i < unroll; ++i) body(first.plus(i));
    });
  }
  for (std::int64_t i = trips > 1 ? trips * unroll : 0; i < count; ++i) body({{}, i});
}

/// The kernel of a reduce-window by addition or maximum.
///
/// A window's elements are combined where they stand; or its rows first: for each column of the
/// padded image the elements that a row of windows has in it, which stand as fp32 in a row of their
/// own, of which each window combines its columns. That is size + size steps in place of size *
/// size where windows overlap, and of a packed image each pixel is unpacked once. The choice is by
/// the vector unit's slots: a load, a store, and two operations a cycle.
class ReduceWindowKernel {
 public:
  static OrRefusal<PoolingPlan> plan(const hlo::HloInstruction& instruction,
                                     const hlo::Shape& image, const Target& target) {
    OrRefusal<PoolingPlan> window = read_window(instruction, image, instruction.shape);
    if (!window) return window;
    const auto with_buffers = [&](std::int64_t buffers) {
      window->buffers = buffers;
      return with_chunk(*window, target, instruction, [](const PoolingPlan& plan) {
        return WindowRows::ring_rows(plan) * plan.row_rows() +
               plan.buffers * plan.columns.windows * plan.pixel_rows() +
               (plan.is_rows_first ? halves(plan) * combined_rows(plan) : 0);
      });
    };
    const auto with_form = [&](bool is_rows_first) {
      window->is_rows_first = is_rows_first;
      OrRefusal<PoolingPlan> two = with_buffers(2);
      if (!two || !waits_for_rows(*two, target)) return two;
      OrRefusal<PoolingPlan> four = with_buffers(4);
      return four && four->chunk_tiles == two->chunk_tiles ? four : two;
    };
    const bool must = window->rows.size > kMostStraightRows;
    if (must || cycles_rows_first(*window) < cycles_by_window(*window)) {
      OrRefusal<PoolingPlan> rows_first = with_form(true);
      if (must || rows_first) return rows_first;
    }
    return with_form(false);
  }

  ReduceWindowKernel(const std::string& name, const PoolingPlan& plan, bool sums,
                     const Target& target)
      : plan_(plan), sums_(sums), builder_(name, target) {}

  LoweredKernel emit() {
    load_flag_ = BlockPipeline::allocate_flags(builder_, plan_.buffers);
    store_flag_ = BlockPipeline::allocate_flags(builder_, plan_.buffers);
    const SReg image = builder_.operand(0);
    const SReg result = builder_.operand(2);
    const std::uint32_t padding = sums_ ? 0 : plan_.packed ? kLowestPacked : kLowest;
    WindowRows rows(builder_, plan_, padding, load_flag_);
    result_ = builder_.allocate_vmem(
        static_cast<std::uint64_t>(plan_.buffers * plan_.columns.windows * plan_.pixel_rows() + 8));
    result_dma_ = pixel_dma(builder_, plan_, false, plan_.columns.windows);
    if (plan_.is_rows_first) {
      combined_ = builder_.allocate_vmem(
          static_cast<std::uint64_t>(halves(plan_) * combined_rows(plan_) + 8));
    }
    for_columns(builder_, plan_.chunks(), 1, [&](Index chunk) {
      const ScalarOperand offset =
          to_operand(builder_, multiply(builder_, chunk, plan_.pixel_granules()));
      emit_chunk(rows, builder_.add(image, offset), builder_.add(result, offset));
    });
    return lowered_kernel(builder_);
  }

 private:
  static std::int64_t halves(const PoolingPlan& plan) { return plan.packed ? 2 : 1; }
  /// VMEM rows of one row of combined columns, in whole registers.
  static std::int64_t combined_rows(const PoolingPlan& plan) {
    return round_up(plan.row_rows(), std::int64_t{8});
  }
  /// Whether a row of windows comes in less time than a few latencies of its DMAs.
  static bool waits_for_rows(const PoolingPlan& plan, const Target& target) {
    constexpr double kLatencies = 4;
    const auto granules =
        static_cast<double>(plan.rows.fresh() * plan.columns.image * plan.pixel_granules());
    return 1024 * granules < kLatencies * target.dma_latency_cycles * target.hbm_bytes_per_cycle;
  }
  static double cycles_by_window(const PoolingPlan& plan);
  static double cycles_rows_first(const PoolingPlan& plan);
  void emit_chunk(WindowRows& rows, SReg image, SReg result);
  void emit_windows(WindowRows& rows, Index buffer);
  void combine_rows(WindowRows& rows);
  void emit_columns(Index buffer);
  /// Combines what a register or two have with `all`.
  void combine(std::vector<VReg>& all, const std::vector<VReg>& values);
  void store_result(std::vector<VReg> all, Index place, std::uint8_t mask);

  PoolingPlan plan_;
  bool sums_;
  KernelBuilder builder_;
  std::uint32_t load_flag_ = 0, store_flag_ = 0;
  VmemRegion result_;
  VmemRegion combined_;  ///< Rows of a row of windows, combined; of packed ones the even, the odd.
  BoxDma result_dma_;
};

void ReduceWindowKernel::emit_chunk(WindowRows& rows, SReg image, SReg result) {
  const std::int64_t hbm_row = plan_.columns.windows * plan_.hbm_pixel_granules();
  const auto place = [this](Index buffer) {
    return multiply(builder_, buffer, plan_.columns.windows * plan_.pixel_rows());
  };
  BlockPipeline::Transfer load, store;
  load.flag = load_flag_;
  load.is_straight = false;
  load.start = [&](Index window, Index) { rows.start(image, window); };
  load.granules = [&](Index window) { return rows.granules(window); };
  store.flag = store_flag_;
  store.start = [=](Index window, Index buffer) {
    const Index row = multiply(builder_, window, hbm_row);
    result_dma_.start(builder_.add(result, to_operand(builder_, row)), at(result_, place(buffer)),
                      to_operand(builder_, buffer.plus(store_flag_)));
  };
  store.granules = [this](Index) { return plan_.columns.windows * plan_.pixel_granules(); };
  const BlockPipeline::Blocks blocks{plan_.rows.windows, false, plan_.buffers};
  BlockPipeline(builder_, blocks, load, store).run([&](Index, Index buffer) {
    if (plan_.is_rows_first) {
      combine_rows(rows);
      emit_columns(place(buffer));
    } else {
      emit_windows(rows, place(buffer));
    }
    rows.advance();
  });
}

/// Of a row of windows.
double ReduceWindowKernel::cycles_by_window(const PoolingPlan& plan) {
  const auto elements = static_cast<double>(plan.rows.size * plan.columns.size);
  const auto parts = static_cast<double>(halves(plan));
  const double operations =
      plan.packed ? elements * parts + (elements - 1) * parts + 1 : elements - 1;
  const auto registers =
      static_cast<double>(plan.columns.windows * ceil_divide(plan.pixel_rows(), 8));
  return registers * std::max(elements, operations / 2);
}

double ReduceWindowKernel::cycles_rows_first(const PoolingPlan& plan) {
  const auto parts = static_cast<double>(halves(plan));
  const auto rows = static_cast<double>(plan.rows.size);
  const auto columns = static_cast<double>(plan.columns.size);
  const double unpacking = plan.packed ? rows * parts : 0;
  const double of_column = std::max({rows, parts, (unpacking + (rows - 1) * parts) / 2});
  const double of_window =
      std::max(columns * parts, ((columns - 1) * parts + (plan.packed ? 1 : 0)) / 2);
  // Neighbours share registers.
  const std::int64_t window_rows =
      plan.columns.stride == 1 ? plan.pixel_rows() : round_up(plan.pixel_rows(), 8);
  return (static_cast<double>(plan.row_rows()) * of_column +
          static_cast<double>(plan.columns.windows * window_rows) * of_window) /
         8;
}

void ReduceWindowKernel::combine(std::vector<VReg>& all, const std::vector<VReg>& values) {
  if (all.empty()) {
    all = values;
    return;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = sums_ ? builder_.add(all[i], values[i]) : builder_.max(all[i], values[i]);
  }
}

void ReduceWindowKernel::store_result(std::vector<VReg> all, Index place, std::uint8_t mask) {
  const VReg value = plan_.packed ? builder_.pack_bf16(all[0], all[1]) : all[0];
  builder_.store(at(result_, place).mask(mask), value);
}

void ReduceWindowKernel::emit_windows(WindowRows& rows, Index buffer) {
  std::vector<SReg> window_rows;
  for (std::int64_t i = 0; i < plan_.rows.size; ++i) {
    window_rows.push_back(rows.row({{}, i * plan_.rows.dilation}));
  }
  const std::vector<PixelRegister> registers = pixel_registers(plan_);
  const std::int64_t loads =
      static_cast<std::int64_t>(registers.size()) * plan_.rows.size * plan_.columns.size;
  const std::int64_t unroll = std::clamp<std::int64_t>(32 / loads, 1, 4);
  for_columns(builder_, plan_.columns.windows, unroll, [&](Index column) {
    const Index left = multiply(builder_, column, plan_.columns.stride * plan_.pixel_rows());
    const Index target = add(builder_, multiply(builder_, column, plan_.pixel_rows()), buffer);
    for (const PixelRegister& part : registers) {
      std::vector<VReg> all;
      for (SReg row : window_rows) {
        for (std::int64_t k = 0; k < plan_.columns.size; ++k) {
          const std::int64_t right = k * plan_.columns.dilation * plan_.pixel_rows();
          VmemAddress from(rows.region(), left.offset + right + part.rows, row, left.reg);
          combine(all, unpacked(builder_, plan_.packed, builder_.load(from.mask(part.mask))));
        }
      }
      store_result(all, target.plus(part.rows), part.mask);
    }
  });
}

/// All columns of the padded image, whole registers of them: the last one may reach over the row.
void ReduceWindowKernel::combine_rows(WindowRows& rows) {
  const std::int64_t registers = ceil_divide(plan_.row_rows(), 8);
  for (std::int64_t first = 0; first < plan_.rows.size; first += kMostStraightRows) {
    const std::int64_t count = std::min(plan_.rows.size - first, kMostStraightRows);
    std::vector<SReg> window_rows;
    for (std::int64_t i = 0; i < count; ++i) {
      window_rows.push_back(rows.row({{}, (first + i) * plan_.rows.dilation}));
    }
    const auto piece = [&](Index begin, std::int64_t many) {
      const Index column = multiply(builder_, begin, 8);
      for (std::int64_t i = 0; i < many; ++i) {
        const Index place = column.plus(8 * i);
        std::vector<VReg> all;
        for (std::int64_t half = 0; first > 0 && half < halves(plan_); ++half) {
          all.push_back(builder_.load(at(combined_, place.plus(half * combined_rows(plan_)))));
        }
        for (SReg row : window_rows) {
          const VmemAddress from(rows.region(), place.offset, row, place.reg);
          combine(all, unpacked(builder_, plan_.packed, builder_.load(from)));
        }
        for (std::size_t half = 0; half < all.size(); ++half) {
          const auto behind = static_cast<std::int64_t>(half) * combined_rows(plan_);
          builder_.store(at(combined_, place.plus(behind)), all[half]);
        }
      }
    };
    in_pieces(builder_, registers, std::clamp<std::int64_t>(32 / count, 1, 8), piece);
  }
}

/// Windows of the combined rows: register by register where one follows on the other, else each
/// pixel by itself.
void ReduceWindowKernel::emit_columns(Index buffer) {
  const auto emit = [&](Index from, Index to, std::uint8_t mask) {
    std::vector<VReg> all;
    for (std::int64_t k = 0; k < plan_.columns.size; ++k) {
      std::vector<VReg> values;
      for (std::int64_t half = 0; half < halves(plan_); ++half) {
        const std::int64_t right = k * plan_.columns.dilation * plan_.pixel_rows();
        values.push_back(builder_.load(
            at(combined_, from.plus(half * combined_rows(plan_) + right)).mask(mask)));
      }
      combine(all, values);
    }
    store_result(all, to, mask);
  };
  const std::int64_t loads = plan_.columns.size * halves(plan_);
  const std::int64_t at_once = std::clamp<std::int64_t>(48 / loads, 1, 8);
  if (plan_.columns.stride > 1) {
    for_columns(builder_, plan_.columns.windows, at_once, [&](Index column) {
      const Index left = multiply(builder_, column, plan_.columns.stride * plan_.pixel_rows());
      const Index target = add(builder_, multiply(builder_, column, plan_.pixel_rows()), buffer);
      for (const PixelRegister& part : pixel_registers(plan_)) {
        emit(left.plus(part.rows), target.plus(part.rows), part.mask);
      }
    });
    return;
  }
  const std::int64_t rows = plan_.columns.windows * plan_.pixel_rows();
  in_pieces(builder_, rows / 8, at_once, [&](Index first, std::int64_t many) {
    const Index from = multiply(builder_, first, 8), to = add(builder_, from, buffer);
    for (std::int64_t i = 0; i < many; ++i) emit(from.plus(8 * i), to.plus(8 * i), 0xff);
  });
  if (rows % 8 != 0) emit({{}, rows / 8 * 8}, buffer.plus(rows / 8 * 8), 0x0f);
}

/// The kernel of a select-and-scatter that gives each window's source value to the window's first
/// greatest element. Sums stand as fp32 in a ring of rows, from which finished rows are written
/// out.
class SelectAndScatterKernel {
 public:
  static OrRefusal<PoolingPlan> plan(const hlo::HloInstruction& instruction,
                                     const hlo::Shape& source, const Target& target) {
    OrRefusal<PoolingPlan> window = read_window(instruction, instruction.shape, source);
    if (!window) return window;
    if (window->rows.base != 1 || window->columns.base != 1) {
      return refuse_window(instruction, "expected no base dilation");
    }
    if (!has_rows_first(instruction.window, major_to_minor(instruction.shape))) {
      return refuse_window(instruction, "expected the rows of a window in front of its columns");
    }
    if (window->rows.stride > window->rows.reach()) {
      return refuse_window(instruction, "expected windows without gaps between their rows");
    }
    return with_chunk(*window, target, instruction, [](const PoolingPlan& plan) {
      return WindowRows::ring_rows(plan) * plan.row_rows() +
             2 * plan.columns.windows * plan.pixel_rows() +
             plan.rows.reach() * plan.columns.padded() * sum_rows(plan) +
             2 * plan.rows.stride * plan.columns.image * plan.pixel_rows();
    });
  }

  SelectAndScatterKernel(const std::string& name, const PoolingPlan& plan, const Target& target)
      : plan_(plan), builder_(name, target) {
    const PoolingPlan::Dimension& rows = plan_.rows;
    iterations_ =
        std::max(rows.windows, (rows.padding + rows.image + rows.stride - 1) / rows.stride);
  }

  LoweredKernel emit();

 private:
  /// VMEM rows of a pixel's sums.
  static std::int64_t sum_rows(const PoolingPlan& plan) {
    return round_up(plan.pixel_rows(), 8) * (plan.packed ? 2 : 1);
  }
  void emit_chunk(SReg image, SReg source, SReg result);
  void emit_row(Index buffer);
  /// Of a window's elements, a register of a pixel (or half of its packed ones).
  struct WindowRegister {
    PixelRegister part;
    std::size_t half;
    Index left;  ///< Of the window: the column.
  };
  void scatter(const PixelRegister& part, std::size_t half, Index left, VReg source,
               const std::vector<SReg>& image_rows, const std::vector<SReg>& sums);
  VReg element(const WindowRegister& at, SReg row, std::int64_t column);
  VReg greatest_of_row(const WindowRegister& at, SReg row, VReg greatest);
  VectorOperand scatter_row(const WindowRegister& at, SReg image_row, SReg sums_row, VReg greatest,
                            VectorOperand remaining);
  void where_windows(Index window, const std::function<void()>& body);
  void flush(Index parity);
  void send(Index window, Index parity, SReg result);
  std::int64_t result_rows() const { return plan_.columns.image * plan_.pixel_rows(); }
  Index first_flushed(Index window) { return multiply(builder_, window, plan_.rows.stride); }

  PoolingPlan plan_;
  KernelBuilder builder_;
  std::int64_t iterations_ = 0;
  std::uint32_t load_flag_ = 0, store_flag_ = 0;
  std::unique_ptr<WindowRows> rows_;
  std::unique_ptr<RowRing> sums_;
  VmemRegion source_, result_;
  BoxDma source_dma_, result_dma_;
};

LoweredKernel SelectAndScatterKernel::emit() {
  load_flag_ = BlockPipeline::allocate_flags(builder_);
  store_flag_ = BlockPipeline::allocate_flags(builder_);
  const SReg image = builder_.operand(0);
  const SReg source = builder_.operand(1);
  const SReg result = builder_.operand(3);
  rows_ = std::make_unique<WindowRows>(builder_, plan_, plan_.packed ? kLowestPacked : kLowest,
                                       load_flag_);
  sums_ = std::make_unique<RowRing>(builder_, plan_.rows.reach(),
                                    plan_.columns.padded() * sum_rows(plan_));
  const std::int64_t source_rows = plan_.columns.windows * plan_.pixel_rows();
  source_ = builder_.allocate_vmem(static_cast<std::uint64_t>(2 * source_rows + 8));
  result_ =
      builder_.allocate_vmem(static_cast<std::uint64_t>(2 * plan_.rows.stride * result_rows() + 8));
  source_dma_ = pixel_dma(builder_, plan_, true, plan_.columns.windows);
  result_dma_ = pixel_dma(builder_, plan_, false, plan_.columns.image);
  for_columns(builder_, plan_.chunks(), 1, [&](Index chunk) {
    const ScalarOperand offset =
        to_operand(builder_, multiply(builder_, chunk, plan_.pixel_granules()));
    emit_chunk(builder_.add(image, offset), builder_.add(source, offset),
               builder_.add(result, offset));
  });
  return lowered_kernel(builder_);
}

void SelectAndScatterKernel::emit_chunk(SReg image, SReg source, SReg result) {
  const std::int64_t windows = plan_.rows.windows;
  const std::int64_t source_granules = plan_.columns.windows * plan_.pixel_granules();
  const std::int64_t source_rows = plan_.columns.windows * plan_.pixel_rows();
  const std::int64_t hbm_row = plan_.columns.windows * plan_.hbm_pixel_granules();
  sums_->reset();
  sums_->fill(0);
  BlockPipeline::Transfer load, store;
  load.flag = load_flag_;
  load.is_straight = false;
  load.start = [=](Index window, Index parity) {
    where_windows(window, [&] {
      rows_->start(image, window);
      const Index place = multiply(builder_, window, hbm_row);
      source_dma_.start(builder_.add(source, to_operand(builder_, place)),
                        at(source_, multiply(builder_, parity, source_rows)),
                        to_operand(builder_, parity.plus(load_flag_)));
    });
  };
  load.granules = [=](Index window) {
    const SReg all = builder_.add(rows_->granules(window), source_granules);
    if (iterations_ == windows) return all;
    return builder_.select(builder_.less(to_operand(builder_, window), windows), all, 0);
  };
  store.flag = store_flag_;
  store.start = [=](Index window, Index parity) { send(window, parity, result); };
  store.granules = [this](Index window) {
    const Index rows =
        rows_in_image(builder_, plan_.rows, first_flushed(window), plan_.rows.stride);
    return to_operand(builder_,
                      multiply(builder_, rows, plan_.columns.image * plan_.pixel_granules()));
  };
  BlockPipeline(builder_, {iterations_}, load, store).run([&](Index window, Index parity) {
    where_windows(window, [&] {
      emit_row(multiply(builder_, parity, source_rows));
      rows_->advance();
    });
    flush(modulo_power_of_two(builder_, window, 1));
    sums_->advance(plan_.rows.stride);
  });
}

/// Behind the last window there may be rows of the image to write.
void SelectAndScatterKernel::where_windows(Index window, const std::function<void()>& body) {
  if (iterations_ == plan_.rows.windows || window.is_constant()) return body();
  builder_.if_(builder_.less(to_operand(builder_, window), plan_.rows.windows), body);
}

void SelectAndScatterKernel::emit_row(Index buffer) {
  std::vector<SReg> image_rows, sums;
  const bool straight = plan_.rows.size <= kMostStraightRowsWithSums;
  for (std::int64_t i = 0; straight && i < plan_.rows.size; ++i) {
    image_rows.push_back(rows_->row({{}, i * plan_.rows.dilation}));
    sums.push_back(sums_->row({{}, i * plan_.rows.dilation}));
  }
  for_columns(builder_, plan_.columns.windows, 1, [&](Index column) {
    const Index from = add(builder_, multiply(builder_, column, plan_.pixel_rows()), buffer);
    const Index left = multiply(builder_, column, plan_.columns.stride);
    for (const PixelRegister& part : pixel_registers(plan_)) {
      const std::vector<VReg> sources = unpacked(
          builder_, plan_.packed, builder_.load(at(source_, from.plus(part.rows)).mask(part.mask)));
      for (std::size_t half = 0; half < sources.size(); ++half) {
        scatter(part, half, left, sources[half], image_rows, sums);
      }
    }
  });
}

/// One register of windows: finds the greatest element, then walks over the window again and adds
/// the source where it stands first.
void SelectAndScatterKernel::scatter(const PixelRegister& part, std::size_t half, Index left,
                                     VReg source, const std::vector<SReg>& image_rows,
                                     const std::vector<SReg>& sums) {
  const WindowRegister at{part, half, left};
  if (!image_rows.empty()) {
    VReg greatest;
    for (SReg row : image_rows) greatest = greatest_of_row(at, row, greatest);
    VectorOperand remaining = source;
    for (std::size_t i = 0; i < image_rows.size(); ++i) {
      remaining = scatter_row(at, image_rows[i], sums[i], greatest, remaining);
    }
    return;
  }
  const auto rows = static_cast<std::uint64_t>(plan_.rows.size);
  const VVariable best = builder_.vector_variable(kLowest);
  const VVariable remaining = builder_.vector_variable(source);
  const auto ahead = [this](SReg index) {
    return multiply(builder_, {index, 0}, plan_.rows.dilation);
  };
  builder_.loop(rows, [&](SReg index) {
    builder_.set(best, greatest_of_row(at, rows_->row(ahead(index)), builder_.get(best)));
  });
  builder_.loop(rows, [&](SReg index) {
    builder_.set(remaining, scatter_row(at, rows_->row(ahead(index)), sums_->row(ahead(index)),
                                        builder_.get(best), builder_.get(remaining)));
  });
}

VReg SelectAndScatterKernel::element(const WindowRegister& at, SReg row, std::int64_t column) {
  const Index left = multiply(builder_, at.left, plan_.pixel_rows());
  const std::int64_t right = column * plan_.columns.dilation * plan_.pixel_rows();
  const VmemAddress from(rows_->region(), left.offset + right + at.part.rows, row, left.reg);
  const VReg value = builder_.load(from.mask(at.part.mask));
  if (!plan_.packed) return value;
  return at.half == 0 ? builder_.unpack_even(value) : builder_.unpack_odd(value);
}

/// The greatest of `greatest` and the elements in a row of the window.
VReg SelectAndScatterKernel::greatest_of_row(const WindowRegister& at, SReg row, VReg greatest) {
  for (std::int64_t k = 0; k < plan_.columns.size; ++k) {
    const VReg value = element(at, row, k);
    greatest = greatest ? builder_.max(greatest, value) : value;
  }
  return greatest;
}

/// Adds `remaining` where the greatest stands in a row of the window first; what remains of it for
/// the rows behind.
VectorOperand SelectAndScatterKernel::scatter_row(const WindowRegister& at, SReg image_row,
                                                  SReg sums_row, VReg greatest,
                                                  VectorOperand remaining) {
  const Index left = multiply(builder_, at.left, sum_rows(plan_));
  const std::int64_t sum_part =
      at.part.rows * (plan_.packed ? 2 : 1) + 8 * static_cast<std::int64_t>(at.half);
  for (std::int64_t first = 0; first < plan_.columns.size; first += kMostColumnsAtOnce) {
    const std::int64_t end = std::min(first + kMostColumnsAtOnce, plan_.columns.size);
    std::vector<VmemAddress> places;
    std::vector<VReg> before;
    for (std::int64_t k = first; k < end; ++k) {
      const std::int64_t right = k * plan_.columns.dilation * sum_rows(plan_);
      places.emplace_back(sums_->region(), left.offset + right + sum_part, sums_row, left.reg);
      before.push_back(builder_.load(places.back()));
    }
    for (std::int64_t k = first; k < end; ++k) {
      const auto i = static_cast<std::size_t>(k - first);
      const MReg hit =
          builder_.vector_compare(Opcode::kVcmpEqF32, element(at, image_row, k), greatest);
      const VReg added = builder_.select(hit, remaining, 0.0F);
      remaining = builder_.select(hit, 0.0F, remaining);
      builder_.store(places[i], builder_.add(before[i], added));
    }
  }
  return remaining;
}

/// Takes the sums of the rows that no later window touches, and clears them.
void SelectAndScatterKernel::flush(Index parity) {
  const Index buffer = multiply(builder_, parity, plan_.rows.stride * result_rows());
  for (std::int64_t i = 0; i < plan_.rows.stride; ++i) {
    const SReg sums = sums_->row({{}, i});
    for_columns(builder_, plan_.columns.image, 2, [&](Index column) {
      const Index padded = multiply(builder_, column.plus(plan_.columns.padding), sum_rows(plan_));
      const Index target = add(builder_, multiply(builder_, column, plan_.pixel_rows()), buffer);
      for (const PixelRegister& part : pixel_registers(plan_)) {
        const std::int64_t sum_part = part.rows * (plan_.packed ? 2 : 1);
        const VmemAddress from(sums_->region(), padded.offset + sum_part, sums, padded.reg);
        VReg value = builder_.load(from);
        builder_.store(from, 0.0F);
        if (plan_.packed) {
          const VReg odd = builder_.load(from.plus(8));
          builder_.store(from.plus(8), 0.0F);
          value = builder_.pack_bf16(value, odd);
        }
        const Index place = target.plus(i * result_rows() + part.rows);
        builder_.store(at(result_, place).mask(part.mask), value);
      }
    });
  }
}

/// Writes them to where they lie in the image.
void SelectAndScatterKernel::send(Index window, Index parity, SReg result) {
  const Index buffer = multiply(builder_, parity, plan_.rows.stride * result_rows());
  for (std::int64_t i = 0; i < plan_.rows.stride; ++i) {
    const Index row = first_flushed(window).plus(i);
    const Index hbm = multiply(builder_, row.plus(-plan_.rows.padding),
                               plan_.columns.image * plan_.hbm_pixel_granules());
    const SReg place = builder_.add(result, to_operand(builder_, hbm));
    builder_.guarded(is_in_image(builder_, plan_.rows, row), [&] {
      result_dma_.start(place, at(result_, buffer.plus(i * result_rows())),
                        to_operand(builder_, parity.plus(store_flag_)));
    });
  }
}

const hlo::HloInstruction& root_of(const hlo::Module& module, hlo::ComputationId id) {
  const hlo::Computation& computation = module.computation(id);
  return computation.at(computation.root);
}

/// The constant's value, when it is a floating scalar.
bool is_constant(const hlo::HloInstruction& instruction, std::uint32_t expected_high_half) {
  if (instruction.opcode != HloOpcode::kConstant || instruction.literal.size() < 2) return false;
  const std::size_t last = instruction.literal.size() - 1;
  const std::uint32_t high =
      std::uint32_t{instruction.literal[last]} << 8 | std::uint32_t{instruction.literal[last - 1]};
  for (std::size_t i = 0; i + 1 < last; ++i) {
    if (instruction.literal[i] != 0) return false;
  }
  return high == expected_high_half;
}

/// The kernel of an instruction. The plan is used while all of these are there.
OrRefusal<KernelPlan> plan_pooling(const hlo::Module& module, const hlo::Computation& computation,
                                   const hlo::HloInstruction& instruction, const Target& target) {
  if (instruction.opcode == HloOpcode::kReduceWindow) {
    if (instruction.operands.size() != 2) return refuse_window(instruction, "expected one array");
    const HloOpcode reducer = root_of(module, instruction.called.at(0)).opcode;
    const hlo::HloInstruction& initial = computation.at(instruction.operands[1]);
    const bool sums = reducer == HloOpcode::kAdd;
    if (!sums && reducer != HloOpcode::kMaximum) {
      return refuse_window(instruction, "expected add or maximum");
    }
    if (!is_constant(initial, sums ? 0 : 0xff80)) {
      return refuse_window(instruction,
                           "expected the initial value 0 of a sum or -inf of a maximum");
    }
    const hlo::Shape& image = computation.at(instruction.operands.at(0)).shape;
    OrRefusal<PoolingPlan> plan = ReduceWindowKernel::plan(instruction, image, target);
    if (!plan) return plan.refusal();
    return KernelPlan([&instruction, &target, sums, plan = *plan] {
      return ReduceWindowKernel(instruction.name, plan, sums, target).emit();
    });
  }
  const hlo::HloInstruction& select = root_of(module, instruction.called.at(0));
  if (select.opcode != HloOpcode::kCompare || select.direction != hlo::ComparisonDirection::kGe ||
      root_of(module, instruction.called.at(1)).opcode != HloOpcode::kAdd) {
    return refuse_window(instruction, "expected selection by ge and addition");
  }
  if (!is_constant(computation.at(instruction.operands.at(2)), 0)) {
    return refuse_window(instruction, "expected the initial value 0");
  }
  const hlo::Shape& source = computation.at(instruction.operands.at(1)).shape;
  OrRefusal<PoolingPlan> plan = SelectAndScatterKernel::plan(instruction, source, target);
  if (!plan) return plan.refusal();
  return KernelPlan([&instruction, &target, plan = *plan] {
    return SelectAndScatterKernel(instruction.name, plan, target).emit();
  });
}

}  // namespace

LoweredKernel lower_pooling(const hlo::Module& module, const hlo::Computation& computation,
                            const hlo::HloInstruction& instruction, const Target& target) {
  return plan_pooling(module, computation, instruction, target).value()();
}

bool has_pooling_kernel(const hlo::Module& module, const hlo::Computation& computation,
                        const hlo::HloInstruction& instruction, const Target& target) {
  return static_cast<bool>(plan_pooling(module, computation, instruction, target));
}

}  // namespace tpu::compiler
