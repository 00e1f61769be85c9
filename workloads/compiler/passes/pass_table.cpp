#include "workloads/compiler/passes/pass_table.h"

#include <algorithm>
#include <array>
#include <set>

#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/expand/approximate_top_k.h"
#include "workloads/compiler/passes/expand/async_pairs.h"
#include "workloads/compiler/passes/expand/canonical_forms.h"
#include "workloads/compiler/passes/expand/collective_forms.h"
#include "workloads/compiler/passes/expand/complex_states.h"
#include "workloads/compiler/passes/expand/control_flow.h"
#include "workloads/compiler/passes/expand/convolution_forms.h"
#include "workloads/compiler/passes/expand/convolution_stencils.h"
#include "workloads/compiler/passes/expand/custom_calls.h"
#include "workloads/compiler/passes/expand/eigen_expander.h"
#include "workloads/compiler/passes/expand/factorization_expander.h"
#include "workloads/compiler/passes/expand/indexed_access.h"
#include "workloads/compiler/passes/expand/initial_values.h"
#include "workloads/compiler/passes/expand/integer_dots.h"
#include "workloads/compiler/passes/expand/lapack_calls.h"
#include "workloads/compiler/passes/expand/operand_precision.h"
#include "workloads/compiler/passes/expand/operand_upcaster.h"
#include "workloads/compiler/passes/expand/ragged_products.h"
#include "workloads/compiler/passes/expand/random_bits.h"
#include "workloads/compiler/passes/expand/reduction_forms.h"
#include "workloads/compiler/passes/expand/regular_gathers.h"
#include "workloads/compiler/passes/expand/rings.h"
#include "workloads/compiler/passes/expand/scan_forms.h"
#include "workloads/compiler/passes/expand/scatter_expander.h"
#include "workloads/compiler/passes/expand/sort_forms.h"
#include "workloads/compiler/passes/expand/step_forms.h"
#include "workloads/compiler/passes/expand/wide_arithmetic.h"
#include "workloads/compiler/passes/expand/wide_reductions.h"
#include "workloads/compiler/passes/expand/wide_sorts.h"
#include "workloads/compiler/passes/expand/widen.h"
#include "workloads/compiler/passes/expand/window_forms.h"
#include "workloads/compiler/passes/expand/word_types.h"
#include "workloads/compiler/passes/fuse/bucket_phases.h"
#include "workloads/compiler/passes/fuse/collectives.h"
#include "workloads/compiler/passes/fuse/concatenations_in_place.h"
#include "workloads/compiler/passes/fuse/copy_sequences.h"
#include "workloads/compiler/passes/fuse/fusion.h"
#include "workloads/compiler/passes/fuse/kernel_sequences.h"
#include "workloads/compiler/passes/fuse/large_fusions.h"
#include "workloads/compiler/passes/fuse/move_sequences.h"
#include "workloads/compiler/passes/fuse/shifts_in_place.h"
#include "workloads/compiler/passes/fuse/slices_in_place.h"
#include "workloads/compiler/passes/fuse/sums_of_images.h"
#include "workloads/compiler/passes/fuse/vectors_in_rows.h"
#include "workloads/compiler/passes/layout/copies.h"
#include "workloads/compiler/passes/layout/copy_steps.h"
#include "workloads/compiler/passes/layout/layouts.h"
#include "workloads/compiler/passes/memory/hbm_plan.h"
#include "workloads/compiler/passes/refusal_list.h"
#include "workloads/compiler/passes/simplify/activation_masks.h"
#include "workloads/compiler/passes/simplify/block_products.h"
#include "workloads/compiler/passes/simplify/column_products.h"
#include "workloads/compiler/passes/simplify/empty_arrays.h"
#include "workloads/compiler/passes/simplify/large_sums.h"
#include "workloads/compiler/passes/simplify/loop_results.h"
#include "workloads/compiler/passes/simplify/loop_slices.h"
#include "workloads/compiler/passes/simplify/narrow_dots.h"
#include "workloads/compiler/passes/simplify/padded_results.h"
#include "workloads/compiler/passes/simplify/padded_sums.h"
#include "workloads/compiler/passes/simplify/precision.h"
#include "workloads/compiler/passes/simplify/product_operands.h"
#include "workloads/compiler/passes/simplify/rearrangement_mover.h"
#include "workloads/compiler/passes/simplify/repetitions.h"
#include "workloads/compiler/passes/simplify/reshape_mover.h"
#include "workloads/compiler/passes/simplify/short_dimensions.h"
#include "workloads/compiler/passes/simplify/simplify.h"
#include "workloads/compiler/passes/simplify/sliced_values.h"
#include "workloads/compiler/passes/simplify/small_products.h"
#include "workloads/compiler/passes/simplify/split_lanes.h"
#include "workloads/compiler/passes/simplify/stacked_vectors.h"
#include "workloads/compiler/passes/simplify/transpose_mover.h"
#include "workloads/compiler/passes/simplify/unit_dimensions.h"
#include "workloads/compiler/passes/simplify/window_padding.h"
#include "workloads/compiler/passes/unique_names.h"

