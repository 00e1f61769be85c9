#include "sim/app/captured_placement.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "workloads/compiler/buffers.h"

namespace tpu::app {
namespace {

using Json = nlohmann::json;
using Extents = std::vector<std::int64_t>;

/// One list of facts.json against the buffers of its role.
class PlacementReader {
 public:
  PlacementReader(const std::string& file, const isa::Program& program)
      : file_(file), program_(program) {}

  std::vector<compiler::ArrayParts> read(const Json& list, isa::BufferRole role,
                                         const std::string& what) const {
    std::vector<compiler::ArrayParts> arrays;
    for (const Json& entry : list) {
      const auto number = static_cast<std::uint32_t>(arrays.size());
      arrays.push_back(read_array(entry, role, number, what + " " + std::to_string(number)));
    }
    return arrays;
  }

 private:
  compiler::ArrayParts read_array(const Json& entry, isa::BufferRole role, std::uint32_t number,
                                  const std::string& what) const {
    const isa::Buffer* buffer = compiler::find_buffer(program_, role, number);
    if (buffer == nullptr) fail(what + ": the program has none");
    const hlo::Shape shape = hlo::parse_shape(buffer->shape);
    compiler::ArrayParts parts;
    parts.whole = hlo::array_shape(shape.type, entry.at("whole").get<Extents>());
    parts.part = entry.value("part", parts.whole.dimensions);
    parts.starts =
        entry.value("starts", std::vector<Extents>(program_.cores, Extents(rank(parts))));
    if (parts.part != shape.dimensions) {
      fail(what + ": expected the part of a device to be " + hlo::to_string(shape, false) +
           ", found " + hlo::to_string(hlo::array_shape(shape.type, parts.part), false));
    }
    if (parts.starts.size() != program_.cores) {
      fail(what + ": expected " + std::to_string(program_.cores) + " devices, found " +
           std::to_string(parts.starts.size()));
    }
    for (const Extents& start : parts.starts) check_inside(parts, start, what);
    return parts;
  }

  static std::size_t rank(const compiler::ArrayParts& parts) {
    return parts.whole.dimensions.size();
  }

  void check_inside(const compiler::ArrayParts& parts, const Extents& start,
                    const std::string& what) const {
    if (start.size() != rank(parts) || parts.part.size() != rank(parts)) {
      fail(what + ": expected " + std::to_string(rank(parts)) + " dimensions");
    }
    for (std::size_t d = 0; d < start.size(); ++d) {
      if (start[d] < 0 || parts.part[d] > parts.whole.dimensions[d] - start[d]) {
        fail(what + ": a part lies outside of " + hlo::to_string(parts.whole, false));
      }
    }
  }

  [[noreturn]] void fail(const std::string& message) const {
    throw WorkloadError(file_ + ": placement: " + message);
  }

  const std::string& file_;
  const isa::Program& program_;
};

}  // namespace

CapturedPlacement captured_placement(const std::string& folder, const isa::Program& program) {
  const std::string file = folder + "/facts.json";
  std::ifstream stream(file);
  if (!stream || program.cores <= 1) return {};
  try {
    const Json facts = Json::parse(stream);
    const Json placement = facts.value(program.chip, Json::object()).value("placement", Json());
    if (placement.is_null()) return {};
    const PlacementReader reader(file, program);
    return {reader.read(placement.at("parameters"), isa::BufferRole::kParameter, "parameter"),
            reader.read(placement.at("results"), isa::BufferRole::kOutput, "result")};
  } catch (const Json::exception& error) {
    throw WorkloadError(file + ": placement: " + error.what());
  }
}

}  // namespace tpu::app
