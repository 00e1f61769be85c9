#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tpu {

/// Why a unit cannot take an instruction in this cycle: the core has no interlock, so each of these
/// is a fault of the program.
struct Hazard {
  enum class Kind : std::uint8_t {
    kNone,
    kRegisterEarly,  ///< A register is read before its producer's latency has passed.
    kWeightsEarly,   ///< A matmul overtakes the loading of the weights that it swaps in.
    kPushEarly,      ///< A push before the unit's interval has passed.
    kPopEarly,       ///< A pop before the unit's interval has passed.
    kResultEarly,    ///< A pop before the oldest result is ready.
    kQueueEmpty,     ///< A pop of a result that nothing will produce.
    kQueueFull,      ///< A push whose result has no place in the queue.
    kNoSuchUnit      ///< The machine has fewer units of this kind.
  };
  Kind kind = Kind::kNone;
  std::uint64_t ready = 0;  ///< The first cycle in which it would have been right; for kQueueFull
                            ///< and kNoSuchUnit the number of places or units.
  explicit operator bool() const { return kind != Kind::kNone; }
};

/// Writes the state of the units relative to a moment, and reads it back with that moment as cycle
/// 0: two states with the same words have the same future.
class StateWriter {
 public:
  explicit StateWriter(std::uint64_t now) : now_(now) { words_.reserve(64); }
  void count(std::size_t value) { words_.push_back(static_cast<std::uint32_t>(value)); }
  /// A cycle; what lies in the past is all the same.
  void cycle(std::uint64_t at) {
    words_.push_back(at > now_ ? static_cast<std::uint32_t>(at - now_) : 0);
  }
  std::vector<std::uint32_t> take() { return std::move(words_); }

 private:
  std::uint64_t now_;
  std::vector<std::uint32_t> words_;
};

class StateReader {
 public:
  explicit StateReader(const std::vector<std::uint32_t>& words) : next_(words.data()) {}
  std::uint32_t next() { return *next_++; }

 private:
  const std::uint32_t* next_;
};

/// The queue between the pushes into a unit and the pops out of it: results leave in order, each
/// not before its own cycle. A result takes its place when it is pushed.
class ResultQueue {
 public:
  explicit ResultQueue(std::uint32_t entries) : ready_(entries) {}

  Hazard push(std::uint64_t ready) {
    if (size_ == ready_.size()) return {Hazard::Kind::kQueueFull, ready_.size()};
    ready_[(first_ + size_) % ready_.size()] = ready;
    ++size_;
    return {};
  }
  Hazard pop(std::uint64_t now) {
    if (size_ == 0) return {Hazard::Kind::kQueueEmpty, 0};
    if (ready_[first_] > now) return {Hazard::Kind::kResultEarly, ready_[first_]};
    first_ = (first_ + 1) % ready_.size();
    --size_;
    return {};
  }
  std::size_t size() const { return size_; }

  void save(StateWriter& out) const {
    out.count(size_);
    for (std::size_t i = 0; i < size_; ++i) out.cycle(ready_[(first_ + i) % ready_.size()]);
  }
  void load(StateReader& in) {
    first_ = 0;
    size_ = in.next();
    for (std::size_t i = 0; i < size_; ++i) ready_[i] = in.next();
  }

 private:
  std::vector<std::uint64_t> ready_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace tpu
