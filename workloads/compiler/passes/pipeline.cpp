#include "workloads/compiler/passes/pipeline.h"

#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/passes/async_pairs.h"
#include "workloads/compiler/passes/canonical_forms.h"
#include "workloads/compiler/passes/collective_forms.h"
#include "workloads/compiler/passes/collectives.h"
#include "workloads/compiler/passes/control_flow.h"
#include "workloads/compiler/passes/convolution_forms.h"
#include "workloads/compiler/passes/copies.h"
#include "workloads/compiler/passes/copy_steps.h"
#include "workloads/compiler/passes/custom_calls.h"
#include "workloads/compiler/passes/empty_arrays.h"
#include "workloads/compiler/passes/factorization_expander.h"
#include "workloads/compiler/passes/fusion.h"
#include "workloads/compiler/passes/hbm_plan.h"
#include "workloads/compiler/passes/indexed_access.h"
#include "workloads/compiler/passes/integer_dots.h"
#include "workloads/compiler/passes/kernel_sequences.h"
#include "workloads/compiler/passes/layouts.h"
#include "workloads/compiler/passes/loop_slices.h"
#include "workloads/compiler/passes/operand_precision.h"
#include "workloads/compiler/passes/operand_upcaster.h"
#include "workloads/compiler/passes/padded_sums.h"
#include "workloads/compiler/passes/pass_timer.h"
#include "workloads/compiler/passes/precision.h"
#include "workloads/compiler/passes/product_operands.h"
#include "workloads/compiler/passes/random_bits.h"
#include "workloads/compiler/passes/reduction_forms.h"
#include "workloads/compiler/passes/refusal_list.h"
#include "workloads/compiler/passes/regular_gathers.h"
#include "workloads/compiler/passes/rings.h"
#include "workloads/compiler/passes/scan_forms.h"
#include "workloads/compiler/passes/simplify.h"
#include "workloads/compiler/passes/slices_in_place.h"
#include "workloads/compiler/passes/small_products.h"
#include "workloads/compiler/passes/split_lanes.h"
#include "workloads/compiler/passes/step_forms.h"
#include "workloads/compiler/passes/unit_dimensions.h"
#include "workloads/compiler/passes/widen.h"
#include "workloads/compiler/passes/window_forms.h"
#include "workloads/compiler/passes/word_types.h"

