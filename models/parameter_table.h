#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "models/params.h"

namespace tpu {

template <class Type, class = void>
struct HasFields : std::false_type {};
template <class Type>
struct HasFields<Type, std::void_t<decltype(Type::fields())>> : std::true_type {};

/// Calls `visit(path, field, value)` for each parameter that is no group, in the order of the
/// fields() tables; the path is dotted: "core.mxu.count". `Struct` may be const.
template <class Struct, class Visitor>
void visit_parameters(Struct& params, const std::string& prefix, Visitor&& visit) {
  for_each_field<std::remove_const_t<Struct>>([&](const auto& field) {
    auto& value = params.*(field.member);
    const std::string path = prefix + std::string(field.name);
    if constexpr (HasFields<std::remove_const_t<std::remove_reference_t<decltype(value)>>>::value) {
      visit_parameters(value, path + ".", visit);
    } else {
      visit(path, field, value);
    }
  });
}

/// One parameter as reports and files show it.
struct ParameterValue {
  std::string path;
  std::variant<std::uint64_t, double, bool, std::string> value;
  std::string unit;
  std::string help;
  friend bool operator==(const ParameterValue& a, const ParameterValue& b) {
    return a.path == b.path && a.value == b.value;
  }
};

/// All parameters of a machine.
std::vector<ParameterValue> parameter_table(const MachineParams& params);

/// The value as text: `1800`, `true`, `v3`; numbers in the shortest form that reads back exactly.
std::string value_text(const ParameterValue& parameter);

}  // namespace tpu
