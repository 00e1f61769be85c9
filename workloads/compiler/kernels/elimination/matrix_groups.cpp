#include "workloads/compiler/kernels/elimination/matrix_groups.h"

#include <algorithm>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/tiles/block_pipeline.h"

namespace tpu::compiler {

namespace {

constexpr std::int64_t kTileGranules = 4;

}  // namespace

bool are_matrices_in_rows(const hlo::Shape& shape) {
  const auto rank = static_cast<std::int64_t>(shape.rank());
  const std::vector<std::int64_t>& order = shape.layout.minor_to_major;
  if (shape.type != hlo::ElementType::kF32 || rank < 2) return false;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (order[static_cast<std::size_t>(d)] != rank - 1 - d) return false;
  }
  return true;
}

MatrixGroups::MatrixGroups(KernelBuilder& builder, const Shapes& shapes)
    : builder_(builder),
      shapes_(shapes),
      rows_(std::max(shapes.given_tiles, shapes.result_tiles) * kMatrixTileRows) {
  // A tile more, for who reads eight rows from any row on.
  for (std::int64_t m = 0; m < shapes_.together; ++m) {
    matrices_.push_back(
        builder_.allocate_vmem(static_cast<std::uint64_t>(2 * rows_ + kMatrixTileRows)));
  }
}

VmemAddress MatrixGroups::row(std::int64_t matrix, std::int64_t row, Index buffer) const {
  return at(matrices_[static_cast<std::size_t>(matrix)], buffer.plus(row));
}

/// The matrices of a group, with their numbers, that there are.
void MatrixGroups::for_each_present(Index group,
                                    const std::function<void(std::int64_t, Index)>& body) {
  const Index first = multiply(builder_, group, shapes_.together);
  for (std::int64_t m = 0; m < shapes_.together; ++m) {
    const Index number = first.plus(m);
    if (shapes_.count % shapes_.together == 0) {
      body(m, number);
    } else if (number.is_constant()) {
      if (number.offset < shapes_.count) body(m, number);
    } else {
      const PReg is_present = builder_.less(to_operand(builder_, number), shapes_.count);
      builder_.guarded(is_present, [&] { body(m, number); });
    }
  }
}

ScalarOperand MatrixGroups::granules_of(Index group, std::int64_t of_one) {
  const Index first = multiply(builder_, group, shapes_.together);
  if (shapes_.count % shapes_.together == 0) return shapes_.together * of_one;
  if (first.is_constant()) {
    return std::min(shapes_.together, shapes_.count - first.offset) * of_one;
  }
  const SReg left = builder_.sub(shapes_.count, to_operand(builder_, first));
  return builder_.mul(builder_.min(left, shapes_.together), static_cast<std::uint32_t>(of_one));
}

void MatrixGroups::run(const std::function<void(Index buffer)>& work) {
  const SReg from = builder_.operand(0), to = builder_.operand(1);
  const std::int64_t given = shapes_.given_tiles * kTileGranules;
  const std::int64_t result = shapes_.result_tiles * kTileGranules;
  const auto place = [&](SReg array, Index number, std::int64_t of_one) {
    return builder_.add(array, to_operand(builder_, multiply(builder_, number, of_one)));
  };
  const auto in_buffer = [&](std::int64_t m, Index buffer) {
    return row(m, 0, multiply(builder_, buffer, rows_));
  };
  BlockPipeline::Transfer load, store;
  load.flag = BlockPipeline::allocate_flags(builder_);
  load.granules = [this, given](Index group) { return granules_of(group, given); };
  load.start = [&, flag = load.flag](Index group, Index buffer) {
    for_each_present(group, [&](std::int64_t m, Index number) {
      builder_.dma_in(place(from, number, given), in_buffer(m, buffer), given,
                      to_operand(builder_, buffer.plus(flag)));
    });
  };
  store.flag = BlockPipeline::allocate_flags(builder_);
  store.granules = [this, result](Index group) { return granules_of(group, result); };
  store.start = [&, flag = store.flag](Index group, Index buffer) {
    for_each_present(group, [&](std::int64_t m, Index number) {
      builder_.dma_out(in_buffer(m, buffer), place(to, number, result), result,
                       to_operand(builder_, buffer.plus(flag)));
    });
  };
  BlockPipeline::Blocks groups;
  groups.count = ceil_divide(shapes_.count, shapes_.together);
  groups.is_in_place = true;
  BlockPipeline pipeline(builder_, groups, load, store);
  pipeline.run([&](Index group, Index buffer) {
    pipeline.take_next(group, buffer);
    work(multiply(builder_, buffer, rows_));
  });
}

}  // namespace tpu::compiler
