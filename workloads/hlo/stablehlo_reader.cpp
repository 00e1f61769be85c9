#include "workloads/hlo/stablehlo_reader.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "workloads/hlo/mlir_locations.h"
#include "workloads/hlo/mlir_type.h"
#include "workloads/hlo/shardy_reader.h"
#include "workloads/hlo/stablehlo_emitter.h"
#include "workloads/hlo/stablehlo_operation.h"
#include "workloads/hlo/stablehlo_scope.h"

namespace tpu::hlo {

namespace {

using Ids = std::vector<InstructionId>;

class StablehloReader {
 public:
  StablehloReader(std::string_view file, std::string_view text)
      : cursor_(file, text),
        locations_(text),
        scopes_(cursor_),
        emitter_(cursor_, scopes_, module_),
        shardy_(cursor_, scopes_, emitter_, module_) {}

  Module read() {
    while (MlirLocations::skip_alias(cursor_)) {
    }
    module_.name = "module";
    if (cursor_.peek() == '"') {
      generic_module();
    } else {
      const bool is_wrapped = cursor_.take_word("module") || cursor_.take_word("builtin.module");
      if (is_wrapped) header();
      while (!cursor_.at_end() && !(is_wrapped && cursor_.take('}'))) {
        if (MlirLocations::skip_alias(cursor_)) continue;
        if (cursor_.take_word("sdy.mesh")) {
          shardy_.mesh();
          Metadata none;
          locations_.take(cursor_, none);
        } else {
          function();
        }
      }
    }
    Metadata none;
    locations_.take(cursor_, none);
    while (MlirLocations::skip_alias(cursor_)) {
    }
    if (!cursor_.at_end()) cursor_.fail("the end of the module");
    check_devices();
    emitter_.resolve_calls();
    module_.entry = emitter_.function("main");
    if (module_.entry < 0) cursor_.fail("a function @main");
    set_entry_layout();
    return std::move(module_);
  }

 private:
  /// `@name attributes {...} {`
  void header() {
    if (cursor_.take('@')) {
      module_.name =
          cursor_.peek() == '"' ? cursor_.quoted("a name") : cursor_.name("the name of the module");
    }
    if (cursor_.take_word("attributes")) {
      cursor_.expect('{');
      MlirAttributes attributes(cursor_, cursor_.next());
      attributes.read_dictionary(cursor_, "}");
      take_devices(attributes);
    }
    cursor_.expect('{');
  }

  /// Partitions are those of the mesh.
  void take_devices(const MlirAttributes& attributes) {
    if (attributes.has("mhlo.num_replicas")) {
      module_.replicas = attributes.integer("mhlo.num_replicas");
      if (module_.replicas < 1) attributes.fail_in("mhlo.num_replicas", "one replica or more");
    }
    if (attributes.has("mhlo.num_partitions")) {
      partitions_ = attributes.text("mhlo.num_partitions");
      if (attributes.integer("mhlo.num_partitions") == 1) partitions_ = {};
    }
  }

  /// A module of several partitions says with its mesh what lies where.
  void check_devices() const {
    if (partitions_.empty() || !module_.frontend_attributes.empty()) return;
    cursor_.fail_in(partitions_,
                    "a mesh of Shardy (sdy.mesh) in a module of several partitions; others are "
                    "read as HLO: lowered.as_text(\"hlo\") in JAX");
  }

  /// `"builtin.module"() <{sym_name = "name"}> ({ functions }) {attributes} : () -> ()`: the form
  /// that MLIR has for the operations of every dialect.
  void generic_module() {
    StablehloOperation module = generic_head("builtin", "module");
    while (!cursor_.take('}')) {
      if (cursor_.rest().substr(0, 10) == "\"sdy.mesh\"") {
        generic_mesh();
      } else {
        generic_function();
      }
    }
    generic_tail(module);
    if (module.attributes.has("sym_name")) module_.name = quoted_text(module, "sym_name");
    take_devices(module.attributes);
  }

