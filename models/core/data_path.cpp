#include "models/core/data_path.h"

#include <algorithm>

namespace tpu {
namespace {

isa::CoreShape shape_of(const CoreParams& params, const isa::CodeConventions& conventions) {
  isa::CoreShape shape;
  shape.cmem_rows = (params.cmem.mib << 20) / isa::kVmemRowBytes;
  shape.weights_in_order = conventions.weights_in_order;
  shape.mxus = params.mxu.count;
  shape.mxu_rows = params.mxu.rows;
  shape.mxu_columns = params.mxu.columns;
  shape.xlus = conventions.xlus;
  shape.vmem_rows = (params.vmem_mib << 20) / isa::kVmemRowBytes;
  shape.smem_words = params.smem_words;
  return shape;
}

}  // namespace

DataPath::DataPath(const isa::Program& program, const MachineParams& params, std::uint32_t chip,
                   std::uint32_t core, bool check_names)
    : program_(program),
      state_(shape_of(params.core, program.conventions)),
      check_names_(check_names) {
  state_.scalar.chip = chip;
  state_.scalar.core = core;
  state_.scalar.parameter_addresses = program.parameter_addresses();
  if (!check_names) return;
  for (std::size_t k = 0; k < program.kernels.size(); ++k) {
    names_.emplace_back(program.kernels[k], static_cast<std::uint32_t>(k));
  }
}

DataPath::DataPath(const isa::Program& program, const MachineParams& params, std::uint32_t chip,
                   std::uint32_t core, const FollowedKernels& followed)
    : DataPath(program, params, chip, core, false) {
  followed_ = &followed;
  knowledge_.emplace(followed, state_.shape());
}

const isa::NameCheck* DataPath::names(std::uint32_t kernel) const {
  return check_names_ ? &names_[kernel] : nullptr;
}

void DataPath::execute(std::uint32_t kernel, std::uint32_t bundle, std::uint64_t cycle) {
  for (MatrixPort* array : arrays_) array->set_cycle(cycle);
  isa::execute_bundle(program_.kernels[kernel], bundle, state_, *this, names(kernel));
}

void DataPath::prepare_followed(std::uint32_t kernel, std::uint32_t bundle, ScalarUnit& scalar) {
  const isa::ScalarState& registers = scalar.state();
  state_.scalar.s = registers.s;
  state_.scalar.p = registers.p;
  knowledge_->prepare(kernel, bundle, state_, scalar);
}

void DataPath::execute_followed(std::uint32_t kernel, std::uint32_t bundle) {
  const VectorSlice& slice = followed_->slice(kernel);
  knowledge_->spend(kernel, slice.code.bundles[bundle].instruction_count +
                                slice.other_stores.bundles[bundle].instruction_count);
  isa::execute_bundle(slice.code, bundle, state_, *this);
  knowledge_->commit();
}

isa::ControlRequest DataPath::control(std::uint32_t kernel, std::uint32_t bundle) const {
  const isa::Kernel& code = program_.kernels[kernel];
  return isa::control_of(code, code.bundles[bundle], state_.scalar);
}

void DataPath::enter(const isa::CallSite& site, std::uint32_t caller) {
  if (knowledge_) knowledge_->enter(site.kernel, caller);
  if (!check_names_) return;
  names_[caller].check_call(site, state_.names);
  names_[site.kernel].enter(state_.names);
}

void DataPath::return_to(std::uint32_t kernel, std::uint32_t from) {
  if (knowledge_) knowledge_->enter(kernel, from);
}

}  // namespace tpu
