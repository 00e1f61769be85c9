#include "models/deadlock.h"

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

namespace tpu {
namespace {

constexpr std::uint64_t kBlocksAhead = 100000;

/// "Core B would raise core A's flag, at this place, if it did not wait."
struct Edge {
  std::size_t raiser = 0;  ///< Index of B.
  std::string where;
};

std::string describe_wait(const Core& core, Sequencer& sequencer) {
  const SyncFlags::Wait& wait = core.flags().wait();
  std::ostringstream text;
  text << "  " << sequencer.where() << ": waits until sync flag " << wait.flag << " is at least "
       << static_cast<std::int32_t>(wait.wanted) << ", it is "
       << static_cast<std::int32_t>(core.flags().value(wait.flag));
  const std::vector<std::string> outstanding = core.outstanding(wait.flag);
  if (outstanding.empty()) text << "; nothing is on its way to it";
  for (const std::string& dma : outstanding) text << "; on its way: " << dma;
  text << "\n    " << sequencer.code() << "\n";
  return text.str();
}

/// For each waiting core who would raise its flag.
std::vector<std::vector<Edge>> find_edges(const MachineParams& params,
                                          const std::vector<Core*>& waiting) {
  std::vector<std::vector<Edge>> edges(waiting.size());
  std::vector<std::uint32_t> flags;
  flags.reserve(waiting.size());
  for (const Core* core : waiting) flags.push_back(core->flags().wait().flag);
  for (std::size_t b = 0; b < waiting.size(); ++b) {
    std::vector<bool> known(waiting.size(), false);
    for (const Sequencer::FlagAddition& addition :
         waiting[b]->sequencer().look_ahead(kBlocksAhead)) {
      for (std::size_t a = 0; a < waiting.size(); ++a) {
        const std::uint32_t number = addition.chip * params.cores_per_chip + addition.core;
        if (known[a] || waiting[a]->number() != number || addition.flag != flags[a]) continue;
        known[a] = true;
        edges[a].push_back({b, addition.where});
      }
    }
  }
  return edges;
}

/// A cycle of waiters as indices, in the order "waits for"; empty when there is none.
std::vector<std::size_t> find_cycle(const std::vector<std::vector<Edge>>& edges) {
  for (std::size_t start = 0; start < edges.size(); ++start) {
    std::vector<std::size_t> path{start};
    while (path.size() <= edges.size() && !edges[path.back()].empty()) {
      const std::size_t next = edges[path.back()].front().raiser;
      const auto seen = std::find(path.begin(), path.end(), next);
      if (seen != path.end()) return {seen, path.end()};
      path.push_back(next);
    }
  }
  return {};
}

}  // namespace

std::string describe_deadlock(const MachineParams& params, const std::vector<Core*>& cores) {
  std::vector<Core*> waiting;
  for (Core* core : cores) {
    if (!core->finished()) waiting.push_back(core);
  }
  std::ostringstream text;
  text << "deadlock: " << waiting.size() << " of " << cores.size()
       << " cores wait for a sync flag that nothing will raise\n";
  for (Core* core : waiting) text << describe_wait(*core, core->sequencer());
  const std::vector<std::vector<Edge>> edges = find_edges(params, waiting);
  const std::vector<std::size_t> cycle = find_cycle(edges);
  if (cycle.empty()) {
    text << "  no waiting core's code that could be followed raises these flags later";
    return text.str();
  }
  text << "  cycle of waiters: core " << waiting[cycle[0]]->number();
  for (std::size_t a : cycle) {
    text << " waits for core " << waiting[edges[a].front().raiser]->number();
  }
  for (std::size_t a : cycle) {
    const Edge& edge = edges[a].front();
    text << "\n    core " << waiting[a]->number() << " waits for core "
         << waiting[edge.raiser]->number() << ", which would raise the flag at " << edge.where
         << " if it did not wait itself";
  }
  return text.str();
}

}  // namespace tpu
