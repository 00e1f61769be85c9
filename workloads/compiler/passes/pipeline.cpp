#include "workloads/compiler/passes/pipeline.h"

#include "sim/base/error.h"
#include "workloads/compiler/passes/expand/control_flow.h"
#include "workloads/compiler/passes/module_verifier.h"
#include "workloads/compiler/passes/pass_table.h"
#include "workloads/compiler/passes/pass_timer.h"
#include "workloads/graph/op_info.h"

namespace tpu::compiler {

namespace {

/// What a pass says of an instruction, whose name it begins with, with the line of the program that
/// it comes from; empty where there is no such instruction or line.
std::string with_line_of_program(const hlo::Module& module, const std::string& said) {
  const std::string name = said.substr(0, said.find(": "));
  for (const hlo::Computation& computation : module.computations) {
    for (const hlo::HloInstruction& instruction : computation.instructions) {
      if (instruction.name != name) continue;
      const std::string origin = hlo::with_origin(module, computation, instruction);
      return origin == name ? "" : origin + said.substr(name.size());
    }
  }
  return "";
}

/// Runs the rows of the table on a module, or on the body of a loop or branch. The observer is told
/// passes of a body as "body/pass".
class PassRunner {
 public:
  PassRunner(ScheduledModule& scheduled, const Target& target, CompileReport* report,
             ConvolutionKernels& convolutions, const PassObserver& after_pass, std::string prefix,
             const Facts& held)
      : context_{scheduled, target, report, convolutions},
        after_pass_(after_pass),
        prefix_(std::move(prefix)),
        held_(held) {}

  void run_stage(Stage stage) {
    for (const Pass& pass : pass_table()) {
      if (pass.stage == stage) run(pass);
    }
  }

  /// The stages from kInline to kEntry.
  void run_module() {
    do {
      run_stage(Stage::kInline);
    } while (take_known_branches(module()) || unroll_short_loops(module()));
    if (has_control_flow(module())) outline();
    held_ = held_.with({Fact::kOutlined});
    run_stage(Stage::kEntry);
  }

 private:
  hlo::Module& module() { return context_.scheduled.module; }

  /// The bodies go through their passes as soon as they are outlined.
  void outline() {
    run_stage(Stage::kOutline);
    run_bodies();
    run_stage(Stage::kBehindBodies);
  }
  void run_bodies() {
    for (ScheduledRegion& region : context_.scheduled.regions) {
      for (ScheduledModule& body : region.bodies) {
        if (region.is_loop && &body != &region.bodies[0]) {
          for (const hlo::Layout& layout : parameter_layouts(region.bodies[0])) {
            body.given.parameters.emplace_back(layout.minor_to_major.rbegin(),
                                               layout.minor_to_major.rend());
          }
        }
        PassRunner(body, context_.target, context_.report, context_.convolutions, after_pass_,
                   body.module.name + "/", held_.without({Fact::kOutlined}))
            .run_module();
      }
    }
  }

  void run(const Pass& pass) {
    {
      const PassTimer timer(context_.report, pass.name);
      try {
        pass.run(context_);
      } catch (const WorkloadError& error) {
        const std::string said = with_line_of_program(module(), error.what());
        if (said.empty()) throw;
        throw WorkloadError(said);
      }
    }
    held_ = held_.without(pass.ends).with(pass.gives);
    if (verifies_passes()) verify_between_passes(context_.scheduled, held_, prefix_ + pass.name);
    if (!after_pass_) return;
    const bool is_last = prefix_.empty() && &pass == &pass_table().back();
    after_pass_(PassResult(prefix_ + pass.name, module(), is_last));
  }

  PassContext context_;
  const PassObserver& after_pass_;
  std::string prefix_;
  Facts held_;
};

/// Go's compiler does the same: a wrong order is found by the first compilation, whatever it is of.
void check_table_once() {
  static const bool kChecked = (check_order(pass_table()), true);
  (void)kChecked;
}

/// The stages up to the one before the plan.
void run_stages(PassRunner& runner) {
  check_table_once();
  runner.run_stage(Stage::kWhole);
  runner.run_module();
}

}  // namespace

const hlo::Module& PassResult::module() const {
  if (!plain_ && is_plain_hlo(module_)) return module_;
  if (!plain_) plain_ = as_plain_hlo(module_);
  return *plain_;
}

ScheduledModule lower_to_kernels(const hlo::Module& module, const Target& target,
                                 CompileReport* report, const PassObserver& after_pass) {
  ScheduledModule scheduled;
  scheduled.module = module;
  ConvolutionKernels convolutions(target);
  PassRunner runner(scheduled, target, report, convolutions, after_pass, "", {});
  run_stages(runner);
  return scheduled;
}

ScheduledModule schedule(const hlo::Module& module, const Target& target, CompileReport* report,
                         const PassObserver& after_pass) {
  ScheduledModule scheduled;
  scheduled.module = module;
  ConvolutionKernels convolutions(target);
  PassRunner runner(scheduled, target, report, convolutions, after_pass, "", {});
  run_stages(runner);
  runner.run_stage(Stage::kPlan);
  return scheduled;
}

}  // namespace tpu::compiler
