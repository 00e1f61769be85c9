#include "workloads/compiler/passes/simplify/window_padding.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/convolution_arrays.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::PaddingDimension;
using hlo::WindowDimension;

namespace {

using Id = GraphEditor::Id;

/// Elements that a result leaves out of each dimension, at its begin and at its end.
using Cuts = std::vector<PaddingDimension>;

bool touches(const PaddingDimension& p) { return p.low != 0 || p.high != 0 || p.interior != 0; }

/// Whether all that is padded (cut) are these dimensions.
bool is_only_in(const std::vector<PaddingDimension>& padding,
                const std::vector<std::int64_t>& dimensions) {
  for (std::size_t d = 0; d < padding.size(); ++d) {
    const bool is_one = std::find(dimensions.begin(), dimensions.end(),
                                  static_cast<std::int64_t>(d)) != dimensions.end();
    if (touches(padding[d]) && !is_one) return false;
  }
  return true;
}

/// Numbers from a first to a last one; none at first.
struct Span {
  std::int64_t first = -1, last = -1;

  void take(std::int64_t number) {
    first = first < 0 ? number : std::min(first, number);
    last = std::max(last, number);
  }
  std::int64_t count() const { return first < 0 ? 0 : last - first + 1; }
};

/// Elements of a window that meet a pixel anywhere, and positions at which any of them does.
struct Meetings {
  Span elements, positions;
};

Meetings meetings_of(const WindowDimension& w, std::int64_t pixels, std::int64_t positions) {
  Meetings met;
  const std::int64_t end = (pixels - 1) * w.base_dilation;
  for (std::int64_t element = 0; element < w.size; ++element) {
    for (std::int64_t at = 0; at < positions; ++at) {
      const std::int64_t place = at * w.stride + element * w.window_dilation - w.padding_low;
      if (place < 0 || place > end || place % w.base_dilation != 0) continue;
      met.elements.take(element);
      met.positions.take(at);
    }
  }
  return met;
}

class WindowPadding {
 public:
  explicit WindowPadding(hlo::Module& module)
      : module_(module),
        entry_(module.entry_computation()),
        edit_(module),
        users_(users_of(entry_)) {}

  void run() {
    const std::size_t count = entry_.instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      const auto id = static_cast<Id>(i);
      const bool is_cut = users_[i].size() == 1 && id != entry_.root;
      if (entry_.at(id).opcode == HloOpcode::kSelectAndScatter && is_cut) {
        scatter_unpadded(id, users_[i][0]);
      }
      if (entry_.at(id).opcode != HloOpcode::kConvolution) continue;
      while (takes_padding(entry_.at(id))) {
      }
      if (is_cut) leave_out(id, users_[i][0]);
      if (entry_.at(id).opcode == HloOpcode::kConvolution) keep_to_pixels(id);
    }
    tidy(entry_);
  }

 private:
  bool takes_padding(HloInstruction& convolution);
  Cuts cuts_of(const HloInstruction& cut) const;
  void leave_out(Id convolution, Id cut);
  void keep_to_pixels(Id id);
  bool is_never_selected(Id value, const HloInstruction& scatter) const;
  void scatter_unpadded(Id scatter, Id cut);

  const hlo::Module& module_;
  hlo::Computation& entry_;
  GraphEditor edit_;
  std::vector<std::vector<Id>> users_;
};

/// Reads what the pad reads, if its zeros can be the window's.
bool WindowPadding::takes_padding(HloInstruction& convolution) {
  const HloInstruction& pad = entry_.at(convolution.operands[0]);
  if (pad.opcode != HloOpcode::kPad || !edit_.is_splat(pad.operands[1], 0)) return false;
  const std::vector<std::int64_t>& spatial = convolution.convolution->input_spatial;
  if (!is_only_in(pad.padding, spatial)) return false;
  std::vector<WindowDimension> window = convolution.window;
  for (std::size_t i = 0; i < window.size(); ++i) {
    if (!take_padding(window[i], pad.padding[static_cast<std::size_t>(spatial[i])])) return false;
  }
  convolution.window = std::move(window);
  convolution.operands[0] = pad.operands[0];
  return true;
}

/// What a slice of neighbours, or a pad that only cuts, leaves out; empty: it is neither.
Cuts WindowPadding::cuts_of(const HloInstruction& cut) const {
  const std::vector<std::int64_t>& whole = entry_.at(cut.operands[0]).shape.dimensions;
  Cuts cuts(whole.size());
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (cut.opcode == HloOpcode::kSlice) {
      if (cut.slice->strides[d] != 1) return {};
      cuts[d] = {cut.slice->starts[d], whole[d] - cut.slice->limits[d], 0};
    } else if (cut.opcode == HloOpcode::kPad) {
      const PaddingDimension& p = cut.padding[d];
      if (p.low > 0 || p.high > 0 || p.interior > 0) return {};
      cuts[d] = {-p.low, -p.high, 0};
    } else {
      return {};
    }
  }
  return cuts;
}

/// The cut result is computed in place of the whole one, unless pixels of the input would have to
/// be cut off for it.
void WindowPadding::leave_out(Id convolution, Id cut) {
  const Cuts cuts = cuts_of(entry_.at(cut));
  HloInstruction smaller = entry_.at(convolution);
  const std::vector<std::int64_t>& spatial = smaller.convolution->output_spatial;
  if (cuts.empty() || !is_only_in(cuts, spatial)) return;
  for (std::size_t i = 0; i < smaller.window.size(); ++i) {
    const PaddingDimension& p = cuts[static_cast<std::size_t>(spatial[i])];
    WindowDimension& w = smaller.window[i];
    w.padding_low -= p.low * w.stride;
    w.padding_high -= p.high * w.stride;
    if (p.low > 0 && w.padding_low < 0) return;
  }
  smaller.shape = entry_.at(cut).shape;
  smaller.id = cut;
  entry_.at(cut) = std::move(smaller);
}

