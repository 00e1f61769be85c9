// The reference interpreter and the compiler against XLA on the CPU, as JAX calls it: random
// graphs, and what integers, NaN and indices out of bounds become. TPUSIM_JAX_PYTHON is a Python
// that has jax (python3); without one the tests are skipped.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "tests/compiler/graph_check.h"
#include "tests/compiler/random_graph.h"
#include "traces/npz.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test {
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
      : folder_(std::filesystem::path(testing::TempDir()) / ("tpusim_judge_" + name)) {
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

/// What is wrong with the reference's results beside XLA's; empty where nothing is.
std::string difference(const GraphCase& graph, const std::vector<compiler::HostArray>& found) {
  using namespace graph_check_detail;
  const auto wanted = interpret(graph.module, graph.arguments, 1, false);
  std::vector<std::vector<reference::Value>> others;
  std::string message;
  for (std::uint32_t trial = 0; trial < kTrials; ++trial) {
    others.push_back(disturbed(graph, trial));
    message = compare(wanted, others, found, has_bf16(graph.module) ? kRoundingOfBf16 : kRounding);
    if (message.empty()) break;
  }
  return message;
}

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
    const std::string message = difference(graph, found);
    EXPECT_TRUE(message.empty()) << name << ", XLA beside the reference: " << message << "\n"
                                 << hlo::to_string(graph.module);
  }
}

}  // namespace
}  // namespace tpu::test