  /// `"func.func"() <{sym_name = "main", function_type = ..., ...}> ({ ^bb0(...): ... }) : () ->
  /// ()`
  void generic_function() {
    StablehloOperation function = generic_head("func", "func");
    const std::string_view name = quoted_text(function, "sym_name");
    scopes_.open(RegionKind::kFunction);
    block_arguments();
    const std::vector<MlirAttributes> arguments = dictionaries(function, "arg_attrs");
    std::vector<HloInstruction>& parameters = scopes_.innermost().computation.instructions;
    for (std::size_t i = 0; i < std::min(arguments.size(), parameters.size()); ++i) {
      if (name == "main") take_place(arguments[i], parameters[i].shape, i);
      ShardyReader::add_sharding(arguments[i], parameters[i]);
    }
    operations();
    close_function(name, dictionaries(function, "res_attrs"));
    generic_tail(function);
    Metadata none;
    locations_.take(cursor_, none);
  }

  /// `"sdy.mesh"() <{mesh = #sdy.mesh<["data"=8]>, sym_name = "mesh"}> : () -> ()`
  void generic_mesh() {
    StablehloOperation operation(cursor_);
    read_operation_name(cursor_, operation);
    read_operands(cursor_, operation);
    read_types(cursor_, operation);
    Metadata none;
    locations_.take(cursor_, none);
    shardy_.mesh(operation.attributes);
  }

  /// `[{...}, {...}]`: a function's attributes of each argument, or result.
  std::vector<MlirAttributes> dictionaries(const StablehloOperation& function,
                                           std::string_view name) {
    std::vector<MlirAttributes> found;
    if (!function.attributes.has(name)) return found;
    HloCursor inner = cursor_.within(function.attributes.text(name));
    inner.list('[', ']', [&] {
      inner.expect('{');
      found.emplace_back(cursor_, inner.next());
      found.back().read_dictionary(inner, "}");
    });
    return found;
  }

  void close_function(std::string_view name, const std::vector<MlirAttributes>& results) {
    Ids& returned = scopes_.innermost().returned;
    for (std::size_t i = 0; i < std::min(results.size(), returned.size()); ++i) {
      if (name == "main")
        take_order(results[i], scopes_.innermost().shape(returned[i]), result_orders_[i]);
      returned[i] = shardy_.result(returned[i], results[i]);
    }
    emitter_.add_function(name, scopes_.close());
  }

  /// Name, operands and properties, up to the first operation of the one region.
  StablehloOperation generic_head(std::string_view dialect, std::string_view name) {
    StablehloOperation operation(cursor_);
    read_operation_name(cursor_, operation);
    if (operation.dialect != dialect || operation.name != name) {
      operation.attributes.fail("\"" + std::string(dialect) + "." + std::string(name) + "\"()");
    }
    read_operands(cursor_, operation);
    cursor_.expect('(');
    cursor_.expect('{');
    return operation;
  }

  void generic_tail(StablehloOperation& operation) {
    cursor_.expect(')');
    read_operands(cursor_, operation);
    read_types(cursor_, operation);
  }

  static std::string_view quoted_text(const StablehloOperation& operation, std::string_view name) {
    const std::string_view text = operation.attributes.text(name);
    if (text.size() < 2 || text.front() != '"' || text.back() != '"') {
      operation.attributes.fail_in(name, "a name in quotes");
    }
    return text.substr(1, text.size() - 2);
  }

  /// What @main says of where an argument lies: whose memory a result takes, its layout.
  void take_place(const MlirAttributes& attributes, const Shape& shape, std::size_t parameter) {
    take_order(attributes, shape, parameter_orders_[parameter]);
    if (!attributes.has("tf.aliasing_output")) return;
    Alias alias;
    alias.output_index = attributes.integer("tf.aliasing_output");
    alias.parameter_number = static_cast<std::int64_t>(parameter);
    module_.aliases.push_back(alias);
  }

