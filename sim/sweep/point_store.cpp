#include "sim/sweep/point_store.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/output_file.h"

namespace tpu::sweep {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kVersion = 1;

}  // namespace

PointStore PointStore::create(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder)) {
    throw UsageError("--points " + folder + ": expected a folder for the files of points: " +
                     (error ? error.message() : "found a file of that name"));
  }
  return PointStore(folder);
}

bool PointStore::has(const std::string& hash) const {
  struct stat status {};
  return ::stat(path_of(hash).c_str(), &status) == 0;
}

std::optional<double> PointStore::written_at(const std::string& hash) const {
  struct stat status {};
  if (::stat(path_of(hash).c_str(), &status) != 0) return std::nullopt;
  return static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * status.st_mtim.tv_nsec;
}

std::optional<PointResult> PointStore::read(const std::string& hash) const {
  std::ifstream in(path_of(hash), std::ios::binary);
  if (!in) return std::nullopt;
  const Json json = Json::parse(in, nullptr, false);
  const auto is = [&](const char* key, auto&& test) {
    return json.contains(key) && test(json[key]);
  };
  const bool known = json.is_object() &&
                     is("schema_version", [](auto& v) { return v == kVersion; }) &&
                     is("hash", [&](auto& v) { return v == hash; }) &&
                     is("error", [](auto& v) { return v.is_string(); }) &&
                     is("exit_code", [](auto& v) { return v.is_number_integer(); }) &&
                     is("figures", [](auto& v) { return v.is_object(); });
  if (!known) return std::nullopt;
  PointResult result;
  result.error = json["error"];
  result.exit_code = json["exit_code"];
  for (const auto& [name, value] : json["figures"].items()) {
    if (!value.is_number()) return std::nullopt;
    result.figures.emplace_back(name, value.get<double>());
  }
  return result;
}

void PointStore::write(const std::string& hash, const PointResult& result) const {
  Json json;
  json["schema_version"] = kVersion;
  json["hash"] = hash;
  json["error"] = result.error;
  json["exit_code"] = result.exit_code;
  json["figures"] = Json::object();
  for (const auto& [name, value] : result.figures) json["figures"][name] = value;
  OutputFile file(path_of(hash));
  file.write(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  file.commit();
}

}  // namespace tpu::sweep
