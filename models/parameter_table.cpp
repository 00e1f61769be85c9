#include "models/parameter_table.h"

#include <array>
#include <charconv>

namespace tpu {

std::vector<ParameterValue> parameter_table(const MachineParams& params) {
  std::vector<ParameterValue> table;
  visit_parameters(params, "", [&](const std::string& path, const auto& field, const auto& value) {
    ParameterValue entry{path, std::uint64_t{0}, std::string(field.unit), std::string(field.help)};
    using Type = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Type, std::uint32_t>) {
      entry.value = std::uint64_t{value};
    } else {
      entry.value = value;
    }
    table.push_back(entry);
  });
  return table;
}

std::string value_text(const ParameterValue& parameter) {
  struct Printer {
    std::string operator()(std::uint64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const {
      std::array<char, 32> buffer{};
      const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
      return {buffer.data(), end};
    }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(const std::string& value) const { return value; }
  };
  return std::visit(Printer{}, parameter.value);
}

}  // namespace tpu