  /// `mhlo.layout_mode = "{0,1}"`: dimensions from minor to major; "auto" and "default" are none.
  void take_order(const MlirAttributes& attributes, const Shape& shape,
                  std::vector<std::int64_t>& minor_to_major) {
    const char* const name = "mhlo.layout_mode";
    if (!attributes.has(name)) return;
    const std::string_view text = attributes.text(name);
    if (text == "\"auto\"" || text == "\"default\"") return;
    const std::size_t end = text.find_first_of(":}");  // Tiles, which may follow, are not kept.
    if (text.substr(0, 2) == "\"{" && end != std::string_view::npos) {
      minor_to_major = mlir_integers(cursor_, text.substr(2, end - 2));
    }
    std::vector<std::int64_t> dimensions(static_cast<std::size_t>(shape.rank()));
    std::iota(dimensions.begin(), dimensions.end(), 0);
    if (!std::is_permutation(dimensions.begin(), dimensions.end(), minor_to_major.begin(),
                             minor_to_major.end())) {
      attributes.fail_in(name, "auto, default or every dimension of " + to_string(shape, false) +
                                   " once, as in {1,0}");
    }
  }

  /// Where an argument or result of @main has a layout, all do.
  void set_entry_layout() {
    const auto is_stated = [](const auto& order) { return !order.second.empty(); };
    if (std::none_of(parameter_orders_.begin(), parameter_orders_.end(), is_stated) &&
        std::none_of(result_orders_.begin(), result_orders_.end(), is_stated)) {
      return;
    }
    const Computation& entry = module_.entry_computation();
    EntryLayout& layout = module_.entry_layout.edit();
    const std::vector<InstructionId> parameters = entry.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      layout.parameters.push_back(entry.at(parameters[i]).shape);
      layout.parameters.back().layout.minor_to_major = parameter_orders_[i];
    }
    layout.result = entry.at(entry.root).shape;
    if (!layout.result.is_tuple()) layout.result.layout.minor_to_major = result_orders_[0];
    for (std::size_t i = 0; i < layout.result.elements.size(); ++i) {
      layout.result.elements[i].layout.minor_to_major = result_orders_[i];
    }
  }

  /// `func.func public @name(%arg0: type {...}, ...) -> (types) {`
  void function() {
    if (!cursor_.take_word("func.func")) cursor_.fail("func.func, as in `func.func @main(...)`");
    for (const char* word : {"public", "private", "nested"}) cursor_.take_word(word);
    cursor_.expect('@');
    const std::string_view name = cursor_.peek() == '"' ? cursor_.quoted("a function")
                                                        : cursor_.name("the name of a function");
    scopes_.open(RegionKind::kFunction);
    cursor_.list('(', ')', [&] { parameter(name == "main"); });
    std::vector<MlirAttributes> results;
    if (cursor_.rest().substr(0, 2) == "->") results = result_types();
    if (cursor_.take_word("attributes")) mlir_value(cursor_, " \n");
    cursor_.expect('{');
    operations();
    close_function(name, results);
    Metadata none;
    locations_.take(cursor_, none);
  }

  void parameter(bool is_entry) {
    cursor_.expect('%');
    const std::string_view name = cursor_.name("an argument");
    cursor_.expect(':');
    const Shape shape = read_mlir_type(cursor_);
    const std::size_t number = scopes_.innermost().arguments;
    MlirAttributes attributes(cursor_, cursor_.next());
    if (cursor_.take('{')) attributes.read_dictionary(cursor_, "}");
    if (is_entry) take_place(attributes, shape, number);
    Metadata metadata;
    locations_.take(cursor_, metadata);
    scopes_.add_argument(name, shape, metadata);
    ShardyReader::add_sharding(attributes, scopes_.innermost().computation.instructions.back());
  }

