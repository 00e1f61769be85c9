#include "traces/run_record.h"

namespace tpu::traces {

RunRecord start_record(const MachineParams& params, const isa::Program& program) {
  RunRecord record;
  record.params = params;
  record.program = program.name;
  record.compiler = program.compiler;
  record.examples_per_core = program.examples_per_core;
  record.model_flops = program.model_flops;
  record.data_dependent_control = program.data_dependent_control;
  record.compulsory_hbm_bytes = program.compulsory_hbm_bytes;
  record.hbm_peak_bytes = program.hbm_peak_bytes;
  record.infeed_bytes = program.infeed_bytes;
  record.ops = program.ops;
  for (const isa::Buffer& buffer : program.buffers) {
    isa::Buffer copy = buffer;
    copy.data.clear();
    record.buffers.push_back(std::move(copy));
  }
  record.control = program.control;
  for (isa::ControlOp& op : record.control) op.points.clear();
  return record;
}

}  // namespace tpu::traces
