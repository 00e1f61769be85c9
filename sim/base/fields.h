#pragma once

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace tpu {

/// One member of a Params or Stats struct: its name in files and reports, its unit and one sentence
/// about it.
template <class Struct, class Type>
struct Field {
  std::string_view name;
  Type Struct::*member;
  std::string_view unit;
  std::string_view help;
};

template <class Struct, class Type>
constexpr Field<Struct, Type> field(std::string_view name, Type Struct::*member,
                                    std::string_view unit, std::string_view help) {
  return {name, member, unit, help};
}

/// Calls `visit(Field)` for each field of Struct, in the order of its `static constexpr auto
/// fields()` table.
template <class Struct, class Visitor>
constexpr void for_each_field(Visitor&& visit) {
  std::apply([&](const auto&... each) { (visit(each), ...); }, Struct::fields());
}

namespace fields_detail {

struct AnyType {
  template <class Type>
  constexpr operator Type() const;
};

template <class Struct, class Indices, class = void>
struct IsInitializable : std::false_type {};

template <class Struct, std::size_t... Index>
struct IsInitializable<Struct, std::index_sequence<Index...>,
                       std::void_t<decltype(Struct{(void(Index), AnyType{})...})>>
    : std::true_type {};

template <class Struct, std::size_t Count = 0>
constexpr std::size_t member_count() {
  if constexpr (IsInitializable<Struct, std::make_index_sequence<Count + 1>>::value) {
    return member_count<Struct, Count + 1>();
  } else {
    return Count;
  }
}

}  // namespace fields_detail

/// True when the fields() table of an aggregate names as many members as it has: a forgotten one
/// does not compile.
template <class Struct>
constexpr bool fields_are_complete() {
  return std::tuple_size_v<decltype(Struct::fields())> == fields_detail::member_count<Struct>();
}

}  // namespace tpu
