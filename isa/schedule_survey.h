#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "isa/opcode_table.h"
#include "isa/program.h"

namespace tpu::isa {

/// What kind of distance a schedule keeps.
enum class DistanceKind : std::uint8_t {
  kRegister,  ///< From the writer of a register to a reader.
  kQueue,     ///< From a push to its pop.
  kInterval,  ///< From an instruction to the next that the same part of a unit takes.
};
const char* to_string(DistanceKind kind);

/// The smallest distance, in cycles, between two instructions over all code that was surveyed.
struct Distance {
  DistanceKind kind = DistanceKind::kRegister;
  Opcode first = Opcode::kSmov;
  Opcode second = Opcode::kSmov;
  std::uint32_t table = 0;  ///< What the opcode table asks for.
  std::uint32_t smallest = 0;
  std::uint64_t at_smallest = 0;  ///< How often it was as small as that.
  std::uint64_t all = 0;
  std::string where;  ///< One place with the smallest: file or kernel, bundle.

  /// Nearer than the table allows, and nothing holds the reader back.
  bool early() const {
    const bool held = kind == DistanceKind::kRegister && is_interlocked(first);
    return smallest < table && !held;
  }
};

/// Holds the opcode table's latencies against schedules. A statically scheduled program states what
/// its compiler believes of the machine: no instruction may stand nearer to the one whose result it
/// needs than the table says, and where many stand exactly so near, the table is right.
///
/// Code is walked in the order of the listing, through branches that are not taken, and behind each
/// branch from its target for as long as a result can be on its way. Guards are taken to hold. Pops
/// find their push by the compiler's name, or else in order.
class ScheduleSurvey {
 public:
  explicit ScheduleSurvey(const Latencies& latencies = {}) : latencies_(latencies) {}

  /// `where` names the kernel in Distance::where.
  void add(const Kernel& kernel, const std::string& where);

  std::uint64_t bundles() const { return bundles_; }
  /// By kind, then opcodes.
  std::vector<Distance> distances() const;

 private:
  struct Event {
    std::uint64_t cycle = 0;
    Opcode opcode = Opcode::kCount;  ///< kCount: none yet.
    std::uint32_t name = 0;
    std::uint32_t results = 1;  ///< Of a push, that are still to pop.
    bool popped = false;        ///< Of a push: its first result.
  };
  static constexpr std::size_t kRegisters =
      kScalarRegisters + kVectorRegisters + kPredicateRegisters + kMaskRegisters;
  /// What a walk remembers.
  struct Walk {
    std::array<Event, kRegisters> writers;
    std::array<std::deque<Event>, static_cast<std::size_t>(Queue::kCount) * kMaxUnits> queues;
    std::map<std::tuple<Slot, UnitKind, bool, std::uint8_t>, Event> last;
    std::uint64_t now = 0;
  };

  void walk(const Kernel& kernel, std::uint32_t first, Walk state, std::uint64_t until, bool all);
  void issue(const Kernel& kernel, std::uint32_t bundle, Walk& state);
  void read(const Kernel& kernel, std::uint32_t instruction, const Walk& state);
  void use_queue(const Kernel& kernel, std::uint32_t instruction, Walk& state);
  void keep_interval(const Instruction& in, Walk& state);
  void note(DistanceKind kind, const Event& first, Opcode second, std::uint32_t table,
            std::uint64_t now);

  Latencies latencies_;
  std::map<std::tuple<DistanceKind, Opcode, Opcode>, Distance> distances_;
  std::uint64_t bundles_ = 0;
  const std::string* where_ = nullptr;
  std::uint32_t bundle_ = 0;
};

}  // namespace tpu::isa
