#include "traces/run_record.h"

#include "isa/buffer_lifetimes.h"
#include "models/parameter_table.h"
#include "sim/base/sha256.h"

namespace tpu::traces {

std::string configuration_sha256(const MachineParams& params) {
  Sha256 digest;
  for (const ParameterValue& value : parameter_table(params)) {
    digest.add(value.path + "=" + value_text(value) + '\0');
  }
  return digest.hex();
}

RunRecord start_record(const MachineParams& params, const isa::Program& program) {
  RunRecord record;
  record.params = params;
  record.program = program.name;
  record.compiler = program.compiler;
  record.examples_per_core = program.examples_per_core;
  record.model_flops = program.model_flops;
  record.data_dependent_control = program.data_dependent_control;
  record.compulsory_hbm_bytes = program.compulsory_hbm_bytes;
  record.hbm_plan_bytes = program.hbm_peak_bytes;
  record.infeed_bytes = program.infeed_bytes;
  record.infeed_host_bytes = program.infeed_host_bytes;
  record.ops = program.ops;
  for (const isa::CallSite& site : program.call_sites) {
    if (site.kernel >= program.kernels.size() || site.is_opening()) continue;
    const isa::Kernel& kernel = program.kernels[site.kernel];
    record.kernels.push_back(
        {site.op, site.kernel, kernel.name, kernel.bundles.size(), kernel.instructions.size()});
  }
  for (const isa::Buffer& buffer : program.buffers) {
    isa::Buffer copy = buffer;
    copy.data.clear();
    record.buffers.push_back(std::move(copy));
  }
  record.lifetimes = program.lifetimes.empty()
                         ? isa::overwritten_lifetimes(program.ops, program.buffers)
                         : program.lifetimes;
  record.control = program.control;
  for (isa::ControlOp& op : record.control) op.points.clear();
  return record;
}

}  // namespace tpu::traces
