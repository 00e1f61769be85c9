#include "workloads/compiler/codegen/spill.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <vector>

namespace tpu::compiler {

namespace {

using isa::Opcode;

constexpr std::uint32_t kRowsOfRegister = 8;

class Spiller {
 public:
  Spiller(KernelDraft& draft, std::uint32_t block, RegisterFile file, SpillSpace& space)
      : draft_(draft), block_(block), file_(file), space_(space) {}

  bool run(std::uint32_t most) {
    find_readers();
    choose(most);
    if (spilled_.empty()) return false;
    const std::uint64_t rows = spilled_.size() * std::uint64_t{kRowsOfRegister};
    if (space_.next_row + rows > space_.end_row) return false;
    rewrite();
    return true;
  }

 private:
  struct Readers {
    std::uint32_t defined = 0;
    std::vector<std::uint32_t> nodes;  ///< In order.
    bool may_wait = true;
  };
  struct Waiting {
    std::uint32_t from = 0;  ///< The node behind which readers load it.
    std::uint32_t row = 0;
    std::uint32_t region = 0;
  };

  std::vector<Node>& nodes() { return draft_.blocks[block_].nodes; }

  void find_readers() {
    const Block& block = draft_.blocks[block_];
    for (std::uint32_t i = 0; i < block.nodes.size(); ++i) {
      for (const Source& source : block.nodes[i].sources) {
        const auto found = source.is_value() ? readers_.find(source.payload) : readers_.end();
        if (found == readers_.end()) continue;
        std::vector<std::uint32_t>& nodes = found->second.nodes;
        if (nodes.empty() || nodes.back() != i) nodes.push_back(i);
      }
      const std::uint32_t made = block.nodes[i].dest;
      if (made == 0 || draft_.values[made].file != file_) continue;
      readers_[made].defined = i;
      readers_[made].may_wait = draft_.values[made].fixed == isa::kNoRegister;
    }
    for (const auto& [variable, value] : block.assigned) {
      const auto found = readers_.find(value);
      if (found != readers_.end()) found->second.may_wait = false;
    }
  }

  /// Walks in program order; a value lives from its definition to its last reader.
  void choose(std::uint32_t most) {
    const auto count = static_cast<std::uint32_t>(nodes().size());
    std::set<std::uint32_t> live;
    for (std::uint32_t i = 0; i < count; ++i) {
      for (auto value = live.begin(); value != live.end();) {
        value = readers_[*value].nodes.back() <= i ? live.erase(value) : std::next(value);
      }
      const std::uint32_t made = nodes()[i].dest;
      const auto found = readers_.find(made);
      if (found == readers_.end() || found->second.nodes.empty()) continue;
      live.insert(made);
      while (live.size() > most) {
        const std::uint32_t victim = farthest(live, i);
        if (victim == 0) break;
        spilled_[victim] = {i, 0, 0};
        live.erase(victim);
      }
    }
  }

  /// The value of these whose next reader behind a node is the farthest; 0: none may wait.
  std::uint32_t farthest(const std::set<std::uint32_t>& live, std::uint32_t node) {
    std::uint32_t best = 0, distance = 0;
    for (const std::uint32_t value : live) {
      const Readers& readers = readers_[value];
      const auto next = std::upper_bound(readers.nodes.begin(), readers.nodes.end(), node);
      if (!readers.may_wait || next == readers.nodes.end() || *next <= distance) continue;
      distance = *next;
      best = value;
    }
    return best;
  }

  std::uint32_t new_value(RegisterFile file) {
    ValueInfo info;
    info.file = file;
    info.block = block_;
    draft_.values.push_back(info);
    return static_cast<std::uint32_t>(draft_.values.size() - 1);
  }

  Node access(Opcode opcode, const Waiting& waiting) const {
    Node made;
    made.opcode = opcode;
    made.region = waiting.region;
    made.address.offset = static_cast<std::int32_t>(waiting.row);
    return made;
  }

  void store(std::uint32_t value, Waiting& waiting) {
    waiting.row = static_cast<std::uint32_t>(space_.next_row);
    waiting.region = space_.next_region++;
    space_.next_row += kRowsOfRegister;
    if (file_ == RegisterFile::kMask) {
      Node select;
      select.opcode = Opcode::kVsel;
      select.sources = {
          Source::of_value(value), Source::of_immediate(1), Source::of_immediate(0), {}};
      value = select.dest = new_value(RegisterFile::kVector);
      made_.push_back(select);
    }
    Node write = access(Opcode::kVst, waiting);
    write.sources[0] = Source::of_value(value);
    made_.push_back(write);
  }

  std::uint32_t load(const Waiting& waiting) {
    Node read = access(Opcode::kVld, waiting);
    read.dest = new_value(RegisterFile::kVector);
    made_.push_back(read);
    if (file_ != RegisterFile::kMask) return read.dest;
    Node compare;
    compare.opcode = Opcode::kVcmpNeS32;
    compare.sources = {Source::of_value(read.dest), Source::of_immediate(0), {}, {}};
    compare.dest = new_value(RegisterFile::kMask);
    made_.push_back(compare);
    return compare.dest;
  }

  void rewrite() {
    const std::vector<Node> old = std::move(nodes());
    made_.clear();
    for (std::uint32_t i = 0; i < old.size(); ++i) {
      Node node = old[i];
      std::unordered_map<std::uint32_t, std::uint32_t> loaded;
      for (Source& source : node.sources) {
        const auto found = source.is_value() ? spilled_.find(source.payload) : spilled_.end();
        if (found == spilled_.end() || i <= found->second.from) continue;
        std::uint32_t& value = loaded[source.payload];
        if (value == 0) value = load(found->second);
        source.payload = value;
      }
      made_.push_back(node);
      const auto found = spilled_.find(node.dest);
      if (node.dest != 0 && found != spilled_.end()) store(node.dest, found->second);
    }
    nodes() = std::move(made_);
  }

  KernelDraft& draft_;
  std::uint32_t block_;
  RegisterFile file_;
  SpillSpace& space_;
  std::unordered_map<std::uint32_t, Readers> readers_;
  std::unordered_map<std::uint32_t, Waiting> spilled_;
  std::vector<Node> made_;
};

}  // namespace

bool spill(KernelDraft& draft, std::uint32_t block, RegisterFile file, std::uint32_t most,
           SpillSpace& space) {
  if (file != RegisterFile::kMask && file != RegisterFile::kVector) return false;
  return Spiller(draft, block, file, space).run(most);
}

}  // namespace tpu::compiler
