#include "workloads/compiler/passes/pipeline.h"

#include "workloads/compiler/passes/canonical_forms.h"
#include "workloads/compiler/passes/collectives.h"
#include "workloads/compiler/passes/copies.h"
#include "workloads/compiler/passes/fusion.h"
#include "workloads/compiler/passes/layouts.h"
#include "workloads/compiler/passes/padded_sums.h"
#include "workloads/compiler/passes/pass_timer.h"
#include "workloads/compiler/passes/precision.h"
#include "workloads/compiler/passes/product_operands.h"
#include "workloads/compiler/passes/simplify.h"
#include "workloads/compiler/passes/unit_dimensions.h"
#include "workloads/compiler/passes/widen.h"

namespace tpu::compiler {

ScheduledModule schedule(const hlo::Module& module, const Target& target, CompileReport* report) {
  ScheduledModule scheduled;
  scheduled.module = module;
  hlo::Module& work = scheduled.module;
  work.replicas = target.cores;
  const auto run = [&](const char* name, auto&& pass) {
    const PassTimer timer(report, name);
    pass();
  };
  run("verify", [&] { hlo::verify(work); });
  run("flatten_calls", [&] { flatten_calls(work); });
  run("simplify", [&] { simplify(work); });
  run("join_padded_sums", [&] { join_padded_sums(work); });
  run("drop_unit_dimensions", [&] { drop_unit_dimensions(work); });
  run("simplify", [&] { simplify(work); });
  run("use_canonical_forms", [&] { use_canonical_forms(work); });
  run("simplify", [&] { simplify(work); });
  run("narrow_dot_operands", [&] { narrow_dot_operands(work); });
  run("simplify", [&] { simplify(work); });
  run("read_parameters_unrounded", [&] { read_parameters_unrounded(work); });
  run("assign_layouts", [&] { assign_layouts(work); });
  run("find_bitcasts", [&] { find_bitcasts(work); });
  run("combine_all_reduces", [&] { combine_all_reduces(work); });
  FusionLimits limits;
  limits.row_bytes = target.vmem_bytes / 2;
  run("fuse", [&] { fuse(work, limits); });
  run("widen", [&] { widen(work); });
  run("insert_copies", [&] { insert_copies(work); });
  run("plan_hbm", [&] { scheduled.plan = plan_hbm(work, target); });
  return scheduled;
}

}  // namespace tpu::compiler