/// A window of which half or more meets nothing but zeros loses that (a large window, or one with
/// wide gaps, over a few pixels), and so does the result (gradients of such a window), which is
/// padded then.
void WindowPadding::keep_to_pixels(Id id) {
  HloInstruction smaller = entry_.at(id);
  const hlo::ConvolutionDimensions& dims = smaller.convolution;
  GraphEditor::Extents limits = edit_.dimensions(smaller.operands[1]);
  GraphEditor::Extents starts(limits.size(), 0);
  const GraphEditor::Extents results = smaller.shape.dimensions;
  bool is_cut = false;
  std::vector<PaddingDimension> padding(results.size());
  for (std::size_t i = 0; i < smaller.window.size(); ++i) {
    WindowDimension& w = smaller.window[i];
    const auto of_window = static_cast<std::size_t>(dims.kernel_spatial[i]);
    const auto of_result = static_cast<std::size_t>(dims.output_spatial[i]);
    const std::int64_t pixels =
        edit_.dimensions(smaller.operands[0])[static_cast<std::size_t>(dims.input_spatial[i])];
    const Meetings met = meetings_of(w, pixels, results[of_result]);
    if (met.elements.count() == 0) return;
    if (2 * met.elements.count() <= w.size) {
      const std::int64_t before = met.elements.first, behind = w.size - 1 - met.elements.last;
      w.size = met.elements.count();
      w.padding_low -= before * w.window_dilation;
      w.padding_high -= behind * w.window_dilation;
      starts[of_window] = w.reversal ? behind : before;
      limits[of_window] = starts[of_window] + w.size;
      is_cut = true;
    }
    if (2 * met.positions.count() <= results[of_result]) {
      PaddingDimension& around = padding[of_result];
      around.low = met.positions.first;
      around.high = results[of_result] - 1 - met.positions.last;
      w.padding_low -= around.low * w.stride;
      w.padding_high -= around.high * w.stride;
      smaller.shape.dimensions[of_result] = met.positions.count();
    }
  }
  edit_.stand_for(id);
  if (is_cut) smaller.operands[1] = edit_.slice(smaller.operands[1], starts, limits);
  const hlo::Shape whole = entry_.at(id).shape;
  if (smaller.shape.dimensions == results) {
    entry_.at(id) = std::move(smaller);
    return;
  }
  HloInstruction padded;
  padded.id = id;
  padded.opcode = HloOpcode::kPad;
  padded.name = smaller.name;
  padded.metadata = smaller.metadata;
  padded.shape = whole;
  padded.padding = padding;
  smaller.name += ".pixels";
  padded.operands = {edit_.append_instruction(std::move(smaller)), edit_.scalar(whole.type, 0)};
  entry_.at(id) = std::move(padded);
}

/// Whether every element wins against these, from the left and, but for its like, from the right.
bool WindowPadding::is_never_selected(Id value, const HloInstruction& scatter) const {
  using Direction = hlo::ComparisonDirection;
  const hlo::Computation& select = module_.computation(scatter.called[0]);
  const HloInstruction& compare = select.at(select.root);
  if (compare.opcode != HloOpcode::kCompare ||
      select.at(compare.operands[0]).parameter_number != 0 ||
      select.at(compare.operands[1]).parameter_number != 1) {
    return false;
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const Direction d = compare.direction;
  return ((d == Direction::kGe || d == Direction::kGt) && edit_.is_splat(value, -infinity)) ||
         ((d == Direction::kLe || d == Direction::kLt) && edit_.is_splat(value, infinity));
}

/// The result without what a pad added and the cut leaves out, in place of the cut.
void WindowPadding::scatter_unpadded(Id scatter, Id cut) {
  HloInstruction unpadded = entry_.at(scatter);
  const HloInstruction& pad = entry_.at(unpadded.operands[0]);
  if (pad.opcode != HloOpcode::kPad || !is_never_selected(pad.operands[1], unpadded)) return;
  const Cuts cuts = cuts_of(entry_.at(cut));
  if (cuts.empty()) return;
  for (std::size_t d = 0; d < cuts.size(); ++d) {
    const PaddingDimension& p = pad.padding[d];
    WindowDimension& w = unpadded.window[d];
    if (p.low != cuts[d].low || p.high != cuts[d].high || p.interior != 0) return;
    if (touches(p) && !take_padding(w, p)) return;
  }
  unpadded.operands[0] = pad.operands[0];
  unpadded.shape = entry_.at(cut).shape;
  unpadded.id = cut;
  entry_.at(cut) = std::move(unpadded);
}

}  // namespace

bool take_padding(WindowDimension& window, const PaddingDimension& padding) {
  const PaddingDimension& p = padding;
  if (p.low < 0 || p.high < 0 || (p.interior > 0 && window.base_dilation > 1)) return false;
  window.padding_low += p.low * window.base_dilation;
  window.padding_high += p.high * window.base_dilation;
  window.base_dilation *= p.interior + 1;
  return true;
}

void fold_window_padding(hlo::Module& module) { WindowPadding(module).run(); }

}  // namespace tpu::compiler
