#include <cmath>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "sim/base/error.h"
#include "sim/sweep/sweep_page.h"

namespace tpu::sweep {
namespace {

using Json = nlohmann::ordered_json;

template <class Type>
Json json_of(const Type& value) {
  if constexpr (std::is_floating_point_v<Type>) {
    if (!std::isfinite(value)) return nullptr;
  }
  return value;
}

}  // namespace

std::string sweep_html(const Plan& plan, const traces::Table& table) {
  Json data = {{"title", plan.file}, {"settings", plan.names}, {"columns", Json::array()}};
  for (const traces::Table::NamedColumn& column : table.columns()) {
    Json values = Json::array();
    std::visit(
        [&](const auto& cells) {
          for (const auto& cell : cells) values.push_back(json_of(cell));
        },
        column.values);
    data["columns"].push_back({{"name", column.name}, {"values", values}});
  }
  std::string text = data.dump(-1, ' ', true, Json::error_handler_t::replace);
  // No text of a sweep ends the script that holds it.
  for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at)) {
    text.replace(at, 1, "\\u003c");
  }
  constexpr std::string_view kPlace = "SWEEP_DATA";
  std::string page(sweep_page());
  const std::size_t place = page.find(kPlace);
  TPU_CHECK(place != std::string::npos, "the page has no place for data");
  return page.replace(place, kPlace.size(), text);
}

}  // namespace tpu::sweep
