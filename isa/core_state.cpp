#include "isa/core_state.h"

namespace tpu::isa {

VectorPool::Index VectorPool::take() {
  if (free_.empty()) {
    storage_.push_back(std::make_unique<VectorRegister>());
    return static_cast<Index>(storage_.size() - 1);
  }
  const Index index = free_.back();
  free_.pop_back();
  return index;
}

CoreState::CoreState(const CoreShape& shape)
    : vmem(shape.vmem_rows),
      mxus(shape.mxus, MxuState(shape.mxu_rows, shape.mxu_columns)),
      mxu_results(shape.mxus),
      xlus(shape.xlus),
      shape_(shape) {
  scalar.smem.assign(shape.smem_words, 0);
  for (VectorPool::Index& index : vectors) index = pool.take();
}

}  // namespace tpu::isa
