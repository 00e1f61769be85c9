// Random graphs, compiled and run on values, against the reference interpreter. By default about a
// hundred; TPUSIM_RANDOM_GRAPHS=N runs N of each kind from seed TPUSIM_RANDOM_SEED (0) on.

#include "tests/compiler/random_graph.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>

#include "tests/compiler/graph_check.h"

namespace tpu::test {
namespace {

std::uint32_t number_from(const char* variable, std::uint32_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

/// A refusal without what differs from case to case.
std::string kind_of(const std::string& message) {
  std::string kind;
  for (char c : message) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) kind += c;
  }
  return kind.substr(0, 160);
}

/// Every graph computes what the reference computes, and at most `most_refused` of a hundred have
/// an operation without a kernel.
void check_graphs(const GraphMix& mix, std::uint32_t count, std::uint32_t most_refused) {
  const std::uint32_t first = number_from("TPUSIM_RANDOM_SEED", 0);
  count = number_from("TPUSIM_RANDOM_GRAPHS", count);
  const bool tells = std::getenv("TPUSIM_RANDOM_GRAPHS") != nullptr;
  std::map<std::string, int> refusals;
  std::uint32_t refused = 0;
  for (std::uint32_t seed = first; seed < first + count; ++seed) {
    const GraphCase graph =
        case_of(RandomGraph(mix, seed).make(4 + static_cast<int>(seed % 9)), seed);
    const Verdict verdict = check_graph(graph);
    if (verdict.kind == Verdict::Kind::kRefused) {
      ++refused;
      if (refusals[kind_of(verdict.message)]++ == 0 && tells) {
        std::cout << mix.name << " " << seed << ": " << verdict.message << "\n";
      }
    }
    if (verdict.kind != Verdict::Kind::kWrong) continue;
    const GraphCase small = GraphShrinker(graph).run(300);
    ADD_FAILURE() << mix.name << " seed " << seed << ": " << verdict.message
                  << "\nshrunk: " << check_graph(small).message << "\n"
                  << hlo::to_string(small.module);
  }
  if (tells) std::cout << mix.name << ": " << refused << " of " << count << " refused\n";
  EXPECT_LE(refused * 100, most_refused * count) << refused << " refused of " << count;
}

TEST(RandomGraphs, ElementwiseOperationsAndReductions) {
  check_graphs({"expressions", 8, 3, 0, 0, 0, 0, 0}, 40, 0);
}

TEST(RandomGraphs, OperationsThatMoveElements) {
  check_graphs({"movement", 4, 1, 5, 0, 0, 0, 0}, 20, 50);
}

TEST(RandomGraphs, DotsAmongElementwiseOperations) {
  check_graphs({"dots", 6, 2, 1, 4, 0, 0, 0}, 20, 20);
}

TEST(RandomGraphs, ConvolutionsAndPooling) {
  check_graphs({"images", 5, 2, 0, 0, 3, 2, 0}, 15, 80);
}

TEST(RandomGraphs, RowsOfTables) { check_graphs({"rows", 5, 1, 1, 1, 0, 0, 3}, 10, 30); }

}  // namespace
}  // namespace tpu::test