  /// `-> type` or `-> (type {...}, ...)`: what is returned has the same types. The attributes of
  /// each result.
  std::vector<MlirAttributes> result_types() {
    std::vector<MlirAttributes> results;
    cursor_.expect("->");
    if (!cursor_.take('(')) {
      read_mlir_type(cursor_);
      return results;
    }
    cursor_.list(')', [&] {
      read_mlir_type(cursor_);
      results.emplace_back(cursor_, cursor_.next());
      if (cursor_.take('{')) results.back().read_dictionary(cursor_, "}");
      Metadata none;
      locations_.take(cursor_, none);
    });
    return results;
  }

  /// From behind '{' to '}'.
  void operations() {
    const char* const begin = cursor_.next();
    bool ended = false;
    while (!cursor_.take('}')) {
      if (ended) cursor_.fail("'}' behind the end of this region");
      ended = operation();
    }
    if (!ended) cursor_.fail_at(begin, "a region that ends with return");
  }

  /// Reads one operation; true for the end of a region.
  bool operation() {
    const std::vector<StablehloOperation::Result> results = read_results(cursor_);
    cursor_.peek();
    StablehloOperation operation(cursor_);
    operation.results = results;
    read_operation_name(cursor_, operation);
    const std::string_view dialect = operation.dialect;
    if (dialect == "sdy") return shardy_operation(operation);
    if (!dialect.empty() && dialect != "stablehlo" && dialect != "func" && dialect != "chlo") {
      operation.attributes.fail(
          "an operation of StableHLO, CHLO or func; other dialects are read as HLO: "
          "lowered.as_text(\"hlo\") in JAX");
    }
    if (operation.name == "while" && peeks_assignment()) {
      assignments(operation);
    } else if (operation.name == "reduce" && dialect == "stablehlo" && cursor_.peek() == '(' &&
               peeks_init()) {
      return reduce(operation);
    } else {
      read_operands(cursor_, operation);
    }
    return emit(operation);
  }

  /// A constraint, a manual computation (shard_map), or its end.
  bool shardy_operation(StablehloOperation& operation) {
    if (operation.name == "return") {
      read_operands(cursor_, operation);
      return emit(operation);
    }
    if (operation.name == "sharding_constraint" || operation.name == "reshard") {
      ShardyReader::read_constraint(cursor_, operation);
      read_types(cursor_, operation);
      const HloInstruction made = with_operands(operation);
      define(operation, shardy_.constraint(operation, made));
      return false;
    }
    if (operation.name != "manual_computation") {
      operation.attributes.fail(
          "an operation of Shardy that is read here (HLO text has more: lowered.as_text(\"hlo\") "
          "in JAX)");
    }
    ShardyReader::read_manual(cursor_, operation);
    cursor_.expect('(');
    scopes_.open(RegionKind::kFunction);
    const bool is_generic = cursor_.take('{');
    if (is_generic) {
      block_arguments();
    } else {
      arguments();
      cursor_.expect('{');
    }
    operations();
    if (is_generic) cursor_.expect(')');
    StablehloScope body = scopes_.close();
    read_types(cursor_, operation);
    const HloInstruction made = with_operands(operation);
    define(operation, shardy_.manual(operation, made, std::move(body)));
    return false;
  }

  bool peeks_assignment() { return cursor_.peek() == '(' && peeks_before("=", ",)"); }
  bool peeks_init() { return peeks_before("init:", ",)"); }
  bool peeks_before(std::string_view word, std::string_view ends) {
    const std::string_view rest = cursor_.rest();
    return rest.find(word) < rest.find_first_of(ends);
  }

  bool emit(StablehloOperation& operation) {
    std::vector<StablehloScope> regions;
    if (cursor_.peek() == '(') {
      regions = generic_regions(operation);
      read_operands(cursor_, operation);
    }
    read_types(cursor_, operation);
    if (operation.name == "while" && regions.empty()) regions = loop_regions(operation);
    return finish_operation(operation, std::move(regions));
  }

