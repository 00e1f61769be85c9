#include "sim/config/slice.h"

#include <array>
#include <charconv>

#include "isa/generation.h"
#include "sim/base/error.h"

namespace tpu::config {
namespace {

constexpr const char* kForm =
    "--topology: expected the chips along x, y and, if any, z, such as 4x4 or 4x4x8, found \"";

}  // namespace

void apply_topology(Configuration& configuration, const std::string& text) {
  std::array<std::uint32_t, isa::Topology::kDimensions> chips = {1, 1, 1};
  const char* at = text.data();
  const char* end = at + text.size();
  std::size_t count = 0;
  while (true) {
    if (count == chips.size()) throw UsageError(kForm + text + "\"");
    const auto [next, error] = std::from_chars(at, end, chips[count]);
    if (error != std::errc() || chips[count] == 0) throw UsageError(kForm + text + "\"");
    ++count;
    if (next == end) break;
    if (*next != 'x') throw UsageError(kForm + text + "\"");
    at = next + 1;
  }
  if (count < 2) throw UsageError(kForm + text + "\"");
  MachineParams& params = configuration.params;
  const isa::Generation* generation = isa::find_generation(params.chip);
  if (generation == nullptr) return;  // check() says so.
  const isa::Topology slice = generation->slice(chips);
  IciParams& ici = params.ici;
  ici.mesh_x = chips[0];
  ici.mesh_y = chips[1];
  ici.mesh_z = chips[2];
  ici.wrap_x = slice.dimension(0).wraps;
  ici.wrap_y = slice.dimension(1).wraps;
  ici.wrap_z = slice.dimension(2).wraps;
  for (const char* path :
       {"ici.mesh_x", "ici.mesh_y", "ici.mesh_z", "ici.wrap_x", "ici.wrap_y", "ici.wrap_z"}) {
    configuration.origins[path] = {"--topology " + text, "the command line"};
  }
}

}  // namespace tpu::config
