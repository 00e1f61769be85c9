#include "workloads/hlo/shardy_reader.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace tpu::hlo {

namespace {

using Ids = std::vector<InstructionId>;

/// `name="text"`, as HLO has it among the frontend attributes of an instruction.
std::string attribute(std::string_view name, std::string_view text) {
  std::string quoted;
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return std::string(name) + "=\"" + quoted + "\"";
}

void add_frontend_attributes(HloInstruction& made, const std::string& attributes) {
  std::string& raw = made.raw_attributes.edit();
  if (!raw.empty()) raw += ", ";
  raw += "frontend_attributes={" + attributes + "}";
}

/// `[<@mesh, ...>, ...]` with the name of its kind, if the text has none.
std::string per_value(std::string_view list) {
  if (list.substr(0, 1) == "#") return std::string(list);
  return "#sdy.sharding_per_value<" + std::string(list) + ">";
}

/// `{"data"}`, or `#sdy<manual_axes{"data"}>`, as the latter.
std::string manual_axes(std::string_view axes) {
  if (axes.substr(0, 1) == "#") return std::string(axes);
  return "#sdy<manual_axes" + std::string(axes) + ">";
}

/// `<...>` of `#sdy.sharding<...>`.
std::string_view without_name(std::string_view sharding) {
  const std::size_t begin = sharding.find('<');
  return begin == std::string_view::npos ? sharding : sharding.substr(begin);
}

/// The sharding of one value as a list.
std::string of_one_value(std::string_view sharding) {
  return per_value("[" + std::string(without_name(sharding)) + "]");
}

}  // namespace

void ShardyReader::mesh() {
  cursor_.expect('@');
  const std::string_view name = cursor_.name("the name of a mesh");
  cursor_.expect('=');
  add_mesh(name, cursor_);
  if (cursor_.peek() == '{') mlir_value(cursor_, " \n");
}

void ShardyReader::mesh(const MlirAttributes& attributes) {
  std::string_view name = attributes.text("sym_name");
  if (name.size() > 1 && name.front() == '"') name = name.substr(1, name.size() - 2);
  const bool is_name = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.';
  });
  if (!is_name || name.empty()) attributes.fail_in("sym_name", "the name of a mesh");
  HloCursor inner = cursor_.within(attributes.text("mesh"));
  inner.expect("#sdy.mesh");
  add_mesh(name, inner);
}

/// `<["data"=4, "model"=2]>`, with `, device_ids=[...]` where devices do not stand in the order of
/// their numbers.
void ShardyReader::add_mesh(std::string_view name, HloCursor& cursor) {
  std::string axes, devices;
  cursor.expect('<');
  cursor.list('[', ']', [&] {
    const std::string_view axis = cursor.quoted("the name of an axis");
    if (axis.find_first_of("\\\"{}\n") != std::string_view::npos) {
      cursor.fail_in(axis, "a plain name");
    }
    cursor.expect('=');
    const std::int64_t extent = cursor.integer("the extent of an axis");
    if (extent < 1) cursor.fail_in(axis, "an extent of 1 or more");
    if (!axes.empty()) axes += ", ";
    axes += "\"" + std::string(axis) + "\"=" + std::to_string(extent);
  });
  if (cursor.take(',')) {
    if (!cursor.take_word("device_ids")) cursor.fail("device_ids=[...]");
    cursor.expect('=');
    cursor.list('[', ']', [&] {
      if (!devices.empty()) devices += ", ";
      devices += std::to_string(cursor.integer("the number of a device"));
    });
    devices = ", device_ids=[" + devices + "]";
  }
  cursor.expect('>');
  // A mesh of one device is where something happens on the host.
  if (axes.empty()) return;
  const std::string entry = std::string(name) + " = #sdy.mesh<[" + axes + "]" + devices + ">";
  std::string& text = module_.frontend_attributes;
  if (text.empty()) {
    text = "xla.sdy.meshes={" + entry + "}";
  } else {
    text.insert(text.size() - 1, ", " + entry);
  }
}

void ShardyReader::add_sharding(const MlirAttributes& attributes, HloInstruction& made) {
  if (!attributes.has("sdy.sharding")) return;
  add_frontend_attributes(made, attribute("xla.sdy.sharding", attributes.text("sdy.sharding")));
}