  /// An instruction with the operation's source, operands and, but for the end of a region, the
  /// shape of its results.
  HloInstruction with_operands(StablehloOperation& operation) {
    HloInstruction made;
    locations_.take(cursor_, made.metadata);
    for (const MlirOperand& operand : operation.operands) {
      made.operands.push_back(scopes_.value(operand));
    }
    if (operation.name == "return") return made;
    const std::size_t count = operation.result_count();
    if (operation.result_types.size() < count) {
      operation.attributes.fail("the types of " + std::to_string(count) + " results");
    }
    std::vector<Shape>& types = operation.result_types;
    types.erase(types.begin(), types.end() - static_cast<std::ptrdiff_t>(count));
    made.shape = count == 1 ? types[0] : tuple_shape(types);
    ShardyReader::add_sharding(operation.attributes, made);
    return made;
  }

  bool finish_operation(StablehloOperation& operation, std::vector<StablehloScope> regions) {
    HloInstruction made = with_operands(operation);
    if (operation.name == "return") {
      scopes_.innermost().returned = std::move(made.operands);
      return true;
    }
    define(operation, emitter_.values_of(operation, std::move(made), std::move(regions)));
    return false;
  }

  void define(const StablehloOperation& operation, const Ids& values) {
    std::size_t next = 0;
    for (const StablehloOperation::Result& result : operation.results) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(next);
      scopes_.define(result.name, Ids(first, first + static_cast<std::ptrdiff_t>(result.count)));
      next += result.count;
    }
  }

  /// `{ ^bb0(%a: type, ...): ... }`, or one without arguments.
  StablehloScope region(RegionKind kind) {
    cursor_.expect('{');
    scopes_.open(kind);
    block_arguments();
    operations();
    return scopes_.close();
  }

  /// `^bb0(%a: type, ...):`, where the region has arguments.
  void block_arguments() {
    if (!cursor_.take('^')) return;
    cursor_.name("the name of a block");
    if (cursor_.take('(')) arguments();
    cursor_.expect(':');
  }

  /// `%a: type, ...` up to and with ')'.
  void arguments() {
    cursor_.list(')', [&] {
      cursor_.expect('%');
      const std::string_view name = cursor_.name("an argument");
      cursor_.expect(':');
      const Shape shape = read_mlir_type(cursor_);
      Metadata metadata;
      locations_.take(cursor_, metadata);
      scopes_.add_argument(name, shape, metadata);
    });
  }

  /// `({ ... }, { ... })`.
  std::vector<StablehloScope> generic_regions(const StablehloOperation& operation) {
    const std::string_view name = operation.name;
    const bool branches = name == "while" || name == "if" || name == "case";
    std::vector<StablehloScope> regions;
    cursor_.expect('(');
    do {
      regions.push_back(region(branches ? RegionKind::kBranch : RegionKind::kReducer));
    } while (cursor_.take(','));
    cursor_.expect(')');
    return regions;
  }

  /// `(%a = %0, %b = %1)` of a loop: its regions call the values %a and %b.
  void assignments(StablehloOperation& operation) {
    cursor_.list('(', ')', [&] {
      cursor_.expect('%');
      operation.words.push_back(cursor_.name("a value of the loop"));
      cursor_.expect('=');
      operation.operands.push_back(read_mlir_operand(cursor_));
    });
  }

  /// `cond { ... } do { ... }`.
  std::vector<StablehloScope> loop_regions(const StablehloOperation& operation) {
    if (cursor_.take_word("attributes")) mlir_value(cursor_, " \n");
    if (operation.result_types.size() != operation.words.size()) {
      operation.attributes.fail("a type for each value of the loop");
    }
    std::vector<StablehloScope> regions;
    for (const char* word : {"cond", "do"}) {
      if (!cursor_.take_word(word)) cursor_.fail(std::string(word) + " and a region");
      cursor_.expect('{');
      scopes_.open(RegionKind::kBranch);
      for (std::size_t i = 0; i < operation.words.size(); ++i) {
        scopes_.add_argument(operation.words[i], operation.result_types[i], {});
      }
      operations();
      regions.push_back(scopes_.close());
    }
    return regions;
  }

