#include "isa/generation.h"

#include <algorithm>

#include "sim/base/error.h"

namespace tpu::isa {

// Sources: instructions, arrays: the listings of XLA's compiler; pods: Jouppi et al. 2020 and, for
// v4 with its cubes, 2023. Four MXUs can be named where one more bit of the unit's number has room,
// for machines that nobody has built. v4 is taken to execute what v3 does, too, for our compiler.
// Conventions of v4's listings: models/DEVIATIONS.md says what shows each.
const std::vector<Generation>& generations() {
  static const std::vector<Generation> kGenerations = {
      {"v2", false, false, 1, false, {}, 1, 128, 128, {16, 16, 1}, 0, ""},
      {"v3", true, true, 4, false, {}, 2, 128, 128, {32, 32, 1}, 0, ""},
      {"v4",
       true,
       true,
       4,
       true,
       {512, true, true, true, true, 2, 1 << 20},
       4,
       128,
       128,
       {16, 16, 16},
       4,
       "v4: no time was compared with a chip's; no megacore (models/DEVIATIONS.md)"},
  };
  return kGenerations;
}

const Generation* find_generation(std::string_view name) {
  for (const Generation& generation : generations()) {
    if (generation.name == name) return &generation;
  }
  return nullptr;
}

const Generation& generation(std::string_view name) {
  const Generation* found = find_generation(name);
  TPU_CHECK(found != nullptr, "no generation \"" << name << "\"");
  return *found;
}

std::string generation_names() {
  std::string text;
  const std::size_t count = generations().size();
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) text += i + 1 == count ? " or " : ", ";
    text += generations()[i].name;
  }
  return text;
}

Topology Generation::slice(const std::array<std::uint32_t, Topology::kDimensions>& chips) const {
  std::array<Topology::Dimension, Topology::kDimensions> dimensions;
  const bool whole_cubes = cube != 0 && std::all_of(chips.begin(), chips.end(),
                                                    [&](auto side) { return side % cube == 0; });
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    const bool wraps = cube == 0 ? chips[d] == pod[d] : whole_cubes;
    dimensions[d] = {chips[d], chips[d] > 1 && wraps};
  }
  return Topology(dimensions);
}

}  // namespace tpu::isa
