#include "workloads/compiler/passes/layout/convolution_sides.h"

#include <algorithm>
#include <array>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/edmonds_karp_max_flow.hpp>
#include <cmath>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/base/contains.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/layout/convolution_layouts.h"
#include "workloads/compiler/passes/layout/orders_in_step.h"
#include "workloads/compiler/passes/layout/window_features.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

/// Elementwise operations and reductions between convolutions read or write each image so often.
constexpr double kPasses = 2;
/// How much longer a turn takes than its bytes (ResNet-50 with 32 and 64 images).
constexpr double kTurnFactor = 2;
/// A convolution that has a kernel on the other side alone: in parts, which are copied.
constexpr double kWithoutKernel = 2;
/// Below so many cycles of all convolutions what kernels take to begin and end decides, which their
/// estimates hardly know: the side with fewer padded bytes then.
constexpr double kLeastCycles = 2e5;

/// On a side where a convolution has no kernel, and no pass will rewrite it: more than all else.
constexpr double kRefused = 1e15;

/// What each side costs, rows first.
using SideCosts = std::array<double, 2>;

/// Nodes that are in the rows or in the lanes, what each takes there, and what it takes where two
/// differ; gives the sides that take least together.
class MinimumCut {
 public:
  MinimumCut() : from_(boost::add_vertex(graph_)), to_(boost::add_vertex(graph_)) {}

  std::size_t add_node() { return boost::add_vertex(graph_); }
  void add_costs(std::size_t node, const SideCosts& costs) {
    // What stays with `from_` is in the rows: the edge to `to_` is cut. Only the difference counts,
    // and costs may be below 0.
    connect(node, to_, std::max(0.0, costs[0] - costs[1]), 0);
    connect(from_, node, std::max(0.0, costs[1] - costs[0]), 0);
  }
  void add_difference(std::size_t a, std::size_t b, double cost) { connect(a, b, cost, cost); }

  /// By node.
  std::vector<ImageSide> sides() {
    const auto colors = boost::get(boost::vertex_color, graph_);
    boost::edmonds_karp_max_flow(graph_, from_, to_, boost::get(boost::edge_capacity, graph_),
                                 boost::get(boost::edge_residual_capacity, graph_),
                                 boost::get(boost::edge_reverse, graph_), colors,
                                 boost::get(boost::vertex_predecessor, graph_));
    std::vector<ImageSide> sides;
    for (std::size_t node = 0; node < boost::num_vertices(graph_); ++node) {
      // The last search from `from_` has left those white that it did not reach.
      const bool is_reached = boost::get(colors, node) != boost::white_color;
      sides.push_back(is_reached ? ImageSide::kRows : ImageSide::kLanes);
    }
    return sides;
  }

 private:
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  using Edge = Traits::edge_descriptor;
  using Graph = boost::adjacency_list<
      boost::vecS, boost::vecS, boost::directedS,
      boost::property<boost::vertex_color_t, boost::default_color_type,
                      boost::property<boost::vertex_predecessor_t, Edge>>,
      boost::property<boost::edge_capacity_t, std::int64_t,
                      boost::property<boost::edge_residual_capacity_t, std::int64_t,
                                      boost::property<boost::edge_reverse_t, Edge>>>>;

  void connect(std::size_t a, std::size_t b, double there, double back) {
    const Edge edge = boost::add_edge(a, b, graph_).first;
    const Edge reverse = boost::add_edge(b, a, graph_).first;
    boost::put(boost::edge_capacity, graph_, edge, std::llround(there));
    boost::put(boost::edge_capacity, graph_, reverse, std::llround(back));
    boost::put(boost::edge_reverse, graph_, edge, reverse);
    boost::put(boost::edge_reverse, graph_, reverse, edge);
  }

  Graph graph_;
  std::size_t from_, to_;
};

bool is_weighed(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kConvolution && instruction.shape.rank() == 4 &&
         instruction.shape.element_count() > 0;
}

/// Arrays of images that lie alike, by the operations between them.
class Images {
 public:
  Images(const Computation& computation, MinimumCut& cut, const Target& target)
      : computation_(computation),
        cut_(cut),
        target_(target),
        turned_bytes_per_cycle_(std::min(target.hbm_bytes_per_cycle, kTurnedBytesPerCycle)),
        users_(users_of(computation)) {}

  /// The node of an array of images; of all that lies like it, too.
  std::size_t node_of(const ConvolutionImage& image) {
    auto found = arrays_.find(image.id);
    const std::size_t node = found != arrays_.end() ? found->second.node : cut_.add_node();
    std::deque<ConvolutionImage> work;
    const auto add = [&](const ConvolutionImage& next, bool in_step) {
      const auto [place, is_new] = arrays_.emplace(next.id, Array{node, next.roles, in_step});
      const bool is_nearer = in_step && !place->second.in_step;
      place->second.in_step |= in_step;
      if (is_new || is_nearer) work.push_back(next);
    };
    add(image, true);
    while (!work.empty()) {
      const ConvolutionImage from = work.front();
      work.pop_front();
      const auto go = [&](InstructionId to, InstructionId by) {
        const auto roles = roles_across(from, to, by);
        if (roles) add({to, *roles}, arrays_.at(from.id).in_step && !moves(by));
      };
      for (InstructionId operand : computation_.at(from.id).operands) go(operand, from.id);
      for (InstructionId user : users_[static_cast<std::size_t>(from.id)]) go(user, user);
    }
    return node;
  }

