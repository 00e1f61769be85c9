#include "workloads/compiler/passes/fuse/fusion.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sim/base/contains.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/lane_moves.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/fuse/draft_cycles.h"
#include "workloads/compiler/passes/fuse/epilogue_forms.h"
#include "workloads/compiler/passes/fuse/fusion_draft.h"
#include "workloads/compiler/passes/fuse/fusion_writer.h"
#include "workloads/compiler/passes/fuse/kernel_order.h"
#include "workloads/compiler/passes/fuse/kernel_sequences.h"
#include "workloads/compiler/passes/fuse/prologue_forms.h"
#include "workloads/compiler/passes/fuse/sums_in_kernels.h"
#include "workloads/compiler/passes/fuse/written_values.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

class Fusion {
 public:
  Fusion(hlo::Module& module, const FusionLimits& limits)
      : module_(module),
        limits_(limits),
        entry_(module.entry_computation()),
        extents_(entry_),
        sums_(entry_, extents_, limits.row_bytes),
        epilogues_(module, entry_, limits),
        prologues_(entry_, limits_),
        values_(entry_, extents_, sums_, limits_) {}

  void run();

 private:
  const HloInstruction& at(InstructionId id) const { return entry_.at(id); }
  bool is_fusible(InstructionId id) const { return values_.is_fusible(id); }
  std::uint64_t bytes(InstructionId id) const { return values_.bytes(id); }
  void collect(FusionDraft& draft) const { values_.collect(draft); }
  /// Of what the value, or the reduction that makes it, steps through; equal where layouts are,
  /// too.
  const std::string& extent_of(InstructionId root) const {
    return extent_of_value(stepped_through(entry_, root));
  }
  const std::string& extent_of_value(InstructionId id) const { return extents_.of(id); }
  void draft_kernels();
  void index_readers();
  void add_reader(std::size_t draft);
  void remove_reader(std::size_t draft);

  InstructionId array_of(InstructionId leaf) const { return values_.array_of(leaf); }
  std::uint64_t shared_bytes(const FusionDraft& a, const FusionDraft& b) const;
  bool is_loop_over(std::size_t draft, const std::string& extent) const;
  std::vector<std::size_t> siblings_of(std::size_t draft) const;
  std::size_t arrays_of_both(std::size_t a, std::size_t b) const;
  void append_sources(std::size_t draft, std::vector<std::size_t>& found) const;
  std::optional<std::size_t> next_reader(const FusionDraft& maker, std::size_t from) const;
  void name_maker(std::size_t draft);
  /// Whether a third kernel stands between two, whichever comes first.
  bool have_path_around(std::size_t a, std::size_t b);
  /// Whether one reads a sum of the other that is known when all blocks are done.
  bool reads_late_root(const FusionDraft& reader, const FusionDraft& maker) const;
  DraftCycles cycles(const FusionDraft& draft) const {
    return draft_cycles(entry_, extents_, draft, sums_, limits_.hbm_bytes_per_cycle);
  }
  bool fits_kernel(const FusionDraft& draft) const;
  bool moves_whole_extent(const FusionDraft& draft) const;
  bool pays(const std::vector<std::size_t>& parts, const FusionDraft& whole) const;
  std::vector<std::size_t> readers_in_step(const FusionDraft& draft) const;
  bool may_merge(std::size_t a, std::size_t b);
  FusionDraft merged(const std::vector<std::size_t>& parts) const;
  void merge(std::size_t into, std::size_t from);
  enum class Lanes : std::uint8_t { kSame, kAny };
  bool have_same_lanes(std::size_t a, std::size_t b) const;
  void merge_siblings(Lanes lanes);
  bool may_compute_rows(std::size_t reducer, std::size_t rows);
  bool compute_rows_in_reductions();
  bool pays_behind_gradient(std::size_t host, std::size_t reader, const FusionDraft& both) const;
  bool may_stand_behind(std::size_t host, std::size_t reader);
  bool is_better_beside(std::size_t host, std::size_t reader);
  bool may_join(std::size_t host, std::size_t reader) {
    return may_stand_behind(host, reader) && !is_better_beside(host, reader);
  }
  FusionDraft joined(std::size_t host, std::size_t reader) const;
  bool join_a_reader(std::size_t host);
  void fuse_epilogues();
  bool is_made_of_what_is_read(const FusionDraft& draft, InstructionId leaf,
                               const FusionDraft& value) const;
  bool fits(const FusionDraft& draft) const;
  bool write_value_instead(std::size_t maker, InstructionId root, InstructionId value);
  void write_what_readers_compute();
  bool compute_a_leaf(std::size_t draft);
  void compute_from_what_is_read();
  std::optional<FusionDraft> with_side(std::size_t reader, InstructionId side,
                                       const FusionDraft& maker) const;
  bool may_be_member(const FusionDraft& draft) const;
  bool make_in_products(std::size_t maker, InstructionId side);
  void make_sides();

