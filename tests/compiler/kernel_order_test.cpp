#include "workloads/compiler/passes/fuse/kernel_order.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "sim/base/error.h"

namespace tpu::compiler::kernel_order_test {
namespace {

using Graph = std::vector<std::set<std::size_t>>;  // Sources of each kernel.

KernelOrder order_of(const Graph& graph) {
  return {graph.size(), [&graph](std::size_t kernel, std::vector<std::size_t>& sources) {
            sources.insert(sources.end(), graph[kernel].begin(), graph[kernel].end());
          }};
}

bool reaches(const Graph& graph, std::size_t from, std::size_t to) {
  for (std::size_t source : graph[to]) {
    if (source == from || reaches(graph, from, source)) return true;
  }
  return false;
}

bool reaches_around(const Graph& graph, std::size_t from, std::size_t to) {
  for (std::size_t source : graph[to]) {
    if (source != from && reaches(graph, from, source)) return true;
  }
  return false;
}

void join(Graph& graph, std::size_t into, std::size_t from) {
  graph[into].insert(graph[from].begin(), graph[from].end());
  graph[from].clear();
  for (std::set<std::size_t>& sources : graph) {
    if (sources.erase(from) != 0) sources.insert(into);
  }
  graph[into].erase(into);
}

TEST(KernelOrder, AReaderIsNotReachedAroundByTheValueItReadsAlone) {
  const Graph graph{{}, {0}, {0, 1}, {1}};
  KernelOrder order = order_of(graph);
  EXPECT_FALSE(order.has_path_around(0, 1));
  EXPECT_TRUE(order.has_path_around(0, 2));
  EXPECT_TRUE(order.has_path_around(0, 3));
  EXPECT_FALSE(order.has_path_around(1, 3));
  EXPECT_FALSE(order.has_path_around(3, 0));
}

TEST(KernelOrder, MergingKernelsWithAPathAroundIsABug) {
  const Graph graph{{}, {0}, {1}};
  KernelOrder order = order_of(graph);
  EXPECT_THROW(order.merge(2, 0), SimulatorBug);
}

TEST(KernelOrder, KnowsEveryPathOfARandomGraphWhileItsKernelsAreMerged) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 20; ++trial) {
    constexpr std::size_t kKernels = 14;
    Graph graph(kKernels);
    for (std::size_t kernel = 1; kernel < kKernels; ++kernel) {
      for (std::size_t n = random() % 3; n > 0; --n) graph[kernel].insert(random() % kernel);
    }
    KernelOrder order = order_of(graph);
    std::vector<bool> is_gone(kKernels, false);
    int merges = 0;
    for (int attempt = 0; attempt < 60; ++attempt) {
      const std::size_t a = random() % kKernels, b = random() % kKernels;
      if (a == b || is_gone[a] || is_gone[b]) continue;
      const bool around = reaches_around(graph, a, b);
      ASSERT_EQ(order.has_path_around(a, b), around) << "trial " << trial << ": " << a << " " << b;
      if (around || reaches_around(graph, b, a)) continue;
      order.merge(a, b);
      join(graph, a, b);
      is_gone[b] = true;
      ++merges;
    }
    EXPECT_GT(merges, 0);
  }
}

}  // namespace
}  // namespace tpu::compiler::kernel_order_test
