#include "workloads/compiler/passes/expand/approximate_top_k.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Shape;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// A vector's elements lie in tiles of 1,024, those of the minor dimension of others in 128 lanes.
std::int64_t tile_of(std::int64_t rank) { return rank == 1 ? 1024 : 128; }

/// The word behind a name in the text of a dictionary of MLIR; empty where there is none.
std::string word_behind(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name + " = ");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + name.size() + 3;
  return text.substr(begin, text.find_first_of(" ,}", begin) - begin);
}

class ApproximateTopK {
 public:
  ApproximateTopK(GraphEditor& edit, const HloInstruction& call)
      : edit_(edit),
        call_(call),
        config_(call.raw_attributes.get()),
        count_(call.operands.size() / 2) {}

  void run() {
    const std::string along = word_behind(config_, "reduction_dim"),
                      k = word_behind(config_, "top_k"),
                      recall = word_behind(config_, "recall_target"),
                      whole = word_behind(config_, "reduction_input_size_override");
    const bool is_complete = !along.empty() && !k.empty() && !recall.empty() &&
                             call_.called.size() == 1 && count_ > 0 && call_.shape.is_tuple() &&
                             call_.shape.elements.size() == count_;
    dimension_ = is_complete ? std::atoll(along.c_str()) : -1;
    const Extents extents = edit_.dimensions(call_.operands[0]);
    const auto rank = static_cast<std::int64_t>(extents.size());
    if (dimension_ < 0 || dimension_ >= rank) {
      throw WorkloadError(call_.name +
                          ": expected ApproxTopK with reduction_dim, top_k, recall_target and a "
                          "comparator, found " +
                          config_);
    }
    const std::int64_t size = extents[static_cast<std::size_t>(dimension_)];
    std::int64_t all = whole.empty() ? -1 : std::atoll(whole.c_str());
    if (all < size) all = size;
    // Where the TPU is not meant, all elements are sorted.
    const bool is_exact = word_behind(config_, "is_fallback") == "true";
    const int halvings = is_exact ? 0
                                  : halvings_for_top_k(size, rank, std::atoll(k.c_str()),
                                                       std::strtod(recall.c_str(), nullptr), all);
    std::vector<Id> values(call_.operands.begin(),
                           call_.operands.begin() + static_cast<std::ptrdiff_t>(count_));
    if (halvings > 0) values = reduced(size, halvings);
    const bool is_sorted = is_exact || word_behind(config_, "aggregate_to_topk") == "true";
    if (is_sorted) values = first_of_sorted(values);
    edit_.finish_tuple(values);
  }

 private:
  Shape shapes_with(std::int64_t size) const {
    Shape shapes = call_.shape;
    for (Shape& shape : shapes.elements) {
      shape.dimensions[static_cast<std::size_t>(dimension_)] = size;
    }
    return shapes;
  }
  std::vector<Id> elements_of(Id tuple) {
    std::vector<Id> elements;
    for (std::size_t i = 0; i < count_; ++i) {
      HloInstruction element =
          edit_.start(HloOpcode::kGetTupleElement, {tuple}, edit_.shape(tuple).elements[i]);
      element.tuple_index = static_cast<std::int64_t>(i);
      elements.push_back(edit_.append_instruction(std::move(element)));
    }
    return elements;
  }
  std::vector<Id> reduced(std::int64_t size, int halvings) {
    const std::int64_t tile = tile_of(edit_.shape(call_.operands[0]).rank());
    const std::int64_t left =
        ceil_divide(ceil_divide(size, tile), std::int64_t{1} << halvings) * tile;
    HloInstruction reduce = edit_.start(HloOpcode::kCustomCall, call_.operands, shapes_with(left));
    reduce.custom_call_target = std::string("PartialReduce");
    reduce.raw_attributes = "backend_config={\"log2_reduction\": " + std::to_string(halvings) +
                            ", \"reduction_dim\": " + std::to_string(dimension_) + "}";
    reduce.called = call_.called;
    return elements_of(edit_.append_instruction(std::move(reduce)));
  }
  std::vector<Id> first_of_sorted(const std::vector<Id>& values) {
    const auto d = static_cast<std::size_t>(dimension_);
    HloInstruction sort =
        edit_.start(HloOpcode::kSort, values, shapes_with(edit_.dimensions(values[0])[d]));
    sort.dimensions = {dimension_};
    sort.called = call_.called;
    std::vector<Id> sorted = elements_of(edit_.append_instruction(std::move(sort)));
    for (std::size_t i = 0; i < count_; ++i) {
      const Extents limits = call_.shape.elements[i].dimensions;
      sorted[i] = edit_.slice(sorted[i], Extents(limits.size(), 0), limits);
    }
    return sorted;
  }

  GraphEditor& edit_;
  const HloInstruction call_;
  const std::string config_;
  const std::size_t count_;  ///< Of arrays: the values, and what goes along with them.
  std::int64_t dimension_ = -1;
};

}  // namespace

int halvings_for_top_k(std::int64_t size, std::int64_t rank, std::int64_t k, double recall,
                       std::int64_t whole) {
  const std::int64_t tile = tile_of(rank);
  const auto log2_up = [](std::int64_t n) {
    int bits = 0;
    while ((std::int64_t{1} << bits) < n) ++bits;
    return bits;
  };
  if (size <= tile) return 0;
  if (k == 1) return log2_up(ceil_divide(whole, tile));
  if (recall >= 1 || recall <= 0) return 0;
  // Of M groups, one in which k - 1 others fall with a probability of (1 - 1/M)^(k-1) is kept.
  const double groups = (1 - static_cast<double>(k)) / std::log(recall);
  const std::int64_t least = groups >= static_cast<double>(whole)
                                 ? whole
                                 : std::max(static_cast<std::int64_t>(groups), tile);
  int halvings = 0;
  while (whole / std::min(least, whole) >> (halvings + 1) != 0) ++halvings;
  return std::min(halvings, log2_up(size / tile));
}

void expand_approximate_top_k(hlo::Module& module) {
  const auto takes = [](const hlo::Computation&, const HloInstruction& instruction) {
    return instruction.opcode == HloOpcode::kCustomCall &&
           instruction.custom_call_target.get() == "ApproxTopK";
  };
  rewrite_everywhere(module, takes, [](GraphEditor& edit, const HloInstruction& call) {
    ApproximateTopK(edit, call).run();
  });
}

}  // namespace tpu::compiler