  hlo::Module& module_;
  FusionLimits limits_;
  Computation& entry_;
  SteppedExtents extents_;
  SumsInKernels sums_;
  EpilogueForms epilogues_;
  PrologueForms prologues_;
  WrittenValues values_;
  std::vector<FusionDraft> drafts_;
  std::vector<std::vector<std::size_t>> readers_;  ///< Of each instruction: drafts that read it.
  std::vector<std::optional<std::size_t>>
      maker_;                         ///< Of each instruction: the draft it is a root of.
  std::optional<KernelOrder> order_;  ///< Of the drafts.
};

void Fusion::draft_kernels() {
  for (const HloInstruction& instruction : entry_.instructions) {
    if (!values_.contains(instruction.id)) continue;
    FusionDraft draft;
    draft.roots = {instruction.id};
    draft.is_reduction = is_plain_reduce(instruction);
    draft.is_fusion = draft.is_reduction || is_fusible(instruction.id);
    const bool is_constant = instruction.opcode == HloOpcode::kConstant;
    if (draft.is_fusion && !is_constant) {
      draft.extent = extent_of(instruction.id);
      collect(draft);
    } else {
      draft.is_fusion = false;
      draft.inside = {instruction.id};
      std::set<InstructionId> leaves(instruction.operands.begin(), instruction.operands.end());
      draft.leaves.assign(leaves.begin(), leaves.end());
    }
    drafts_.push_back(std::move(draft));
  }
}

/// Bytes that one kernel reads fewer than two: common arrays, and results of one that the other
/// reads. Slices of one array count like the array.
std::uint64_t Fusion::shared_bytes(const FusionDraft& a, const FusionDraft& b) const {
  std::uint64_t shared = 0;
  const auto add_common = [&](const std::vector<InstructionId>& x,
                              const std::vector<InstructionId>& y) {
    for (InstructionId id : x) {
      const InstructionId array = array_of(id);
      const bool is_common = std::any_of(
          y.begin(), y.end(), [&](InstructionId other) { return array_of(other) == array; });
      if (is_common) shared += bytes(id);
    }
  };
  add_common(a.leaves, b.leaves);
  add_common(a.roots, b.leaves);
  add_common(b.roots, a.leaves);
  return shared;
}

/// A kernel that steps through the extent, and not behind a product.
bool Fusion::is_loop_over(std::size_t draft, const std::string& extent) const {
  const FusionDraft& kernel = drafts_[draft];
  return kernel.is_fusion && !kernel.is_merged_away && kernel.product < 0 &&
         kernel.extent == extent;
}

