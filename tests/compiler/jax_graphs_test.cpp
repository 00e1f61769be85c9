// The reference interpreter and the compiler against XLA on the CPU, as JAX calls it: random
// graphs, and what integers, NaN and indices out of bounds become. TPUSIM_JAX_PYTHON is a Python
// that has jax (python3); without one the tests are skipped.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "tests/compiler/graph_check.h"
#include "tests/compiler/random_graph.h"
#include "traces/npz.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::jax_graphs_test {
namespace {

constexpr int kNoJax = 77;

std::string numbered(const char* prefix, std::size_t number) {
  const std::string digits = std::to_string(number);
  return prefix + std::string(3 - std::min<std::size_t>(3, digits.size()), '0') + digits;
}

/// Modules with arguments in a folder of their own, and what XLA makes of them.
class Judge {
 public:
  explicit Judge(const std::string& name)
      : folder_(std::filesystem::path(testing::TempDir()) /
                ("tpusim_judge_" + name + "_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Judge() { std::filesystem::remove_all(folder_); }
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;

  void add(const std::string& name, const GraphCase& graph) const {
    std::ofstream(folder_ / (name + ".hlo")) << hlo::to_string(graph.module);
    traces::NpzFile arguments;
    for (const reference::Value& value : graph.arguments) {
      arguments[numbered("arg_", arguments.size())] = {value.shape.type, value.shape.dimensions,
                                                       reference::to_bytes(value)};
    }
    traces::write_npz((folder_ / (name + ".npz")).string(), arguments);
  }
  /// The exit code of the Python program.
  int run() const {
    const char* python = std::getenv("TPUSIM_JAX_PYTHON");
    const std::string command = std::string(python == nullptr ? "python3" : python) +
                                " " TPUSIM_SOURCE_DIR "/tests/compiler/jax_graphs.py " +
                                folder_.string() + " >" + (folder_ / "log").string() + " 2>&1";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string log() const { return text_of("log"); }
  /// The results in the types of the module; empty where XLA refused it.
  std::vector<compiler::HostArray> results(const std::string& name,
                                           const hlo::Module& module) const {
    const std::filesystem::path path = folder_ / (name + ".out.npz");
    if (!std::filesystem::exists(path)) return {};
    const traces::NpzFile file = traces::read_npz(path.string());
    const hlo::Computation& entry = module.entry_computation();
    const hlo::Shape& root = entry.at(entry.root).shape;
    std::vector<compiler::HostArray> results;
    for (const auto& [key, array] : file) {
      const hlo::Shape& shape = root.is_tuple() ? root.elements.at(results.size()) : root;
      results.push_back(host_array(shape, array.bytes));
    }
    return results;
  }
  std::string error(const std::string& name) const { return text_of(name + ".error"); }

 private:
  std::string text_of(const std::string& file) const {
    std::stringstream text;
    text << std::ifstream(folder_ / file).rdbuf();
    return text.str();
  }

  std::filesystem::path folder_;
};

std::uint32_t number_from(const char* variable, std::uint32_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

TEST(JaxGraphs, RandomGraphsHaveTheValuesOfXla) {
  const Judge judge("graphs");
  const std::uint32_t first = number_from("TPUSIM_RANDOM_SEED", 0);
  const std::uint32_t count = number_from("TPUSIM_RANDOM_GRAPHS", 4);
  std::vector<std::pair<std::string, GraphCase>> graphs;
  for (const GraphMix& mix : graph_mixes()) {
    for (std::uint32_t seed = first; seed < first + count; ++seed) {
      const std::string name = mix.name + std::string(".") + std::to_string(seed);
      graphs.emplace_back(name, case_of(random_module(mix, seed), seed));
      graphs.back().second.module.aliases.clear();
      judge.add(name, graphs.back().second);
    }
  }
  const int code = judge.run();
  if (code == kNoJax) GTEST_SKIP() << judge.log();
  ASSERT_EQ(code, 0) << judge.log();
  for (const auto& [name, graph] : graphs) {
    const std::vector<compiler::HostArray> found = judge.results(name, graph.module);
    if (found.empty()) {
      ADD_FAILURE() << name << ": XLA says " << judge.error(name);
      continue;
    }
    const std::string message =
        difference(graph, interpret(graph.module, graph.arguments, 1, false), found);
    EXPECT_TRUE(message.empty()) << name << ", XLA beside the reference: " << message << "\n"
                                 << hlo::to_string(graph.module);
  }
}

/// An operation on all pairs of special numbers: `a` and `b` of f32, `i` and `j` of s32, `u` and
/// `v` of u32, all [16,16].
struct Edge {
  const char* name;
  const char* result;      ///< Type.
  const char* expression;  ///< Opcode with operands and attributes.
};

constexpr Edge kEdges[] = {
    {"convert_f32_s32", "s32", "convert(a)"},
    {"convert_f32_u32", "u32", "convert(a)"},
    {"convert_f32_pred", "pred", "convert(a)"},
    {"convert_f32_bf16", "bf16", "convert(a)"},
    {"convert_s32_f32", "f32", "convert(i)"},
    {"convert_u32_f32", "f32", "convert(u)"},
    {"convert_s32_pred", "pred", "convert(i)"},
    {"add", "f32", "add(a, b)"},
    {"multiply", "f32", "multiply(a, b)"},
    {"divide", "f32", "divide(a, b)"},
    {"remainder", "f32", "remainder(a, b)"},
    {"maximum", "f32", "maximum(a, b)"},
    {"minimum", "f32", "minimum(a, b)"},
    {"power", "f32", "power(a, b)"},
    {"atan2", "f32", "atan2(a, b)"},
    {"equal", "pred", "compare(a, b), direction=EQ"},
    {"not_equal", "pred", "compare(a, b), direction=NE"},
    {"less", "pred", "compare(a, b), direction=LT"},
    {"greater_equal", "pred", "compare(a, b), direction=GE"},
    {"less_s32", "pred", "compare(i, j), direction=LT"},
    {"less_u32", "pred", "compare(u, v), direction=LT"},
    {"clamp", "f32", "clamp(b, a, two)"},
    {"clamp_crossed", "f32", "clamp(two, a, b)"},
    {"sign", "f32", "sign(a)"},
    {"abs", "f32", "abs(a)"},
    {"floor", "f32", "floor(a)"},
    {"ceil", "f32", "ceil(a)"},
    {"round_afz", "f32", "round-nearest-afz(a)"},
    {"round_even", "f32", "round-nearest-even(a)"},
    {"is_finite", "pred", "is-finite(a)"},
    {"sqrt", "f32", "sqrt(a)"},
    {"rsqrt", "f32", "rsqrt(a)"},
    {"log", "f32", "log(a)"},
    {"exponential", "f32", "exponential(a)"},
    {"expm1", "f32", "exponential-minus-one(a)"},
    {"log1p", "f32", "log-plus-one(a)"},
    {"tanh", "f32", "tanh(a)"},
    {"logistic", "f32", "logistic(a)"},
    {"erf", "f32", "erf(a)"},
    {"add_s32", "s32", "add(i, j)"},
    {"multiply_s32", "s32", "multiply(i, j)"},
    {"divide_s32", "s32", "divide(i, j)"},
    {"remainder_s32", "s32", "remainder(i, j)"},
    {"divide_u32", "u32", "divide(u, v)"},
    {"remainder_u32", "u32", "remainder(u, v)"},
    {"shift_left", "s32", "shift-left(i, j)"},
    {"shift_right_arithmetic", "s32", "shift-right-arithmetic(i, j)"},
    {"shift_right_logical", "s32", "shift-right-logical(i, j)"},
    {"shift_right_arithmetic_u32", "u32", "shift-right-arithmetic(u, v)"},
    {"shift_right_logical_u32", "u32", "shift-right-logical(u, v)"},
    {"maximum_s32", "s32", "maximum(i, j)"},
    {"maximum_u32", "u32", "maximum(u, v)"},
    {"minimum_u32", "u32", "minimum(u, v)"},
    {"abs_s32", "s32", "abs(i)"},
    {"sign_s32", "s32", "sign(i)"},
    {"negate_u32", "u32", "negate(u)"},
    {"count_leading_zeros", "s32", "count-leading-zeros(i)"},
    {"popcnt", "s32", "popcnt(i)"},
};

GraphCase edge_case(const Edge& edge) {
  const std::string result = edge.result;
  const std::string text = R"(HloModule edge
ENTRY main {
  x = f32[16] parameter(0)
  y = s32[16] parameter(1)
  a = f32[16,16] broadcast(x), dimensions={0}
  b = f32[16,16] broadcast(x), dimensions={1}
  i = s32[16,16] broadcast(y), dimensions={0}
  j = s32[16,16] broadcast(y), dimensions={1}
  u = u32[16,16] convert(i)
  v = u32[16,16] convert(j)
  c = f32[] constant(2)
  two = f32[16,16] broadcast(c), dimensions={}
  ROOT r = )" + result + "[16,16] " +
                           edge.expression + "\n}\n";
  GraphCase graph = case_of(hlo::read_hlo_text("edge", text), 1);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  graph.arguments[0].numbers = {nan,  inf,   -inf, 0.0F,  -0.0F,  1.5F, -1.5F, 2.5F,
                                3e9F, -3e9F, 5e9F, 1e20F, -1e20F, 0.5F, -0.5F, 2147483648.0F};
  graph.arguments[1].integers = {
      0, 1, -1, 7, -7, 2, -2, 31, 32, 33, -31, 2147483647, -2147483648LL, 5, -5, 40};
  return graph;
}

/// The first elements that differ by more than rounding; empty where none do.
std::string differences(const GraphCase& graph, const std::vector<double>& found,
                        const std::vector<double>& wanted) {
  std::stringstream text;
  int shown = 0;
  for (std::size_t k = 0; k < wanted.size() && shown < 6; ++k) {
    if (found[k] == wanted[k] || (std::isnan(found[k]) && std::isnan(wanted[k]))) continue;
    if (std::fabs(found[k] - wanted[k]) <= 2e-5 * std::fabs(wanted[k])) continue;
    ++shown;
    text << "\n  of " << graph.arguments[0].numbers[k / 16] << " and "
         << graph.arguments[0].numbers[k % 16] << " (" << graph.arguments[1].integers[k / 16]
         << " and " << graph.arguments[1].integers[k % 16] << "): expected " << wanted[k]
         << ", found " << found[k];
  }
  return text.str();
}

/// The remainder is exact where the quotient is (models/DEVIATIONS.md).
void forget_large_quotients(const GraphCase& graph, const std::vector<double>& wanted,
                            std::vector<double>& found) {
  const std::vector<float>& x = graph.arguments[0].numbers;
  for (std::size_t k = 0; k < found.size(); ++k) {
    if (!(std::fabs(x[k / 16] / x[k % 16]) < 8388608.0F)) found[k] = wanted[k];
  }
}

TEST(JaxGraphs, SpecialNumbersBecomeWhatXlaMakesOfThem) {
  const Judge judge("edges");
  for (const Edge& edge : kEdges) judge.add(edge.name, edge_case(edge));
  const int code = judge.run();
  if (code == kNoJax) GTEST_SKIP() << judge.log();
  ASSERT_EQ(code, 0) << judge.log();
  for (const Edge& edge : kEdges) {
    SCOPED_TRACE(edge.name);
    const GraphCase graph = edge_case(edge);
    const std::vector<compiler::HostArray> judged = judge.results(edge.name, graph.module);
    ASSERT_FALSE(judged.empty()) << judge.error(edge.name);
    const std::vector<double> wanted = numbers_of(judged[0]);
    const auto reference = interpret(graph.module, graph.arguments);
    EXPECT_EQ(differences(graph, numbers_of(reference[0]), wanted), "") << "the reference";
    CoreArguments arguments;
    for (const reference::Value& value : graph.arguments) {
      arguments.parameters.push_back(reference::to_bytes(value));
    }
    const CompiledRun run = run_compiled(graph.module, {arguments});
    std::vector<double> found = numbers_of(run.outputs[0][0]);
    if (edge.name == std::string("remainder")) forget_large_quotients(graph, wanted, found);
    EXPECT_EQ(differences(graph, found, wanted), "") << "compiled";
  }
}

}  // namespace
}  // namespace tpu::test::jax_graphs_test
