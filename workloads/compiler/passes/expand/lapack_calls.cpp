#include "workloads/compiler/passes/expand/lapack_calls.h"

#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {
namespace {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// LAPACK's letter of an option (`uplo = 76 : ui8`), or 0.
char option(const HloInstruction& call, std::string_view name) {
  const std::string& text = call.raw_attributes.get();
  const std::string key = std::string(name) + " = ";
  for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
    if (at > 0 && (text[at - 1] == '{' || text[at - 1] == ' ')) {
      return static_cast<char>(std::atoi(text.c_str() + at + key.size()));
    }
  }
  return 0;
}

class LapackCall {
 public:
  LapackCall(GraphEditor& edit, const HloInstruction& call) : edit_(edit), call_(call) {}

  /// The factor in its triangle, what stood there in the other one.
  void potrf() {
    const bool is_lower = option(call_, "uplo") != 'U';
    const Id given = call_.operands[0];
    const Extents extents = edit_.dimensions(given);
    const auto last = static_cast<std::int64_t>(extents.size()) - 1;
    HloInstruction factorization = edit_.start(HloOpcode::kCholesky, {given}, edit_.shape(given));
    factorization.raw_attributes = std::string("lower=") + (is_lower ? "true" : "false");
    const Id factor = edit_.append_instruction(std::move(factorization));
    const Id is_factor =
        edit_.compare(edit_.iota(ElementType::kS32, extents, last - 1),
                      edit_.iota(ElementType::kS32, extents, last),
                      is_lower ? hlo::ComparisonDirection::kGe : hlo::ComparisonDirection::kLe);
    const Id is_no_number = edit_.convert(
        edit_.compare(factor, factor, hlo::ComparisonDirection::kNe), ElementType::kF32);
    const Id info = edit_.reduce(is_no_number, HloOpcode::kMaximum, {last - 1, last}, 0);
    edit_.finish_tuple(
        {edit_.select(is_factor, factor, given), edit_.convert(info, ElementType::kS32)});
  }

  void trsm() {
    HloInstruction solve = edit_.start(HloOpcode::kTriangularSolve, call_.operands, call_.shape);
    const auto flag = [&](const char* name, char letter) {
      return option(call_, name) == letter ? "=true" : "=false";
    };
    solve.raw_attributes =
        std::string("left_side") + flag("side", 'L') + ", lower" + flag("uplo", 'L') +
        ", unit_diagonal" + flag("diag", 'U') +
        ", transpose_a=" + (option(call_, "trans_x") == 'N' ? "NO_TRANSPOSE" : "TRANSPOSE");
    edit_.finish(edit_.append_instruction(std::move(solve)));
  }

  void getrf() {
    Extents order = edit_.dimensions(call_.operands[0]);
    order.pop_back();
    hlo::Shape shape = call_.shape;
    shape.elements[2] = hlo::array_shape(ElementType::kS32, order);
    const Id factors = of_tpu("LuDecomposition", shape);
    edit_.finish_tuple({element_of(factors, 0),
                        edit_.binary_with(HloOpcode::kAdd, element_of(factors, 1), 1),
                        zeros(call_.shape.elements[2])});
  }

  void geqrf() {
    const Id factors = of_tpu("Qr", call_.shape);
    edit_.finish_tuple({element_of(factors, 0), element_of(factors, 1)});
  }

  void orgqr() { edit_.finish(of_tpu("ProductOfElementaryHouseholderReflectors", call_.shape)); }

  void syevd() {
    hlo::Shape shape = call_.shape;
    shape.elements.pop_back();
    const Id both = of_tpu("Eigh", shape,
                           std::string("backend_config=\"") +
                               (option(call_, "uplo") == 'U' ? "0" : "1") + ",1,100,1e-6\"");
    edit_.finish_tuple({element_of(both, 0), element_of(both, 1), zeros(call_.shape.elements[2])});
  }

 private:
  Id of_tpu(const char* target, const hlo::Shape& shape, const std::string& attributes = {}) {
    HloInstruction made = edit_.start(HloOpcode::kCustomCall, call_.operands, shape);
    made.custom_call_target = std::string(target);
    if (!attributes.empty()) made.raw_attributes = attributes;
    return edit_.append_instruction(std::move(made));
  }
  Id element_of(Id tuple, std::size_t index) {
    HloInstruction element =
        edit_.start(HloOpcode::kGetTupleElement, {tuple}, edit_.shape(tuple).elements[index]);
    element.tuple_index = static_cast<std::int64_t>(index);
    return edit_.append_instruction(std::move(element));
  }
  Id zeros(const hlo::Shape& shape) { return edit_.splat(shape.type, shape.dimensions, 0); }

  GraphEditor& edit_;
  const HloInstruction& call_;
};

/// What a call of LAPACK becomes, and the operands and results that it has.
struct Routine {
  void (LapackCall::*legalize)();
  std::size_t operands, results;
};

const Routine* routine_of(const HloInstruction& instruction) {
  static const std::map<std::string_view, Routine> kRoutines{
      {"lapack_spotrf_ffi", {&LapackCall::potrf, 1, 2}},
      {"lapack_strsm_ffi", {&LapackCall::trsm, 2, 1}},
      {"lapack_sgetrf_ffi", {&LapackCall::getrf, 1, 3}},
      {"lapack_sgeqrf_ffi", {&LapackCall::geqrf, 1, 2}},
      {"lapack_sorgqr_ffi", {&LapackCall::orgqr, 2, 1}},
      {"lapack_ssyevd_ffi", {&LapackCall::syevd, 1, 3}},
  };
  if (instruction.opcode != HloOpcode::kCustomCall) return nullptr;
  const auto found = kRoutines.find(instruction.custom_call_target.get());
  if (found == kRoutines.end()) return nullptr;
  const Routine& routine = found->second;
  const std::size_t results = instruction.shape.is_tuple() ? instruction.shape.elements.size() : 1;
  return instruction.operands.size() == routine.operands && results == routine.results ? &routine
                                                                                       : nullptr;
}

/// A matrix, or several.
bool has_matrix(const hlo::Computation& computation, const HloInstruction& call) {
  const hlo::Shape& given = computation.at(call.operands[0]).shape;
  return given.type == ElementType::kF32 && given.rank() >= 2;
}

}  // namespace

bool is_cpu_library_call(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kCustomCall &&
         instruction.custom_call_target.get().rfind("lapack_", 0) == 0;
}

void legalize_lapack_calls(hlo::Module& module) {
  const auto takes = [](const hlo::Computation& code, const HloInstruction& call) {
    return routine_of(call) != nullptr && has_matrix(code, call);
  };
  rewrite_everywhere(module, takes, [](GraphEditor& edit, const HloInstruction& given) {
    LapackCall call(edit, given);
    (call.*routine_of(given)->legalize)();
  });
}

}  // namespace tpu::compiler
