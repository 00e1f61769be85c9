#include "workloads/hlo/mlir_type.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace tpu::hlo {

namespace {

/// The type of HLO that MLIR calls so: `i1`, `ui8`, `f8E4M3FN`; kCount when there is none.
ElementType element_type_of(std::string_view name) {
  if (name == "i1") return ElementType::kPred;
  std::string text(name);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (text.substr(0, 2) == "ui") return element_type(text.erase(1, 1));
  if (text.substr(0, 1) == "i") text[0] = 's';
  return element_type(text);
}

ElementType read_element_type(HloCursor& cursor, std::string_view name) {
  ElementType type = element_type_of(name);
  if (name == "complex") {
    cursor.expect('<');
    type = cursor.take_word("f64") ? ElementType::kC128 : ElementType::kC64;
    if (type == ElementType::kC64 && !cursor.take_word("f32")) cursor.fail("f32 or f64");
    cursor.expect('>');
  }
  if (type == ElementType::kCount) cursor.fail_in(name, "an element type that HLO has");
  return type;
}

}  // namespace

Shape read_mlir_type(HloCursor& cursor) {
  if (cursor.take('!')) {
    const std::string_view name = cursor.name("a type");
    if (name != "stablehlo.token") cursor.fail_in(name, "a tensor or !stablehlo.token");
    Shape token;
    token.type = ElementType::kToken;
    return token;
  }
  if (!cursor.take_word("tensor")) cursor.fail("a type, as in tensor<4x8xf32>");
  cursor.expect('<');
  Shape shape;
  while (std::isdigit(static_cast<unsigned char>(cursor.peek())) != 0) {
    shape.dimensions.push_back(cursor.integer("the extent of a dimension"));
    cursor.expect('x');
  }
  if (cursor.peek() == '?') {
    cursor.fail("the extent of each dimension: lower the function for arrays of known shapes");
  }
  shape.type = read_element_type(cursor, cursor.name("an element type"));
  cursor.expect('>');
  return shape;
}

}  // namespace tpu::hlo