/// Kernels over the kernel's extent that read or make an array which it reads or makes, or a slice
/// of it, in order.
std::vector<std::size_t> Fusion::siblings_of(std::size_t draft) const {
  std::vector<std::size_t> found;
  const auto add_kernel = [&](std::size_t kernel) {
    if (is_loop_over(kernel, drafts_[draft].extent)) found.push_back(kernel);
  };
  const auto add = [&](InstructionId id) {
    const auto place = static_cast<std::size_t>(id);
    for (std::size_t reader : readers_[place]) add_kernel(reader);
    if (maker_[place]) add_kernel(*maker_[place]);
  };
  const auto add_array = [&](InstructionId id) {
    const InstructionId array = array_of(id);
    add(array);
    for (InstructionId user : values_.users(array)) {
      if (array_of(user) == array) add(user);
    }
    for (InstructionId row : values_.rows_of(array)) add(row);
  };
  for (InstructionId leaf : drafts_[draft].leaves) add_array(leaf);
  for (InstructionId root : drafts_[draft].roots) add_array(root);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

/// The first kernel, of those at `from` and behind it in number, that reads what `maker` makes.
std::optional<std::size_t> Fusion::next_reader(const FusionDraft& maker, std::size_t from) const {
  std::optional<std::size_t> next;
  for (InstructionId root : maker.roots) {
    for (std::size_t reader : readers_[static_cast<std::size_t>(root)]) {
      if (reader >= from && (!next || reader < *next)) next = reader;
    }
  }
  return next;
}

void Fusion::append_sources(std::size_t draft, std::vector<std::size_t>& found) const {
  for (InstructionId leaf : drafts_[draft].leaves) {
    const std::optional<std::size_t>& maker = maker_[static_cast<std::size_t>(leaf)];
    if (maker) found.push_back(*maker);
  }
}

void Fusion::name_maker(std::size_t draft) {
  for (InstructionId root : drafts_[draft].roots) maker_[static_cast<std::size_t>(root)] = draft;
}

bool Fusion::have_path_around(std::size_t a, std::size_t b) {
  return order_->has_path_around(a, b) || order_->has_path_around(b, a);
}

bool Fusion::reads_late_root(const FusionDraft& reader, const FusionDraft& maker) const {
  return std::any_of(maker.roots.begin(), maker.roots.end(), [&](InstructionId root) {
    return is_plain_reduce(at(root)) && !sums_.is_known_in_kernel(root) &&
           std::find(reader.leaves.begin(), reader.leaves.end(), root) != reader.leaves.end();
  });
}

/// Arrays that both kernels in one would read and write, at least.
std::size_t Fusion::arrays_of_both(std::size_t a, std::size_t b) const {
  std::set<InstructionId> arrays(drafts_[a].leaves.begin(), drafts_[a].leaves.end());
  arrays.insert(drafts_[b].leaves.begin(), drafts_[b].leaves.end());
  std::size_t written = 0;
  for (std::size_t draft : {a, b}) {
    for (InstructionId root : drafts_[draft].roots) {
      arrays.erase(root);
      const std::vector<std::size_t>& readers = readers_[static_cast<std::size_t>(root)];
      const bool is_needed = std::any_of(readers.begin(), readers.end(), [&](std::size_t reader) {
        return reader != a && reader != b;
      });
      if (is_needed) ++written;
    }
  }
  return values_.operand_count({arrays.begin(), arrays.end()}) + written;
}

bool Fusion::may_merge(std::size_t a, std::size_t b) {
  if (reads_late_root(drafts_[a], drafts_[b]) || reads_late_root(drafts_[b], drafts_[a])) {
    return false;
  }
  // What can be counted is, before paths are searched and the kernel is drafted.
  const std::size_t inside = std::max(drafts_[a].inside.size(), drafts_[b].inside.size());
  if (inside > limits_.instructions || arrays_of_both(a, b) > limits_.arrays) return false;
  if (have_path_around(a, b)) return false;
  const FusionDraft both = merged({a, b});
  if (!fits_kernel(both)) return false;
  if (sums_.used_in(both).empty() || pays({a, b}, both)) return true;
  const std::vector<std::size_t> next = readers_in_step(both);
  return std::any_of(next.begin(), next.end(), [&](std::size_t reader) {
    if (reader == a || reader == b) return false;
    const FusionDraft all = merged({a, b, reader});
    return fits_kernel(all) && pays({a, b, reader}, all);
  });
}

bool Fusion::fits_kernel(const FusionDraft& draft) const {
  return values_.operand_count(draft.leaves) + draft.roots.size() <= limits_.arrays &&
         draft.inside.size() <= limits_.instructions && moves_whole_extent(draft) &&
         (!draft.is_reduction || sums_.fit(draft));
}

/// Whether lanes are moved over all of the kernel's extent alone, not in what it has of each row.
bool Fusion::moves_whole_extent(const FusionDraft& draft) const {
  return std::all_of(draft.inside.begin(), draft.inside.end(), [&](InstructionId id) {
    return extents_.of(id) == draft.extent || !moves_lanes(entry_, at(id));
  });
}

/// Whether kernels take no longer as one, which is `whole`.
bool Fusion::pays(const std::vector<std::size_t>& parts, const FusionDraft& whole) const {
  double apart = 0;
  for (std::size_t part : parts) apart += cycles(drafts_[part]).all();
  return cycles(whole).all() <= apart;
}

/// Kernels over the draft's extent that read its results, and may be merged with it.
std::vector<std::size_t> Fusion::readers_in_step(const FusionDraft& draft) const {
  std::set<std::size_t> found;
  for (InstructionId root : draft.roots) {
    for (std::size_t reader : readers_[static_cast<std::size_t>(root)]) {
      const FusionDraft& other = drafts_[reader];
      if (other.extent == draft.extent && other.product < 0) found.insert(reader);
    }
  }
  return {found.begin(), found.end()};
}

/// Whether a kernel over the rows that another one reduces may compute its values there: each is
/// made of a sum that is known there.
bool Fusion::may_compute_rows(std::size_t reducer, std::size_t rows) {
  const FusionDraft& maker = drafts_[reducer];
  const FusionDraft& behind = drafts_[rows];
  if (rows == reducer || !behind.is_fusion || behind.is_reduction || behind.product >= 0) {
    return false;
  }
  const auto sum = std::find_if(maker.roots.begin(), maker.roots.end(), [&](InstructionId root) {
    return sums_.is_known_in_kernel(root) && extent_of(behind.roots[0]) == extent_of_value(root);
  });
  if (sum == maker.roots.end()) return false;
  std::set<InstructionId> dependent(maker.roots.begin(), maker.roots.end());
  for (InstructionId id : behind.inside) {
    const std::vector<InstructionId>& operands = at(id).operands;
    const bool depends = std::any_of(operands.begin(), operands.end(), [&](InstructionId operand) {
      return dependent.count(operand) != 0;
    });
    if (depends && at(id).shape.dimensions == at(*sum).shape.dimensions) dependent.insert(id);
  }
  return std::all_of(behind.roots.begin(), behind.roots.end(),
                     [&](InstructionId root) { return dependent.count(root) != 0; }) &&
         may_merge(reducer, rows);
}

/// Small kernels go behind the sums that they read. Returns whether there were any.
bool Fusion::compute_rows_in_reductions() {
  bool changed = false;
  for (std::size_t reducer = 0; reducer < drafts_.size(); ++reducer) {
    const bool stands = drafts_[reducer].is_reduction && !drafts_[reducer].is_merged_away;
    if (!stands || drafts_[reducer].product >= 0) continue;
    std::size_t from = 0;
    while (const std::optional<std::size_t> rows = next_reader(drafts_[reducer], from)) {
      from = *rows + 1;
      if (!may_compute_rows(reducer, *rows)) continue;
      merge(reducer, *rows);
      changed = true;
    }
  }
  return changed;
}

void Fusion::index_readers() {
  readers_.assign(entry_.instructions.size(), {});
  maker_.assign(entry_.instructions.size(), std::nullopt);
  for (std::size_t i = 0; i < drafts_.size(); ++i) {
    add_reader(i);
    name_maker(i);
  }
  order_.emplace(drafts_.size(), [this](std::size_t draft, std::vector<std::size_t>& found) {
    append_sources(draft, found);
  });
}

void Fusion::add_reader(std::size_t draft) {
  if (drafts_[draft].is_merged_away) return;
  for (InstructionId leaf : drafts_[draft].leaves) {
    readers_[static_cast<std::size_t>(leaf)].push_back(draft);
  }
}

void Fusion::remove_reader(std::size_t draft) {
  for (InstructionId leaf : drafts_[draft].leaves) {
    std::vector<std::size_t>& list = readers_[static_cast<std::size_t>(leaf)];
    list.erase(std::remove(list.begin(), list.end(), draft), list.end());
  }
}

/// Kernels in one. What only they read is not written.
FusionDraft Fusion::merged(const std::vector<std::size_t>& parts) const {
  FusionDraft whole = drafts_[parts[0]];
  whole.roots.clear();
  for (std::size_t part : parts) {
    const FusionDraft& draft = drafts_[part];
    whole.is_reduction |= draft.is_reduction;
    whole.absorbed.insert(draft.absorbed.begin(), draft.absorbed.end());
    for (InstructionId root : draft.roots) {
      const std::vector<std::size_t>& readers = readers_[static_cast<std::size_t>(root)];
      const bool is_needed = std::any_of(readers.begin(), readers.end(), [&](std::size_t reader) {
        return !contains(parts, reader);
      });
      if (is_needed || root == entry_.root) {
        whole.roots.push_back(root);
      } else {
        whole.absorbed.insert(root);
      }
    }
  }
  std::sort(whole.roots.begin(), whole.roots.end());
  collect(whole);
  return whole;
}

void Fusion::merge(std::size_t into, std::size_t from) {
  FusionDraft both = merged({into, from});
  order_->merge(into, from);
  remove_reader(into);
  remove_reader(from);
  drafts_[into] = std::move(both);
  drafts_[from].is_merged_away = true;
  add_reader(into);
  name_maker(into);
}

/// Whether they step through the very same extent.
bool Fusion::have_same_lanes(std::size_t a, std::size_t b) const {
  const auto shape = [this](std::size_t draft) -> const Shape& {
    return at(stepped_through(entry_, drafts_[draft].roots[0])).shape;
  };
  return shape(a).dimensions == shape(b).dimensions;
}

/// Each kernel joins the earlier one over its extent with which it shares the most bytes.
void Fusion::merge_siblings(Lanes lanes) {
  std::map<std::string, std::vector<std::size_t>> by_extent;
  for (std::size_t i = 0; i < drafts_.size(); ++i) {
    if (is_loop_over(i, drafts_[i].extent)) by_extent[drafts_[i].extent].push_back(i);
  }
  for (const auto& [extent, group] : by_extent) {
    for (std::size_t later : group) {
      std::vector<std::pair<std::uint64_t, std::size_t>> partners;
      for (std::size_t earlier : siblings_of(later)) {
        if (earlier >= later) break;
        if (lanes == Lanes::kSame && !have_same_lanes(earlier, later)) continue;
        const std::uint64_t shared = shared_bytes(drafts_[earlier], drafts_[later]);
        if (shared > 0) partners.emplace_back(shared, earlier);
      }
      std::stable_sort(partners.begin(), partners.end(),
                       [](const auto& a, const auto& b) { return a.first > b.first; });
      for (const auto& [shared, partner] : partners) {
        if (!may_merge(partner, later)) continue;
        merge(partner, later);
        break;
      }
    }
  }
}

/// The product's kernel with the reader behind it. What only the reader read is not written.
FusionDraft Fusion::joined(std::size_t host, std::size_t reader) const {
  FusionDraft both = drafts_[reader];
  both.is_reduction = false;
  both.product = drafts_[host].product;
  both.absorbed = drafts_[host].absorbed;
  for (InstructionId root : drafts_[host].roots) {
    const std::vector<std::size_t>& readers = readers_[static_cast<std::size_t>(root)];
    const bool is_needed = std::any_of(readers.begin(), readers.end(),
                                       [reader](std::size_t other) { return other != reader; });
    if (is_needed || root == entry_.root) {
      both.roots.push_back(root);
    } else {
      both.absorbed.insert(root);
    }
  }
  std::sort(both.roots.begin(), both.roots.end());
  collect(both);
  return both;
}

/// Whether the reader takes no longer behind the gradient of a kernel than by itself.
bool Fusion::pays_behind_gradient(std::size_t host, std::size_t reader,
                                  const FusionDraft& both) const {
  const std::optional<double> alone = epilogues_.cycles(drafts_[host]);
  const std::optional<double> together = epilogues_.cycles(both);
  return !alone || !together || *together <= *alone + cycles(drafts_[reader]).all();
}

/// Whether a kernel that does not go behind the product computes much of what the reader computes:
/// one kernel of the two spares more than the array that the reader would not read.
bool Fusion::is_better_beside(std::size_t host, std::size_t reader) {
  const DraftCycles alone = cycles(drafts_[reader]);
  if (alone.vector <= alone.moved) return false;
  const std::vector<std::size_t> others = siblings_of(reader);
  return std::any_of(others.begin(), others.end(), [&](std::size_t other) {
    if (other == host || other == reader) return false;
    if (may_stand_behind(host, other) || !may_merge(reader, other)) return false;
    const double apart = alone.all() + cycles(drafts_[other]).all();
    return apart - cycles(merged({reader, other})).all() > alone.moved + kKernelCycles;
  });
}

bool Fusion::may_stand_behind(std::size_t host, std::size_t reader) {
  const FusionDraft& behind = drafts_[reader];
  const InstructionId product = drafts_[host].product;
  if (reader == host || !behind.is_fusion || behind.product >= 0) return false;
  if (!behind.is_reduction && behind.extent != extent_of(product)) return false;
  if (have_path_around(host, reader)) return false;
  const FusionDraft both = joined(host, reader);
  const auto blocks = std::count_if(both.roots.begin(), both.roots.end(), [&](InstructionId root) {
    return at(root).shape.dimensions == at(product).shape.dimensions;
  });
  if (epilogues_.uses_own_sum(both)) return false;
  const bool is_dot = at(product).opcode == HloOpcode::kDot;
  const bool stores_numbers =
      std::all_of(both.roots.begin(), both.roots.end(), [&](InstructionId root) {
        const hlo::ElementType type = at(root).shape.type;
        return type == hlo::ElementType::kF32 || type == hlo::ElementType::kBf16;
      });
  if (!is_dot && !stores_numbers) return false;  // Convolutions have no other results.
  const std::size_t arrays = both.leaves.size() + both.roots.size() - 2;  // But the two sides.
  return blocks > 0 && both.roots.size() <= limits_.epilogue_results &&
         both.inside.size() <= limits_.instructions && arrays <= limits_.epilogue_arrays &&
         epilogues_.fit(both) &&
         (is_dot || epilogues_.makes_images(product) || pays_behind_gradient(host, reader, both));
}

bool Fusion::join_a_reader(std::size_t host) {
  std::set<std::size_t> readers;
  for (InstructionId root : drafts_[host].roots) {
    const std::vector<std::size_t>& list = readers_[static_cast<std::size_t>(root)];
    readers.insert(list.begin(), list.end());
  }
  for (std::size_t reader : readers) {
    if (!may_join(host, reader)) continue;
    FusionDraft both = joined(host, reader);
    both.is_fusion = true;
    order_->merge(host, reader);
    remove_reader(host);
    remove_reader(reader);
    drafts_[reader].is_merged_away = true;
    drafts_[host] = std::move(both);
    add_reader(host);
    name_maker(host);
    return true;
  }
  return false;
}

/// Kernels over a dot's or convolution's extent that read its result become its epilogue, one after
/// the other: then those that read their results.
void Fusion::fuse_epilogues() {
  for (std::size_t i = 0; i < drafts_.size(); ++i) {
    if (drafts_[i].is_fusion || !is_matrix_product(at(drafts_[i].roots[0]))) continue;
    drafts_[i].product = drafts_[i].roots[0];
    while (join_a_reader(i)) {
    }
  }
}

/// Whether the value needs no large array beside those that the kernel reads anyway.
bool Fusion::is_made_of_what_is_read(const FusionDraft& draft, InstructionId leaf,
                                     const FusionDraft& value) const {
  constexpr std::uint64_t kSmall = 32;  ///< A part of the value.
  return std::all_of(value.leaves.begin(), value.leaves.end(), [&](InstructionId source) {
    const bool is_read = std::count(draft.leaves.begin(), draft.leaves.end(), source) != 0;
    return is_read || bytes(source) * kSmall <= bytes(leaf);
  });
}

bool Fusion::fits(const FusionDraft& draft) const {
  if (draft.inside.size() > limits_.instructions) return false;
  if (draft.product < 0) {
    return values_.operand_count(draft.leaves) + draft.roots.size() <= limits_.arrays &&
           (!draft.is_reduction || sums_.fit(draft));
  }
  return draft.leaves.size() + draft.roots.size() - 2 <= limits_.epilogue_arrays &&
         epilogues_.fit(draft);
}

/// Whether the kernel writes a value that it makes of the root instead of this: all who read the
/// root make the same of it, and nobody else.
bool Fusion::write_value_instead(std::size_t maker, InstructionId root, InstructionId value) {
  const std::vector<std::size_t> readers = readers_[static_cast<std::size_t>(root)];
  values_.write(value, true);
  FusionDraft with = drafts_[maker];
  *std::find(with.roots.begin(), with.roots.end(), root) = value;
  if (root != with.product) with.absorbed.insert(root);
  collect(with);
  std::vector<FusionDraft> behind;
  bool is_possible = fits(with);
  for (std::size_t reader : readers) {
    FusionDraft draft = drafts_[reader];
    collect(draft);
    is_possible = is_possible && fits(draft) && !contains(draft.leaves, root);
    behind.push_back(std::move(draft));
  }
  if (!is_possible) {
    values_.write(value, false);
    return false;
  }
  remove_reader(maker);
  drafts_[maker] = std::move(with);
  add_reader(maker);
  name_maker(maker);
  for (std::size_t i = 0; i < readers.size(); ++i) {
    remove_reader(readers[i]);
    drafts_[readers[i]] = std::move(behind[i]);
    add_reader(readers[i]);
  }
  return true;
}

/// A kernel makes for others what it and they compute the same of (the cosine of a product, of
/// which one has a sum along each dimension): it writes this instead, and they read it.
void Fusion::write_what_readers_compute() {
  std::vector<std::size_t> computing(entry_.instructions.size(), 0);  // Drafts, of each value.
  for (const FusionDraft& draft : drafts_) {
    if (draft.is_merged_away) continue;
    for (InstructionId id : draft.inside) ++computing[static_cast<std::size_t>(id)];
  }
  for (std::size_t maker = 0; maker < drafts_.size(); ++maker) {
    if (drafts_[maker].is_merged_away || !drafts_[maker].is_fusion) continue;
    for (InstructionId root : std::vector(drafts_[maker].roots)) {
      const std::vector<std::size_t>& readers = readers_[static_cast<std::size_t>(root)];
      const auto computes = [&](std::size_t draft, InstructionId id) {
        return drafts_[draft].is_fusion && contains(drafts_[draft].inside, id);
      };
      const std::vector<InstructionId> inside = drafts_[maker].inside;
      for (auto value = inside.rbegin(); value != inside.rend() && *value != root; ++value) {
        const bool is_like_root = extents_.of(*value) == extents_.of(root) && is_fusible(*value) &&
                                  bytes(*value) <= bytes(root) &&
                                  !contains(drafts_[maker].roots, *value);
        if (!is_like_root || computing[static_cast<std::size_t>(*value)] != readers.size() + 1 ||
            !std::all_of(readers.begin(), readers.end(),
                         [&](std::size_t reader) { return computes(reader, *value); })) {
          continue;
        }
        if (write_value_instead(maker, root, *value)) break;
      }
    }
  }
}

/// Whether there was one that the kernel reads, and can make of others.
bool Fusion::compute_a_leaf(std::size_t number) {
  constexpr std::size_t kMostInstructions = 16;
  constexpr std::uint64_t kLarge = 512;  ///< Granules; smaller arrays may stay in VMEM.
  const FusionDraft& draft = drafts_[number];
  for (InstructionId leaf : draft.leaves) {
    const bool is_side = draft.product >= 0 && std::count(at(draft.product).operands.begin(),
                                                          at(draft.product).operands.end(), leaf);
    if (is_side || !is_fusible(leaf) || extent_of_value(leaf) != draft.extent) continue;
    if (bytes(leaf) < kLarge) continue;
    // Nobody would need what its own kernel writes.
    if (readers_[static_cast<std::size_t>(leaf)].size() < 2) continue;
    FusionDraft value;
    value.roots = {leaf};
    collect(value);
    if (value.inside.size() > kMostInstructions || value.leaves.empty()) continue;
    if (!is_made_of_what_is_read(draft, leaf, value)) continue;
    FusionDraft without = draft;
    without.absorbed.insert(leaf);
    collect(without);
    if (!fits(without)) continue;
    remove_reader(number);
    drafts_[number] = std::move(without);
    add_reader(number);
    return true;
  }
  return false;
}

/// A kernel reads what is written for others; where it reads all that the value is made of, too, it
/// computes the value instead (the mask of an activation behind a normalisation, from the image
/// that is normalised).
void Fusion::compute_from_what_is_read() {
  for (std::size_t i = 0; i < drafts_.size(); ++i) {
    if (drafts_[i].is_merged_away || !drafts_[i].is_fusion) continue;
    while (compute_a_leaf(i)) {
    }
  }
}

/// The kernel of a product that makes the side, which it reads as nothing else.
std::optional<FusionDraft> Fusion::with_side(std::size_t reader, InstructionId side,
                                             const FusionDraft& maker) const {
  FusionDraft draft = drafts_[reader];
  if (draft.product < 0 || !contains(at(draft.product).operands, side)) return std::nullopt;
  for (InstructionId id : draft.inside) {
    if (id != draft.product && contains(at(id).operands, side)) return std::nullopt;
  }
  draft.is_fusion = true;
  draft.absorbed.insert(maker.absorbed.begin(), maker.absorbed.end());
  draft.absorbed.insert(side);
  collect(draft);
  const bool fits = draft.leaves.size() + draft.roots.size() <= limits_.arrays &&
                    draft.inside.size() <= limits_.instructions;
  return fits ? std::optional(std::move(draft)) : std::nullopt;
}

/// Whether all kernels that read the value make it themselves from now on: products, whose side it
/// is, and which take less than its own kernel and they do. What a launch takes is no gain: small
/// kernels become parts of others.
bool Fusion::make_in_products(std::size_t maker, InstructionId side) {
  const std::vector<std::size_t> readers = readers_[static_cast<std::size_t>(side)];
  // For a product a slice that another kernel reads in place would be copied.
  const std::vector<InstructionId>& leaves = drafts_[maker].leaves;
  if (std::any_of(leaves.begin(), leaves.end(),
                  [this](InstructionId leaf) { return array_of(leaf) != leaf; })) {
    return false;
  }
  FusionDraft rest = drafts_[maker];
  rest.roots.erase(std::find(rest.roots.begin(), rest.roots.end(), side));
  rest.absorbed.insert(side);
  double gain = cycles(drafts_[maker]).all() - kKernelCycles;
  if (!rest.roots.empty()) {
    collect(rest);
    gain -= cycles(rest).all() - kKernelCycles;
  }
  std::vector<FusionDraft> made;
  for (std::size_t reader : readers) {
    const std::optional<FusionDraft> draft = with_side(reader, side, drafts_[maker]);
    if (!draft) return false;
    const auto before = prologues_.sides(drafts_[reader]), behind = prologues_.sides(*draft);
    if (!before || !behind) return false;
    const auto apart = epilogues_.cycles(drafts_[reader], *before);
    const auto together = epilogues_.cycles(*draft, *behind);
    if (!apart || !together) return false;
    gain += *apart - *together;
    made.push_back(*draft);
  }
  if (readers.empty() || gain <= 0) return false;
  for (std::size_t i = 0; i < readers.size(); ++i) {
    remove_reader(readers[i]);
    drafts_[readers[i]] = std::move(made[i]);
    add_reader(readers[i]);
  }
  remove_reader(maker);
  drafts_[maker].is_merged_away = rest.roots.empty();
  if (rest.roots.empty()) return true;
  drafts_[maker] = std::move(rest);
  add_reader(maker);
  return true;
}

/// Whether a sequence of small kernels may have it, and keep what it makes in VMEM.
bool Fusion::may_be_member(const FusionDraft& draft) const {
  std::uint64_t granules = 0;
  for (const auto* arrays : {&draft.leaves, &draft.roots}) {
    for (InstructionId id : *arrays) granules += bytes(id);
  }
  return granules <= kMostMemberGranules;
}

/// Kernels of products make their sides (a normalised and activated image, in front of the
/// convolutions that read it), which need not be written then.
void Fusion::make_sides() {
  if (!limits_.product_cycles) return;
  for (std::size_t i = 0; i < drafts_.size(); ++i) {
    if (!drafts_[i].is_fusion || drafts_[i].product >= 0 || drafts_[i].is_merged_away) continue;
    if (may_be_member(drafts_[i])) continue;
    for (InstructionId root : std::vector(drafts_[i].roots)) {
      if (root != entry_.root && is_fusible(root)) make_in_products(i, root);
    }
  }
}

/// What else reads the broadcast that a scatter starts from may need it in HBM.
void give_scatters_own_starts(Computation& entry) {
  const std::size_t count = entry.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (uniform_start(entry, entry.instructions[i]) == nullptr) continue;
    HloInstruction start = entry.at(entry.instructions[i].operands[0]);
    start.name = "start." + entry.instructions[i].name;
    entry.instructions[i].operands[0] = append(entry, std::move(start));
  }
  if (entry.instructions.size() > count) tidy(entry);
}

void Fusion::run() {
  draft_kernels();
  index_readers();
  fuse_epilogues();
  // What lies behind sums in their kernels has the sums' lanes.
  merge_siblings(Lanes::kSame);
  while (compute_rows_in_reductions()) merge_siblings(Lanes::kSame);
  merge_siblings(Lanes::kAny);
  compute_from_what_is_read();
  write_what_readers_compute();
  make_sides();
  write_fusions(module_, drafts_);
}

}  // namespace

void fuse(hlo::Module& module, const FusionLimits& limits) {
  give_scatters_own_starts(module.entry_computation());
  Fusion(module, limits).run();
}

}  // namespace tpu::compiler