InstructionId ShardyReader::result(InstructionId value, const MlirAttributes& attributes) {
  if (!attributes.has("sdy.sharding")) return value;
  const std::string sharding = of_one_value(attributes.text("sdy.sharding"));
  return custom_call("xla.sdy.FuncResultSharding", attribute("xla.sdy.sharding", sharding), {value},
                     {scopes_.innermost().shape(value)}, {})[0];
}

void ShardyReader::read_constraint(HloCursor& cursor, StablehloOperation& operation) {
  if (cursor.peek() == '%') operation.operands.push_back(read_mlir_operand(cursor));
  if (cursor.peek() == '<') operation.attributes.set("sharding", mlir_value(cursor, ":{\n"));
  read_operands(cursor, operation);
  const std::string_view sharding = operation.attributes.text_or("sharding", "");
  if (without_name(sharding).substr(0, 2) != "<@") {
    operation.attributes.fail("a sharding over a mesh, as in <@mesh, [{}, {\"data\"}]>");
  }
}

Ids ShardyReader::constraint(const StablehloOperation& operation, const HloInstruction& made) {
  if (made.operands.size() != 1) operation.attributes.fail("a constraint of one value");
  const std::string sharding = of_one_value(operation.attributes.text("sharding"));
  return custom_call("Sharding", attribute("xla.sdy.sharding", sharding), made.operands,
                     {made.shape}, made.metadata);
}

void ShardyReader::read_manual(HloCursor& cursor, StablehloOperation& operation) {
  cursor.list('(', ')', [&] { operation.operands.push_back(read_mlir_operand(cursor)); });
  if (cursor.peek() == '<') return read_operands(cursor, operation);
  for (const char* name : {"in_shardings", "out_shardings", "manual_axes"}) {
    if (!cursor.take_word(name)) cursor.fail(std::string(name) + "=...");
    cursor.expect('=');
    operation.attributes.set(name, mlir_value(cursor, " (\n"));
  }
}

Ids ShardyReader::manual(const StablehloOperation& operation, const HloInstruction& made,
                         StablehloScope body) {
  const MlirAttributes& attributes = operation.attributes;
  if (body.arguments != made.operands.size() || body.returned.size() != operation.result_count()) {
    attributes.fail(
        "a manual computation with an argument for each operand, that returns as many "
        "values as it has results");
  }
  const std::string axes = manual_axes(attributes.text("manual_axes"));
  const auto call_attributes = [&](const char* shardings) {
    return attribute(std::string("xla.sdy.") + shardings, per_value(attributes.text(shardings))) +
           "," + attribute("xla.sdy.manual_axes", axes);
  };
  std::vector<Shape> arguments;
  for (std::size_t i = 0; i < body.arguments; ++i) {
    arguments.push_back(body.shape(static_cast<InstructionId>(i)));
  }
  const std::vector<Shape> returned = body.shapes(body.returned);
  bodies_.push_back("xla.sdy.manual_computation_body." + std::to_string(bodies_.size()));
  emitter_.add_function(bodies_.back(), std::move(body));

  StablehloOperation call(cursor_);
  call.name = "call";
  call.attributes.set("callee", bodies_.back());
  call.results = operation.results;
  HloInstruction caller;
  caller.operands = custom_call("xla.sdy.GlobalToLocalShape", call_attributes("in_shardings"),
                                made.operands, arguments, made.metadata);
  caller.shape = returned.size() == 1 ? returned[0] : tuple_shape(returned);
  caller.metadata = made.metadata;
  const Ids local = emitter_.values_of(call, std::move(caller), {});
  return custom_call("xla.sdy.LocalToGlobalShape", call_attributes("out_shardings"), local,
                     operation.result_types, made.metadata);
}

Ids ShardyReader::custom_call(const std::string& target, const std::string& attributes,
                              const Ids& operands, const std::vector<Shape>& results,
                              const Metadata& metadata) {
  if (results.empty()) return {};
  HloInstruction made;
  made.opcode = HloOpcode::kCustomCall;
  made.custom_call_target = target;
  made.operands = operands;
  made.shape = results.size() == 1 ? results[0] : tuple_shape(results);
  made.metadata = metadata;
  made.raw_attributes = "custom_call_has_side_effect=true";
  add_frontend_attributes(made, attributes);
  return emitter_.add_results(std::move(made), results.size());
}

}  // namespace tpu::hlo