namespace tpu::compiler {

namespace {

using RunPass = void (*)(const PassContext&);

/// Passes take what they work on: the module, its refusals, the target.
template <auto kPass>
void on_module(const PassContext& context) {
  kPass(context.scheduled.module);
}
template <auto kPass>
void with_refusals(const PassContext& context) {
  kPass(context.scheduled.module, context.scheduled.refusals);
}
template <auto kPass>
void with_target(const PassContext& context) {
  kPass(context.scheduled.module, context.target);
}
template <auto kPass>
void with_target_and_refusals(const PassContext& context) {
  kPass(context.scheduled.module, context.target, context.scheduled.refusals);
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

/// Orders of dimensions that the module states for what it takes and gives; row-major order, which
/// every file has that says nothing, is none. What an instruction in front of the result has as its
/// layout is the work of whoever wrote the file, as XLA's transposes.
GivenOrders stated_orders(const hlo::Module& module) {
  const hlo::Computation& entry = module.entry_computation();
  const hlo::EntryLayout& layout = module.entry_layout.get();
  const auto order_of = [](const hlo::Shape& shape) {
    const std::vector<std::int64_t>& order = shape.layout.minor_to_major;
    const bool is_row_major = std::is_sorted(order.rbegin(), order.rend());
    return is_row_major ? DimensionOrder{} : DimensionOrder(order.rbegin(), order.rend());
  };
  GivenOrders stated;
  const std::vector<hlo::InstructionId> parameters = entry.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const bool has_layout = layout.parameters.size() == parameters.size();
    stated.parameters.push_back(
        order_of(has_layout ? layout.parameters[i] : entry.at(parameters[i]).shape));
  }
  if (!layout.result.is_tuple()) stated.results.push_back(order_of(layout.result));
  for (const hlo::Shape& element : layout.result.elements) {
    stated.results.push_back(order_of(element));
  }
  return stated;
}

/// Of passes that copy instructions.
template <auto kPass>
void on_module_then_names(const PassContext& context) {
  kPass(context.scheduled.module);
  make_names_unique(context.scheduled.module);
}

void run_verify(const PassContext& context) {
  hlo::verify(context.scheduled.module);
  context.scheduled.given = stated_orders(context.scheduled.module);
  if (context.report != nullptr) note_types(context.scheduled.module, *context.report);
}

void run_hold_in_words(const PassContext& context) {
  const std::vector<std::string> random = notes_on_random_bits(context.scheduled.module);
  const std::vector<std::string> types = hold_in_words(context.scheduled.module);
  if (context.report == nullptr) return;
  for (const auto* notes : {&random, &types}) {
    context.report->notes.insert(context.report->notes.end(), notes->begin(), notes->end());
  }
}

/// The module runs on as many cores as the target has, in one partition unless it says how many.
void run_number_rings(const PassContext& context) {
  hlo::Module& module = context.scheduled.module;
  module.replicas = context.target.cores;
  if (module.partitions < 1 || module.replicas % module.partitions != 0) module.partitions = 1;
  number_rings(module);
}

void run_outline(const PassContext& context) {
  context.scheduled.regions = outline_control_flow(context.scheduled.module);
}

void run_tile_stacks(const PassContext& context) {
  tile_stacked_vectors(context.scheduled, context.target);
}

void run_allocate_results(const PassContext& context) {
  allocate_loop_results(context.scheduled);
  make_names_unique(context.scheduled.module);
}

void run_refuse(const PassContext& context) {
  refuse_unknown_operations(context.scheduled, context.target);
}

void run_rewrite_scans(const PassContext& context) {
  rewrite_scans(context.scheduled.module, context.scheduled.refusals, context.target);
}

void run_rewrite_convolutions(const PassContext& context) {
  rewrite_convolutions(context.scheduled.module, context.convolutions);
  make_names_unique(context.scheduled.module);  // Parts of one convolution may become dots.
}

void run_write_stencils(const PassContext& context) {
  write_stencils(context.scheduled.module, context.convolutions);
  make_names_unique(context.scheduled.module);
}

void run_read_parameters_unrounded(const PassContext& context) {
  read_parameters_unrounded(context.scheduled.module, context.convolutions);
}

void run_assign_layouts(const PassContext& context) {
  adopt_region_layouts(context.scheduled);
  assign_layouts(context.scheduled.module, context.convolutions,
                 orders_of_regions(context.scheduled), context.scheduled.given);
  copy_region_operands(context.scheduled);
  make_names_unique(context.scheduled.module);
}

void run_place_slices(const PassContext& context) { place_slices_by_iteration(context.scheduled); }

void run_sum_images(const PassContext& context) {
  sum_images_behind_convolutions(context.scheduled.module, context.target.hbm_bytes_per_cycle);
}

void run_fuse(const PassContext& context) {
  const Target& target = context.target;
  FusionLimits limits;
  limits.row_bytes = target.vmem_bytes / 2;
  limits.hbm_bytes_per_cycle = target.hbm_bytes_per_cycle;
  limits.product_cycles = [&](const hlo::Computation& entry, const auto& product,
                              const hlo::Shape& result, const AroundProduct& around) {
    const hlo::Shape& lhs = entry.at(product.operands[0]).shape;
    const hlo::Shape& rhs = entry.at(product.operands[1]).shape;
    return product.opcode == hlo::HloOpcode::kDot
               ? dot_cycles(product, lhs, rhs, result, around, target)
               : convolution_cycles(product, lhs, rhs, result, around, target);
  };
  fuse(context.scheduled.module, limits);
}

void run_join_small_kernels(const PassContext& context) {
  join_small_kernels(context.scheduled.module, context.target,
                     context.scheduled.counter.has_value());
}

void run_join_copies(const PassContext& context) {
  join_copies(context.scheduled.module, context.scheduled.counter.has_value());
}

void run_plan_hbm(const PassContext& context) { plan_hbm(context.scheduled, context.target); }

/// Rows of stage kInline and those that follow wherever something has been rewritten.
Pass flatten_row(Stage stage) {
  return {"flatten_calls",
          stage,
          on_module_then_names<flatten_calls>,
          {Fact::kVerified, Fact::kWhole},
          {Fact::kLayouts},
          {Fact::kFlat}};
}
Pass simplify_row(Stage stage) {
  return {"simplify", stage, on_module_then_names<simplify>, {Fact::kFlat}, {Fact::kLayouts}};
}

std::vector<Pass> whole_module_rows() {
  const Facts plain{Fact::kVerified}, words{Fact::kInWords};
  return {
      {"verify", Stage::kWhole, run_verify, {}, {}, plain},
      {"join_async_pairs", Stage::kWhole, on_module<join_async_pairs>, plain, {}, {Fact::kWhole}},
      {"resolve_custom_calls", Stage::kWhole, on_module<resolve_custom_calls>, plain},
      {"legalize_lapack_calls", Stage::kWhole, on_module<legalize_lapack_calls>, plain, words},
      {"expand_approximate_top_k",
       Stage::kWhole,
       on_module_then_names<expand_approximate_top_k>,
       plain,
       {Fact::kInWords},
       {},
       {},
       {},
       {"split_wide_sorts"}},
      {"expand_ragged_products",
       Stage::kWhole,
       on_module_then_names<expand_ragged_products>,
       plain,
       {Fact::kInWords},
       {},
       {},
       {},
       {"upcast_operands"}},
      {"upcast_operands", Stage::kWhole, on_module<upcast_operands>, plain, {Fact::kInWords}},
      {"expand_scatters",
       Stage::kWhole,
       on_module_then_names<expand_scatters>,
       plain,
       {Fact::kInWords},
       {},
       {},
       {},
       {"split_wide_sorts"}},
      {"expand_wide_reductions",
       Stage::kWhole,
       on_module_then_names<expand_wide_reductions>,
       plain,
       {Fact::kInWords},
       {},
       {},
       {},
       {"expand_wide_arithmetic"}},
      {"expand_wide_arithmetic",
       Stage::kWhole,
       on_module<expand_wide_arithmetic>,
       plain,
       {Fact::kInWords},
       {},
       {},
       {"expand_scatters"}},
      {"split_wide_sorts", Stage::kWhole, on_module<split_wide_sorts>, plain, {Fact::kInWords}},
      {"split_complex_states",
       Stage::kWhole,
       on_module<split_complex_states>,
       plain,
       {Fact::kInWords}},
      {"hold_in_words", Stage::kWhole, run_hold_in_words, plain, {}, {Fact::kInWords}},
      {"expand_factorizations",
       Stage::kWhole,
       with_target<expand_factorizations>,
       {Fact::kWhole, Fact::kInWords},
       {Fact::kOutlined}},
      {"expand_eigenvalues",
       Stage::kWhole,
       on_module<expand_eigenvalues>,
       {Fact::kWhole, Fact::kInWords},
       {Fact::kOutlined}},
      {"number_rings",
       Stage::kWhole,
       run_number_rings,
       {Fact::kWhole},
       {Fact::kOutlined},
       {Fact::kGroupsNumbered}},
  };
}

std::vector<Pass> inline_rows() {
  return {
      flatten_row(Stage::kInline),
      {"replace_empty_arrays",
       Stage::kInline,
       on_module<replace_empty_arrays>,
       {Fact::kFlat},
       {},
       {Fact::kNotEmpty}},
      simplify_row(Stage::kInline),
      {"outline_control_flow",
       Stage::kOutline,
       run_outline,
       {Fact::kFlat, Fact::kGroupsNumbered},
       {Fact::kLayouts},
       {Fact::kOutlined},
       {},
       {"simplify"}},
      flatten_row(Stage::kOutline),
      simplify_row(Stage::kOutline),
      {"tile_stacked_vectors",
       Stage::kOutline,
       run_tile_stacks,
       {Fact::kOutlined},
       {Fact::kLayouts}},
      {"allocate_loop_results",
       Stage::kBehindBodies,
       run_allocate_results,
       {Fact::kOutlined},
       {Fact::kLayouts}},
      flatten_row(Stage::kBehindBodies),
      simplify_row(Stage::kBehindBodies),
  };
}

/// Operations become those that have kernels.
std::vector<Pass> rewriting_rows() {
  const Stage stage = Stage::kEntry;
  const Facts needs{Fact::kFlat, Fact::kOutlined, Fact::kInWords};
  const Facts excludes{Fact::kLayouts};
  const auto row = [&](const char* name, RunPass run, std::vector<const char*> after = {},
                       std::vector<const char*> before = {}) {
    return Pass{name, stage, run, needs, excludes, {}, {}, std::move(after), std::move(before)};
  };
  std::vector<Pass> rows{
      row("fold_window_padding", on_module<fold_window_padding>, {},
          {"rewrite_precise_products", "rewrite_convolutions"}),
      row("write_stencils", run_write_stencils, {"fold_window_padding"},
          {"multiply_columns", "rewrite_precise_products", "rewrite_convolutions"}),
      row("rewrite_random_bits", with_refusals<rewrite_random_bits>),
      row("rewrite_collectives", with_refusals<rewrite_collectives>, {"number_rings"},
          {"rewrite_indexed_access"}),
      row("rewrite_integer_dots", with_refusals<rewrite_integer_dots>),
      row("compute_sliced_values", on_module_then_names<compute_sliced_values>, {},
          {"rewrite_indexed_access"}),
      row("multiply_in_blocks", with_target<multiply_in_blocks>, {},
          {"multiply_columns", "multiply_small_matrices", "rewrite_precise_products"}),
      row("multiply_columns", with_target<multiply_columns>, {},
          {"multiply_small_matrices", "rewrite_precise_products"}),
      row("multiply_small_matrices", on_module<multiply_small_matrices>, {},
          {"rewrite_precise_products", "drop_unit_dimensions"}),
      row("rewrite_precise_products", on_module<rewrite_precise_products>),
      row("separate_initial_values", with_refusals<separate_initial_values>, {},
          {"rewrite_scans", "rewrite_reductions"}),
      row("rewrite_scans", run_rewrite_scans, {}, {"rewrite_windows"}),
      row("rewrite_sorts", with_target<rewrite_sorts>, {}, {"rewrite_reductions"}),
      row("rewrite_reductions", with_refusals<rewrite_reductions>, {}, {"rewrite_indexed_access"}),
      row("rewrite_regular_gathers", on_module<rewrite_regular_gathers>, {},
          {"rewrite_indexed_access"}),
      row("rewrite_indexed_access", with_target_and_refusals<rewrite_indexed_access>,
          {"rewrite_reductions"}),
      row("rewrite_reductions", with_refusals<rewrite_reductions>, {"rewrite_indexed_access"}),
      row("rewrite_convolutions", run_rewrite_convolutions),
      row("rewrite_windows", with_target<rewrite_windows>, {"rewrite_convolutions"}),
      row("split_steps", on_module<split_steps>),
      row("refuse_unknown_operations", run_refuse, {"rewrite_windows", "split_steps"}),
  };
  rows.back().gives = {Fact::kRewritten};
  return rows;
}

/// The same operations over better shapes and types.
std::vector<Pass> shaping_rows() {
  const Stage stage = Stage::kEntry;
  const auto row = [&](const char* name, RunPass run, std::vector<const char*> after = {}) {
    return Pass{name, stage,           run, {Fact::kFlat, Fact::kRewritten}, {Fact::kLayouts}, {},
                {},   std::move(after)};
  };
  return {
      row("delay_repetitions", on_module<delay_repetitions>),
      row("join_padded_sums", on_module<join_padded_sums>),
      row("multiply_small_matrices", on_module<multiply_small_matrices>),
      row("unroll_short_dimensions", on_module<unroll_short_dimensions>),
      row("cut_large_sums", with_target<cut_large_sums>),
      row("drop_unit_dimensions", on_module<drop_unit_dimensions>),
      simplify_row(stage),
      row("move_rearrangements", on_module<move_rearrangements>),
      simplify_row(stage),
      row("pad_operands", on_module<pad_operands>),
      simplify_row(stage),
      row("join_split_lanes", on_module<join_split_lanes>),
      simplify_row(stage),
      row("use_canonical_forms", on_module<use_canonical_forms>),
      simplify_row(stage),
      row("join_narrow_dots", on_module<join_narrow_dots>, {"use_canonical_forms"}),
      simplify_row(stage),
      row("narrow_dot_operands", on_module<narrow_dot_operands>, {"use_canonical_forms"}),
      row("read_masks_from_activations", on_module<read_masks_from_activations>,
          {"narrow_dot_operands"}),
      simplify_row(stage),
      row("move_reshapes", on_module<move_reshapes>, {"narrow_dot_operands"}),
      simplify_row(stage),
      row("delay_transposes", on_module<delay_transposes>, {"move_reshapes"}),
      simplify_row(stage),
      row("read_parameters_unrounded", run_read_parameters_unrounded, {"narrow_dot_operands"}),
  };
}

/// Arrays get places in tiles, operations become kernels.
std::vector<Pass> kernel_rows() {
  const Stage stage = Stage::kEntry;
  const Facts laid_out{Fact::kLayouts, Fact::kOutlined};
  const Facts fused{Fact::kFused};
  return {
      {"assign_layouts",
       stage,
       run_assign_layouts,
       {Fact::kRewritten, Fact::kOutlined},
       {Fact::kLayouts},
       {Fact::kLayouts}},
      {"find_bitcasts", stage, on_module<find_bitcasts>, laid_out, fused},
      {"split_large_copies",
       stage,
       with_target<split_large_copies>,
       laid_out,
       fused,
       {},
       {},
       {"find_bitcasts"}},
      {"place_slices_by_iteration", stage, run_place_slices, laid_out, fused},
      {"combine_all_reduces",
       stage,
       with_target<combine_all_reduces>,
       {Fact::kLayouts, Fact::kGroupsNumbered},
       fused},
      {"sum_images_behind_convolutions",
       stage,
       run_sum_images,
       laid_out,
       fused,
       {},
       {},
       {"find_bitcasts"}},
      {"fuse",
       stage,
       run_fuse,
       {Fact::kLayouts, Fact::kFlat},
       fused,
       fused,
       {Fact::kFlat},
       {"find_bitcasts"}},
      {"read_slices_in_place", stage, on_module<read_slices_in_place>, fused, {Fact::kStoredTypes}},
      {"read_elements_in_place",
       stage,
       on_module<read_elements_in_place>,
       fused,
       {Fact::kStoredTypes}},
      {"widen", stage, on_module<widen>, {Fact::kFused, Fact::kLayouts}, {}, {Fact::kStoredTypes}},
      {"part_large_fusions", stage, with_target<part_large_fusions>, {Fact::kStoredTypes}, {}},
  };
}

/// Kernels are joined and put in order, arrays get places in HBM.
std::vector<Pass> scheduling_rows() {
  const Stage stage = Stage::kEntry;
  const Facts stored{Fact::kStoredTypes}, scheduled{Fact::kScheduled};
  const std::vector<const char*> small{"join_small_kernels"};
  return {
      {"read_shifts_in_place",
       stage,
       with_target<read_shifts_in_place>,
       stored,
       scheduled,
       {},
       {},
       {"part_large_fusions"}},
      {"join_small_kernels", stage, run_join_small_kernels, stored, scheduled},
      {"write_concatenations_in_place",
       stage,
       on_module<write_concatenations_in_place>,
       stored,
       scheduled,
       {},
       {},
       small},
      {"place_vectors_in_rows",
       stage,
       with_target<place_vectors_in_rows>,
       stored,
       scheduled,
       {},
       {},
       small},
      {"join_moves", stage, with_target<join_moves>, stored, scheduled, {}, {}, small},
      {"insert_copies",
       stage,
       on_module_then_names<insert_copies>,
       {Fact::kFused, Fact::kStoredTypes},
       {},
       {Fact::kScheduled}},
      {"join_copies", stage, run_join_copies, {Fact::kScheduled}},
      {"split_into_phases",
       stage,
       with_target<split_into_phases>,
       {Fact::kScheduled},
       {},
       {},
       {Fact::kWhole},
       {"combine_all_reduces", "insert_copies"}},
      {"plan_hbm",
       Stage::kPlan,
       run_plan_hbm,
       {Fact::kScheduled, Fact::kStoredTypes},
       {},
       {Fact::kPlanned}},
  };
}

std::vector<Pass> made_table() {
  std::vector<Pass> table;
  for (const auto& rows : {whole_module_rows(), inline_rows(), rewriting_rows(), shaping_rows(),
                           kernel_rows(), scheduling_rows()}) {
    table.insert(table.end(), rows.begin(), rows.end());
  }
  return table;
}

[[noreturn]] void fail(const Pass& pass, const std::string& what) {
  throw SimulatorBug(std::string("table of passes: ") + pass.name + " " + what);
}

void check_row(const std::vector<Pass>& table, const Pass& pass, const Facts& held,
               const std::set<std::string>& done) {
  for (unsigned i = 0; i < static_cast<unsigned>(Fact::kCount); ++i) {
    const auto fact = static_cast<Fact>(i);
    if (pass.needs.has(fact) && !held.has(fact)) {
      std::string givers;
      for (const Pass& other : table) {
        if (other.gives.has(fact)) givers += (givers.empty() ? "" : ", ") + std::string(other.name);
      }
      fail(pass, "needs \"" + to_string(fact) + "\", which nothing before it establishes (" +
                     (givers.empty() ? "no pass does" : "there is " + givers) + ")");
    }
    if (pass.excludes.has(fact) && held.has(fact)) {
      fail(pass, "has to stand before the pass that establishes \"" + to_string(fact) + "\"");
    }
  }
  for (const char* name : pass.after) {
    if (done.count(name) == 0) fail(pass, "has to stand behind " + std::string(name));
  }
  for (const char* name : pass.before) {
    if (done.count(name) > 0) fail(pass, "has to stand before " + std::string(name));
  }
}

}  // namespace

std::string to_string(Fact fact) {
  static constexpr std::array<const char*, static_cast<std::size_t>(Fact::kCount)> kTexts{
      "verified",
      "no operation in two halves",
      "types of one word",
      "numbered groups",
      "no calls in the entry",
      "no empty arrays",
      "loops and branches outlined",
      "only operations that kernels may have",
      "layouts",
      "fused",
      "types that memory holds",
      "the order of the kernels",
      "places in HBM"};
  return kTexts.at(static_cast<std::size_t>(fact));
}

const std::vector<Pass>& pass_table() {
  static const std::vector<Pass> kTable = made_table();
  return kTable;
}

void check_order(const std::vector<Pass>& table) {
  Facts held;
  std::set<std::string> done;
  Stage stage = Stage::kWhole;
  for (const Pass& pass : table) {
    if (pass.stage < stage) fail(pass, "stands behind a later stage");
    stage = pass.stage;
    check_row(table, pass, held, done);
    held = held.without(pass.ends).with(pass.gives);
    done.insert(pass.name);
  }
}

}  // namespace tpu::compiler
