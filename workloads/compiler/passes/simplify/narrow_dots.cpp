#include "workloads/compiler/passes/simplify/narrow_dots.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/dot_problem.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::DotDimensions;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

using Extents = GraphEditor::Extents;

constexpr std::int64_t kLanesJoined = 128;
/// Features of a dot that is joined: half of the lanes are padding without others.
constexpr std::int64_t kMostFeatures = kLanesJoined / 2;
/// The bytes of what is read once, over those of a result, of which slices are read then.
constexpr double kLeastShare = 1.5;
/// Of a smaller array the kernels' own beginnings and ends, of which slices add more, count.
constexpr double kLeastJoined = 1 << 20;

/// Bytes with the last dimension in the lanes.
double bytes_in_lanes(const Shape& shape) {
  const std::int64_t last = shape.dimensions.empty() ? 1 : shape.dimensions.back();
  const double rows = static_cast<double>(shape.element_count()) / static_cast<double>(last);
  return rows * static_cast<double>(round_up(last, kLanesJoined) * hlo::byte_size(shape.type));
}

class NarrowDots {
 public:
  explicit NarrowDots(hlo::Module& module)
      : entry_(module.computations[static_cast<std::size_t>(module.entry)]), edit_(module) {}

  void run() {
    users_ = users_of(entry_);
    join_readers();
    tidy(entry_);
    users_ = users_of(entry_);
    join_sums();
    tidy(entry_);
  }

 private:
  const HloInstruction& at(InstructionId id) const { return entry_.at(id); }
  bool is_plain(const HloInstruction& dot) const {
    return dot.opcode == HloOpcode::kDot && dot.dot->lhs_batch.empty() &&
           dot.shape.element_count() > 0;
  }

  /// Dots of one array by what they share: it, what is contracted, types and attributes.
  using Readers = std::map<std::tuple<InstructionId, Extents, Extents, std::string>,
                           std::vector<InstructionId>>;
  void join_readers() {
    Readers readers;
    for (const HloInstruction& dot : entry_.instructions) {
      if (!is_plain(dot)) continue;
      const DotDimensions& dims = dot.dot;
      const Shape& right = at(dot.operands[1]).shape;
      const bool is_narrow =
          !is_added(dot.id) &&
          right.rank() == static_cast<std::int64_t>(dims.rhs_contracting.size()) + 1 &&
          dot.shape.dimensions.back() <= kMostFeatures;
      if (!is_narrow) continue;
      readers[{dot.operands[0], dims.lhs_contracting, dims.rhs_contracting, kind_of(dot)}]
          .push_back(dot.id);
    }
    for (auto& [shared, dots] : readers) {
      for (std::size_t first = 0; first < dots.size();) {
        std::vector<InstructionId> together;
        std::int64_t features = 0;
        for (; first < dots.size(); ++first) {
          features += at(dots[first]).shape.dimensions.back();
          if (features > kLanesJoined || needs_any(at(dots[first]).operands[1], together)) break;
          together.push_back(dots[first]);
        }
        if (is_worth(together)) join(together);
      }
    }
  }

  /// Whether the product is added to another one, as parts of products at higher precision are:
  /// slices would bring each to other lanes.
  bool is_added(InstructionId dot) const {
    const auto adds_dots = [this](InstructionId user) {
      const std::vector<InstructionId>& operands = at(user).operands;
      return at(user).opcode == HloOpcode::kAdd &&
             std::all_of(operands.begin(), operands.end(), [this](InstructionId each) {
               return at(each).opcode == HloOpcode::kDot || at(each).opcode == HloOpcode::kAdd;
             });
    };
    return std::any_of(users(dot).begin(), users(dot).end(), adds_dots);
  }

  std::string kind_of(const HloInstruction& dot) const {
    return std::to_string(static_cast<int>(dot.shape.type)) + "," +
           std::to_string(static_cast<int>(at(dot.operands[1]).shape.type)) + "," +
           dot.raw_attributes.get();
  }

  /// Whether a value is computed of one of these.
  bool needs_any(InstructionId value, const std::vector<InstructionId>& others) const {
    std::vector<InstructionId> work{value};
    std::set<InstructionId> seen{value};
    while (!work.empty()) {
      const InstructionId id = work.back();
      work.pop_back();
      if (std::find(others.begin(), others.end(), id) != others.end()) return true;
      for (InstructionId operand : at(id).operands) {
        if (seen.insert(operand).second) work.push_back(operand);
      }
    }
    return false;
  }

  /// The shared array is read, and a result written, once in place of each time; the narrow arrays
  /// are written side by side and read.
  bool is_worth(const std::vector<InstructionId>& dots) const {
    if (dots.size() < 2) return false;
    const HloInstruction& first = at(dots[0]);
    const double shared = bytes_in_lanes(at(first.operands[0]).shape);
    const Shape& other = at(first.operands[1]).shape;
    double narrow = static_cast<double>(hlo::byte_size(other.type)) * kLanesJoined;
    for (std::int64_t d : first.dot->rhs_contracting) {
      narrow *= static_cast<double>(other.dimensions[static_cast<std::size_t>(d)]);
    }
    const double spared =
        static_cast<double>(dots.size() - 1) * (shared + bytes_in_lanes(first.shape));
    return shared >= kLeastJoined && shared >= kLeastShare * bytes_in_lanes(first.shape) &&
           spared > 2 * narrow;
  }