  /// Windows, slices and the like between images: what they read is turned.
  void connect_windows() {
    for (const auto& [id, array] : arrays_) {
      for (InstructionId operand : operands_in_step(computation_, computation_.at(id))) {
        const auto other = arrays_.find(operand);
        if (other == arrays_.end() || other->second.node == array.node) continue;
        cut_.add_difference(array.node, other->second.node,
                            cycles_to_turn({operand, other->second.roles}));
      }
    }
  }

  /// A reshape that parts or joins what lies in the lanes copies the image; so does one to the same
  /// extents, on the other side of which expressions lie in the densest order.
  void count_reshapes() {
    for (const HloInstruction& reshape : computation_.instructions) {
      if (reshape.opcode != HloOpcode::kReshape) continue;
      const InstructionId operand = reshape.operands[0];
      count_reshape(operand, computation_.at(operand).shape, reshape.shape);
      count_reshape(reshape.id, reshape.shape, computation_.at(operand).shape);
    }
  }

  SideCosts bytes(const ConvolutionImage& image) const {
    const Shape& shape = computation_.at(image.id).shape;
    return {padded_bytes(shape, image.roles.features, image.roles.batch),
            padded_bytes(shape, image.roles.batch, image.roles.features)};
  }

  double cycles_to_turn(const ConvolutionImage& image) const {
    const SideCosts each = bytes(image);
    return kTurnFactor * (each[0] + each[1]) / turned_bytes_per_cycle_;
  }

  template <typename Visit>
  void for_each(const Visit& visit) const {
    for (const auto& [id, array] : arrays_) {
      if (array.in_step) visit(ConvolutionImage{id, array.roles}, array.node);
    }
  }

 private:
  struct Array {
    std::size_t node;
    ImageRoles roles;
    bool in_step;  ///< With an array that a convolution reads or makes.
  };

  bool moves(InstructionId id) const {
    const HloOpcode opcode = computation_.at(id).opcode;
    return opcode == HloOpcode::kReshape || opcode == HloOpcode::kTranspose;
  }

  /// The roles of the array at the other end of an operation, where both are on one side: by an
  /// operation that goes through both in step, or that gives the dimensions other places. `by` is
  /// the operation, which makes one of the two.
  std::optional<ImageRoles> roles_across(const ConvolutionImage& from, InstructionId to,
                                         InstructionId by) const {
    const HloInstruction& operation = computation_.at(by);
    if (operation.opcode == HloOpcode::kReshape) {
      return moved(computation_.at(from.id).shape, computation_.at(to).shape, from.roles);
    }
    if (operation.opcode == HloOpcode::kTranspose) {
      const std::vector<std::int64_t>& order = operation.dimensions;
      const auto place = [&](std::int64_t d) {
        return by == from.id ? order[static_cast<std::size_t>(d)]
                             : std::find(order.begin(), order.end(), d) - order.begin();
      };
      return ImageRoles{place(from.roles.batch), place(from.roles.features)};
    }
    const InstructionId operand = by == to ? from.id : to;
    const bool in_step = contains(operands_in_step(computation_, operation), operand);
    return in_step && lie_alike(operand, by) ? std::optional(from.roles) : std::nullopt;
  }

  void count_reshape(InstructionId image, const Shape& from, const Shape& to) {
    const auto found = arrays_.find(image);
    if (found == arrays_.end() || !found->second.in_step) return;
    const ImageRoles& roles = found->second.roles;
    if (from.dimensions == to.dimensions) {
      const Shape dense = in_order(from, densest_order(from));
      const auto copied = [&](bool batch_in_lanes) {
        const Shape there = in_order(from, order_of_images(from.rank(), roles, batch_in_lanes));
        return computation_.at(image).opcode == HloOpcode::kReshape
                   ? move_cycles(dense, there, target_)
                   : move_cycles(there, dense, target_);
      };
      cut_.add_costs(found->second.node, {copied(false), copied(true)});
      return;
    }
    const double copy = cycles_to_turn({image, roles});
    cut_.add_costs(found->second.node, {place_behind(from, to, roles.features) < 0 ? copy : 0,
                                        place_behind(from, to, roles.batch) < 0 ? copy : 0});
  }

  /// The dimensions behind a reshape, where it leaves these two as they are.
  static std::optional<ImageRoles> moved(const Shape& from, const Shape& to,
                                         const ImageRoles& roles) {
    const ImageRoles found{place_behind(from, to, roles.batch),
                           place_behind(from, to, roles.features)};
    const bool is_kept = found.batch >= 0 && found.features >= 0 && found.batch != found.features;
    return is_kept ? std::optional(found) : std::nullopt;
  }

