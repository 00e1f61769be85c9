#include "workloads/hlo/stablehlo_operation.h"

#include <cctype>

#include "workloads/hlo/mlir_type.h"

namespace tpu::hlo {

namespace {

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// `name = value` or a name alone.
void read_word(HloCursor& cursor, StablehloOperation& operation) {
  const std::string_view word = cursor.name("an attribute");
  if (!cursor.take('=')) {
    operation.words.push_back(word);
    return;
  }
  operation.attributes.set(word, mlir_value(cursor, ",:{\n"));
}

/// One item between commas; false where none stands.
bool read_item(HloCursor& cursor, StablehloOperation& operation) {
  const char next = cursor.peek();
  if (next == '%') {
    operation.operands.push_back(read_mlir_operand(cursor));
  } else if (next == '@') {
    cursor.expect('@');
    operation.attributes.set(
        "callee", cursor.peek() == '"' ? cursor.quoted("a function") : cursor.name("a function"));
  } else if (next == '"') {
    operation.words.push_back(cursor.quoted("a name"));
  } else if (next == '[') {
    operation.attributes.set("bounds", mlir_value(cursor, ",:{\n"));
  } else if (next == '<' && cursor.rest().substr(0, 2) == "<{") {
    cursor.expect("<{");
    operation.attributes.read_dictionary(cursor, "}>");
  } else if (next == '{') {
    cursor.expect('{');
    operation.attributes.read_dictionary(cursor, "}");
  } else if (cursor.rest().substr(0, 6) == "dense<") {
    operation.attributes.set("value", mlir_value(cursor, ",:{\n"));
  } else if (begins_name(next)) {
    read_word(cursor, operation);
  } else {
    return false;
  }
  return true;
}

std::vector<Shape> read_type_list(HloCursor& cursor) {
  std::vector<Shape> types;
  if (cursor.take('(')) {
    cursor.list(')', [&] { types.push_back(read_mlir_type(cursor)); });
    return types;
  }
  do {
    types.push_back(read_mlir_type(cursor));
  } while (cursor.take(','));
  return types;
}

}  // namespace

std::size_t StablehloOperation::result_count() const {
  std::size_t count = 0;
  for (const Result& result : results) count += result.count;
  return count;
}

MlirOperand read_mlir_operand(HloCursor& cursor) {
  MlirOperand operand;
  cursor.expect('%');
  operand.name = cursor.name("a value, as in %0");
  if (cursor.take('#')) {
    const std::int64_t index = cursor.integer("the number of a result");
    if (index < 0) cursor.fail("a number from 0 on");
    operand.index = static_cast<std::size_t>(index);
  }
  return operand;
}

std::vector<StablehloOperation::Result> read_results(HloCursor& cursor) {
  constexpr std::int64_t kMostResults = 1 << 20;
  std::vector<StablehloOperation::Result> results;
  if (cursor.peek() != '%') return results;
  do {
    StablehloOperation::Result result;
    cursor.expect('%');
    result.name = cursor.name("a value, as in %0");
    if (cursor.take(':')) {
      const std::int64_t count = cursor.integer("how many results");
      if (count < 1 || count > kMostResults) cursor.fail_in(result.name, "from 1 to 2^20 results");
      result.count = static_cast<std::size_t>(count);
    }
    results.push_back(result);
  } while (cursor.take(','));
  cursor.expect('=');
  return results;
}

void read_operation_name(HloCursor& cursor, StablehloOperation& operation) {
  const std::string_view full =
      cursor.peek() == '"' ? cursor.quoted("an operation") : cursor.name("an operation");
  const std::size_t dot = full.find('.');
  if (dot == std::string_view::npos) {
    operation.name = full;
    return;
  }
  operation.dialect = full.substr(0, dot);
  operation.name = full.substr(dot + 1);
}

void read_operands(HloCursor& cursor, StablehloOperation& operation) {
  for (;;) {
    const char* const begin = cursor.next();
    if (cursor.take('(')) {
      if (cursor.peek() == '{') {
        cursor.move_to(begin);
        return;
      }
      cursor.list(')', [&] {
        if (!read_item(cursor, operation)) cursor.fail("an operand, or ')'");
      });
    } else if (!read_item(cursor, operation)) {
      return;
    }
    cursor.take(',');
  }
}

void read_types(HloCursor& cursor, StablehloOperation& operation) {
  if (!cursor.take(':')) return;
  operation.result_types = read_type_list(cursor);
  if (cursor.rest().substr(0, 2) == "->") {
    cursor.expect("->");
    operation.operand_types = std::move(operation.result_types);
    operation.result_types = read_type_list(cursor);
  }
}

}  // namespace tpu::hlo