  void join(const std::vector<InstructionId>& dots) {
    HloInstruction joined = at(dots[0]);
    const std::int64_t d =
        free_dimensions(at(joined.operands[1]).shape, {}, joined.dot->rhs_contracting).front();
    edit_.stand_for(dots[0]);
    std::vector<InstructionId> parts;
    std::int64_t features = 0;
    for (InstructionId dot : dots) {
      parts.push_back(at(dot).operands[1]);
      features += at(dot).shape.dimensions.back();
    }
    joined.operands[1] = edit_.concatenate(parts, d);
    joined.shape.dimensions.back() = features;
    joined.name += ".joined." + std::to_string(entry_.instructions.size());
    const InstructionId whole = edit_.append_instruction(std::move(joined));
    std::int64_t begin = 0;
    for (InstructionId dot : dots) {
      const std::int64_t count = at(dot).shape.dimensions.back();
      edit_.stand_for(dot);
      edit_.finish(edit_.take(whole, at(dot).shape.rank() - 1, begin, count, 1));
      begin += count;
    }
  }

  const std::vector<InstructionId>& users(InstructionId id) const {
    return users_[static_cast<std::size_t>(id)];
  }

  /// What a sum adds up, where nothing else reads the sums on the way.
  void leaves_of(InstructionId sum, std::vector<InstructionId>& leaves) const {
    for (InstructionId operand : at(sum).operands) {
      const bool goes_on = at(operand).opcode == HloOpcode::kAdd && users(operand).size() == 1 &&
                           at(operand).operands[0] != at(operand).operands[1];
      goes_on ? leaves_of(operand, leaves) : leaves.push_back(operand);
    }
  }

  /// A dot of few features along the last dimension, which nothing but the sum reads.
  bool is_short(InstructionId id) const {
    const HloInstruction& dot = at(id);
    if (!is_plain(dot) || users(id).size() != 1 || dot.dot->lhs_contracting.size() != 1) {
      return false;
    }
    const Shape &left = at(dot.operands[0]).shape, &right = at(dot.operands[1]).shape;
    return right.rank() == 2 && dot.dot->lhs_contracting[0] == left.rank() - 1 &&
           left.dimensions.back() <= kMostFeatures;
  }

  void join_sums() {
    const std::size_t count = entry_.instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      const auto id = static_cast<InstructionId>(i);
      if (at(id).opcode != HloOpcode::kAdd) continue;
      const bool is_inner = users(id).size() == 1 && at(users(id)[0]).opcode == HloOpcode::kAdd;
      if (is_inner || at(id).operands[0] == at(id).operands[1]) continue;
      std::vector<InstructionId> leaves;
      leaves_of(id, leaves);
      join_leaves(id, leaves);
    }
  }

  void join_leaves(InstructionId sum, const std::vector<InstructionId>& leaves) {
    std::map<std::pair<Extents, std::string>, std::vector<InstructionId>> alike;
    for (InstructionId leaf : leaves) {
      if (!is_short(leaf)) continue;
      auto& dots =
          alike[{at(leaf).dot->rhs_contracting,
                 kind_of(at(leaf)) +
                     std::to_string(static_cast<int>(at(at(leaf).operands[0]).shape.type))}];
      std::int64_t features = at(at(leaf).operands[0]).shape.dimensions.back();
      bool shares = false;  // As parts of products at higher precision do, which have their forms.
      for (InstructionId dot : dots) {
        features += at(at(dot).operands[0]).shape.dimensions.back();
        shares |= at(dot).operands[0] == at(leaf).operands[0] ||
                  at(dot).operands[1] == at(leaf).operands[1];
      }
      if (features <= kLanesJoined && !shares) dots.push_back(leaf);
    }
    std::set<InstructionId> gone;
    std::vector<InstructionId> terms;
    for (auto& [kind, dots] : alike) {
      std::sort(dots.begin(), dots.end());
      if (!is_worth_sum(dots)) continue;
      gone.insert(dots.begin(), dots.end());
      edit_.stand_for(sum);
      terms.push_back(join_contracted(dots));
    }
    if (terms.empty()) return;
    for (InstructionId leaf : leaves) {
      if (gone.count(leaf) == 0) terms.push_back(leaf);
    }
    edit_.stand_for(sum);
    InstructionId value = terms[0];
    for (std::size_t i = 1; i < terms.size(); ++i) {
      value = edit_.binary(HloOpcode::kAdd, value, terms[i]);
    }
    edit_.finish(value);
  }

  /// Partial sums are neither written nor read; what is contracted is written side by side.
  bool is_worth_sum(const std::vector<InstructionId>& dots) const {
    if (dots.size() < 2) return false;
    const double result = bytes_in_lanes(at(dots[0]).shape);
    const double side = bytes_in_lanes(at(at(dots[0]).operands[0]).shape);
    return result >= kLeastJoined && static_cast<double>(dots.size() - 1) * 2 * result > 2 * side;
  }

  InstructionId join_contracted(const std::vector<InstructionId>& dots) {
    HloInstruction joined = at(dots[0]);
    std::vector<InstructionId> left, right;
    for (InstructionId dot : dots) {
      left.push_back(at(dot).operands[0]);
      right.push_back(at(dot).operands[1]);
    }
    const std::int64_t last = at(left[0]).shape.rank() - 1;
    joined.operands = {edit_.concatenate(left, last),
                       edit_.concatenate(right, joined.dot->rhs_contracting[0])};
    joined.name += ".joined." + std::to_string(entry_.instructions.size());
    return edit_.append_instruction(std::move(joined));
  }

  Computation& entry_;
  GraphEditor edit_;
  std::vector<std::vector<InstructionId>> users_;
};

}  // namespace

void join_narrow_dots(hlo::Module& module) { NarrowDots(module).run(); }

}  // namespace tpu::compiler