  /// `(%a init: %b), ... applies stablehlo.add across dimensions = [0] : types`, or with
  /// `reducer(%x: type, %y: type) ... { ... }` behind the types.
  bool reduce(StablehloOperation& operation) {
    std::vector<MlirOperand> initial;
    do {
      cursor_.expect('(');
      operation.operands.push_back(read_mlir_operand(cursor_));
      cursor_.expect("init:");
      initial.push_back(read_mlir_operand(cursor_));
      cursor_.expect(')');
    } while (cursor_.take(','));
    operation.operands.insert(operation.operands.end(), initial.begin(), initial.end());
    std::string_view applied;
    if (cursor_.take_word("applies")) applied = cursor_.name("an operation, as stablehlo.add");
    if (!cursor_.take_word("across")) cursor_.fail("across dimensions = [...]");
    read_operands(cursor_, operation);
    read_types(cursor_, operation);
    std::vector<StablehloScope> regions;
    regions.push_back(applied.empty() ? reducer(initial.size()) : reducer_of(operation, applied));
    return finish_operation(operation, std::move(regions));
  }

  /// The text has the two values of each operand side by side, HLO first those of all.
  StablehloScope reducer(std::size_t operands) {
    struct Argument {
      std::string_view name;
      Shape shape;
    };
    std::vector<Argument> sides[2];
    if (!cursor_.take_word("reducer")) cursor_.fail("reducer(...) and a region");
    for (std::size_t i = 0; i < 2 * operands; ++i) {
      if (i % 2 == 0) cursor_.expect('(');
      cursor_.expect('%');
      Argument argument{cursor_.name("an argument"), {}};
      cursor_.expect(':');
      argument.shape = read_mlir_type(cursor_);
      Metadata none;
      locations_.take(cursor_, none);
      sides[i % 2].push_back(std::move(argument));
      cursor_.expect(i % 2 == 0 ? ',' : ')');
    }
    cursor_.expect('{');
    scopes_.open(RegionKind::kReducer);
    for (const std::vector<Argument>& side : sides) {
      for (const Argument& argument : side) {
        scopes_.add_argument(argument.name, argument.shape, {});
      }
    }
    operations();
    return scopes_.close();
  }

  /// The computation of one operation on two scalars.
  StablehloScope reducer_of(const StablehloOperation& operation, std::string_view applied) {
    if (operation.result_types.size() != 1) operation.attributes.fail("a reduction of one array");
    const Shape scalar = array_shape(operation.result_types[0].type, {});
    StablehloOperation combining(cursor_);
    combining.at = operation.at;
    combining.name = applied.substr(std::min(applied.find('.') + 1, applied.size()));
    scopes_.open(RegionKind::kReducer);
    scopes_.add_argument("a", scalar, {});
    scopes_.add_argument("b", scalar, {});
    scopes_.innermost().returned = {emitter_.binary(combining, 0, 1, scalar)};
    return scopes_.close();
  }

  HloCursor cursor_;
  MlirLocations locations_;
  StablehloScopes scopes_;
  Module module_;
  StablehloEmitter emitter_;
  ShardyReader shardy_;
  std::string_view partitions_;  ///< As the header has them, where they are more than one.
  /// Of @main, by number: dimensions from minor to major, where they are stated.
  std::map<std::size_t, std::vector<std::int64_t>> parameter_orders_, result_orders_;
};

}  // namespace

Module read_stablehlo_text(std::string_view file, std::string_view text) {
  return StablehloReader(file, text).read();
}

}  // namespace tpu::hlo