namespace tpu::compiler {

namespace {

/// The module runs on as many cores as the target has, in one partition unless it says how many.
void set_devices(hlo::Module& module, const Target& target) {
  module.replicas = target.cores;
  if (module.partitions < 1 || module.replicas % module.partitions != 0) module.partitions = 1;
}

/// The passes between verification and the plan, for a module or the body of a loop or branch. The
/// observer is told passes of a body as "body/pass".
void run_passes(ScheduledModule& scheduled, const Target& target, CompileReport* report,
                const PassObserver& after_pass, const std::string& prefix) {
  hlo::Module& work = scheduled.module;
  const auto run = [&](const char* name, auto&& pass) {
    {
      const PassTimer timer(report, name);
      pass();
    }
    if (after_pass) after_pass(prefix + name, work);
  };
  bool has_taken_branches = false;
  do {
    run("flatten_calls", [&] { flatten_calls(work); });
    run("replace_empty_arrays", [&] { replace_empty_arrays(work); });
    run("simplify", [&] { simplify(work); });
    has_taken_branches = take_known_branches(work);
  } while (has_taken_branches);
  if (has_control_flow(work)) {
    run("outline_control_flow", [&] { scheduled.regions = outline_control_flow(work); });
    for (ScheduledRegion& region : scheduled.regions) {
      for (ScheduledModule& body : region.bodies) {
        run_passes(body, target, report, after_pass, body.module.name + "/");
      }
    }
    run("flatten_calls", [&] { flatten_calls(work); });
    run("simplify", [&] { simplify(work); });
  }
  run("rewrite_random_bits", [&] { rewrite_random_bits(work, scheduled.refusals); });
  run("rewrite_collectives", [&] { rewrite_collectives(work, scheduled.refusals); });
  run("rewrite_integer_dots", [&] { rewrite_integer_dots(work, scheduled.refusals); });
  run("multiply_small_matrices", [&] { multiply_small_matrices(work); });
  run("rewrite_precise_products", [&] { rewrite_precise_products(work); });
  run("rewrite_scans", [&] { rewrite_scans(work, scheduled.refusals); });
  run("rewrite_reductions", [&] { rewrite_reductions(work, scheduled.refusals); });
  run("rewrite_regular_gathers", [&] { rewrite_regular_gathers(work); });
  run("rewrite_indexed_access", [&] { rewrite_indexed_access(work, scheduled.refusals); });
  run("rewrite_reductions", [&] { rewrite_reductions(work, scheduled.refusals); });
  run("rewrite_convolutions", [&] { rewrite_convolutions(work, target); });
  run("rewrite_windows", [&] { rewrite_windows(work, target); });
  run("split_steps", [&] { split_steps(work); });
  run("refuse_unknown_operations", [&] { refuse_unknown_operations(scheduled, target); });
  run("join_padded_sums", [&] { join_padded_sums(work); });
  run("multiply_small_matrices", [&] { multiply_small_matrices(work); });
  run("drop_unit_dimensions", [&] { drop_unit_dimensions(work); });
  run("simplify", [&] { simplify(work); });
  run("join_split_lanes", [&] { join_split_lanes(work); });
  run("simplify", [&] { simplify(work); });
  run("use_canonical_forms", [&] { use_canonical_forms(work); });
  run("simplify", [&] { simplify(work); });
  run("narrow_dot_operands", [&] { narrow_dot_operands(work); });
  run("simplify", [&] { simplify(work); });
  run("read_parameters_unrounded", [&] { read_parameters_unrounded(work); });
  run("assign_layouts", [&] {
    adopt_region_layouts(scheduled);
    assign_layouts(work, target);
    copy_region_operands(scheduled);
  });
  run("find_bitcasts", [&] { find_bitcasts(work); });
  run("split_large_copies", [&] { split_large_copies(work, target); });
  run("place_slices_by_iteration", [&] { place_slices_by_iteration(scheduled); });
  run("combine_all_reduces", [&] { combine_all_reduces(work); });
  FusionLimits limits;
  limits.row_bytes = target.vmem_bytes / 2;
  limits.has_convolution_kernel = [&](const hlo::Computation& entry, const auto& convolution,
                                      const hlo::Shape& result, const auto& read) {
    return has_convolution_kernel(convolution, entry.at(convolution.operands[0]).shape,
                                  entry.at(convolution.operands[1]).shape, result, read, target);
  };
  run("fuse", [&] { fuse(work, limits); });
  run("read_slices_in_place", [&] { read_slices_in_place(work); });
  run("widen", [&] { widen(work); });
  run("join_small_kernels",
      [&] { join_small_kernels(work, target, scheduled.counter.has_value()); });
  run("insert_copies", [&] { insert_copies(work); });
}

void note_types(const hlo::Module& module, CompileReport& report) {
  const hlo::Computation& entry = module.entry_computation();
  for (const hlo::InstructionId parameter : entry.parameters()) {
    report.parameter_types.push_back(entry.at(parameter).shape.type);
  }
  const hlo::Shape& result = entry.at(entry.root).shape;
  if (!result.is_tuple()) report.result_types.push_back(result.type);
  for (const hlo::Shape& element : result.elements) report.result_types.push_back(element.type);
}

}  // namespace

ScheduledModule lower_to_kernels(const hlo::Module& module, const Target& target,
                                 CompileReport* report, const PassObserver& after_pass) {
  ScheduledModule scheduled;
  scheduled.module = module;
  const auto run = [&](const char* name, auto&& pass) {
    {
      const PassTimer timer(report, name);
      pass();
    }
    if (after_pass) after_pass(name, scheduled.module);
  };
  run("verify", [&] { hlo::verify(scheduled.module); });
  if (report != nullptr) note_types(scheduled.module, *report);
  run("join_async_pairs", [&] { join_async_pairs(scheduled.module); });
  run("resolve_custom_calls", [&] { resolve_custom_calls(scheduled.module); });
  run("upcast_operands", [&] { upcast_operands(scheduled.module); });
  run("hold_in_words", [&] {
    const std::vector<std::string> notes = hold_in_words(scheduled.module);
    if (report != nullptr) report->notes = notes;
  });
  run("expand_factorizations", [&] { expand_factorizations(scheduled.module); });
  set_devices(scheduled.module, target);
  run("number_rings", [&] { number_rings(scheduled.module); });
  run_passes(scheduled, target, report, after_pass, "");
  return scheduled;
}

ScheduledModule schedule(const hlo::Module& module, const Target& target, CompileReport* report,
                         const PassObserver& after_pass) {
  ScheduledModule scheduled = lower_to_kernels(module, target, report, after_pass);
  {
    const PassTimer timer(report, "plan_hbm");
    plan_hbm(scheduled, target);
  }
  if (after_pass) after_pass("plan_hbm", scheduled.module);
  return scheduled;
}

}  // namespace tpu::compiler