  /// Which dimension of the one shape is this one of the other; below 0: none.
  static std::int64_t place_behind(const Shape& from, const Shape& to, std::int64_t dimension) {
    const std::int64_t extent = from.dimensions[static_cast<std::size_t>(dimension)];
    const std::int64_t before = elements_before(from, dimension);
    for (std::int64_t d = 0; d < to.rank(); ++d) {
      const bool is_same =
          to.dimensions[static_cast<std::size_t>(d)] == extent && elements_before(to, d) == before;
      if (is_same) return d;
    }
    return -1;
  }

  static std::int64_t elements_before(const Shape& shape, std::int64_t dimension) {
    return std::accumulate(shape.dimensions.begin(), shape.dimensions.begin() + dimension,
                           std::int64_t{1}, std::multiplies<>());
  }

  /// Pooling makes the smaller image on the side of the larger one: the smaller one is turned.
  bool lie_alike(InstructionId operand, InstructionId id) const {
    const HloInstruction& source = computation_.at(operand);
    const HloInstruction& made = computation_.at(id);
    if (made.opcode == HloOpcode::kReduceWindow) return true;
    return source.opcode != HloOpcode::kReduceWindow &&
           source.shape.dimensions == made.shape.dimensions;
  }

  const Computation& computation_;
  MinimumCut& cut_;
  const Target& target_;
  double turned_bytes_per_cycle_;
  std::vector<std::vector<InstructionId>> users_;
  std::map<InstructionId, Array> arrays_;
};

}  // namespace

ConvolutionSides::ConvolutionSides(const Computation& computation, ConvolutionKernels& kernels,
                                   Rewriting rewriting) {
  const double rate = kernels.target().hbm_bytes_per_cycle;
  MinimumCut cut;
  Images images(computation, cut, kernels.target());
  std::vector<std::pair<InstructionId, std::size_t>> nodes;
  std::map<InstructionId, ImageSide> only_sides;
  SideCosts cycles{}, bytes{};
  for (const HloInstruction& convolution : computation.instructions) {
    if (!is_weighed(convolution)) continue;
    const std::optional<RowsForm> in_rows = form_in_rows(computation, convolution, kernels);
    const auto cycles_there = [&](bool lanes) {
      return kernels.cycles(convolution, computation.at(convolution.operands[0]).shape,
                            computation.at(convolution.operands[1]).shape, lanes);
    };
    const std::optional<double> in_lanes = cycles_there(true);
    if (!in_rows && !in_lanes) continue;
    const double rows = in_rows ? in_rows->cycles : kWithoutKernel * in_lanes.value_or(0);
    const double spared = in_rows ? in_rows->spared : 0;
    const SideCosts product{rows, in_lanes.value_or(kWithoutKernel * (rows + spared))};
    const std::size_t node = cut.add_node();
    nodes.emplace_back(convolution.id, node);
    cut.add_costs(node, product);
    if (rewriting == Rewriting::kDone && in_lanes.has_value() != cycles_there(false).has_value()) {
      only_sides[convolution.id] = in_lanes ? ImageSide::kLanes : ImageSide::kRows;
      cut.add_costs(node, {in_lanes ? kRefused : 0, in_lanes ? 0 : kRefused});
    }
    for (const ConvolutionImage& image : images_of(convolution)) {
      const std::size_t own = images.node_of(image);
      const SideCosts each = images.bytes(image);
      const SideCosts passes{kPasses * each[0] / rate, kPasses * each[1] / rate};
      // Pixels that become features are not passed over before. The form counts their moves, less
      // those that images in the rows would need: the other side spares no such.
      const bool is_joined =
          image.id == convolution.operands[0] && in_rows && !in_rows->joined.empty();
      cut.add_costs(own, {is_joined ? spared : passes[0], passes[1]});
      cut.add_difference(node, own, images.cycles_to_turn(image));
      for (const std::size_t side : {0, 1}) {
        bytes[side] += each[side];
        cycles[side] += passes[side];
      }
    }
    for (const std::size_t side : {0, 1}) cycles[side] += product[side];
  }
  images.connect_windows();
  images.count_reshapes();
  std::vector<ImageSide> sides = cut.sides();
  if (cycles[0] < kLeastCycles) {
    std::fill(sides.begin(), sides.end(),
              bytes[1] <= bytes[0] ? ImageSide::kLanes : ImageSide::kRows);
  }
  for (const auto& [id, node] : nodes) {
    const auto only = only_sides.find(id);
    convolutions_[id] = only == only_sides.end() ? sides[node] : only->second;
  }
  images.for_each([&](const ConvolutionImage& image, std::size_t node) {
    images_.emplace(image.id, Lying{image.roles, sides[node]});
  });
  otherwise_ = cycles[1] <= cycles[0] ? ImageSide::kLanes : ImageSide::kRows;
}

std::optional<ImageSide> ConvolutionSides::weighed(const HloInstruction& convolution) const {
  const auto found = convolutions_.find(convolution.id);
  if (found != convolutions_.end()) return found->second;
  const auto input = images_.find(convolution.operands[0]);
  if (input == images_.end()) return std::nullopt;
  return input->second.side;
}

}  // namespace tpu::compiler
