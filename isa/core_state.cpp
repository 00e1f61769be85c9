#include "isa/core_state.h"

#include <algorithm>
#include <new>

#include "isa/vector_arithmetic.h"

namespace tpu::isa {

Vmem::Vmem(std::uint32_t rows)
    : words_(static_cast<std::uint32_t*>(
          std::calloc(std::max<std::size_t>(rows, 1), kLanes * sizeof(std::uint32_t)))),
      written_(rows) {
  if (words_ == nullptr) throw std::bad_alloc();
}

VectorPool::Index VectorPool::take() {
  if (free_.empty()) {
    storage_.push_back(std::make_unique<VectorRegister>());
    return static_cast<Index>(storage_.size() - 1);
  }
  const Index index = free_.back();
  free_.pop_back();
  return index;
}

const VectorRegister& ImmediateVectors::get(std::uint32_t value) {
  Entry* oldest = nullptr;
  for (Entry& entry : entries_) {
    if (entry.value == value) {
      entry.bundle = bundle_;
      return *entry.vector;
    }
    if (oldest == nullptr || entry.bundle < oldest->bundle) oldest = &entry;
  }
  if (oldest == nullptr || entries_.size() < kEntries || oldest->bundle == bundle_) {
    entries_.push_back({value, bundle_, std::make_unique<VectorRegister>()});
    oldest = &entries_.back();
  }
  oldest->value = value;
  oldest->bundle = bundle_;
  broadcast(value, *oldest->vector);
  return *oldest->vector;
}

CoreState::CoreState(const CoreShape& shape)
    : vmem(shape.vmem_rows),
      cmem(shape.cmem_rows),
      mxus(shape.mxus, MxuState(shape.mxu_rows, shape.mxu_columns, shape.weights_in_order)),
      mxu_results(shape.mxus, std::vector<VectorQueue>(mxus.front().column_parts())),
      xlus(shape.xlus),
      shape_(shape) {
  scalar.smem.assign(shape.smem_words, 0);
  for (VectorPool::Index& index : vectors) index = pool.take();
}

}  // namespace tpu::isa
