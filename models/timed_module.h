#pragma once

#define SC_INCLUDE_DYNAMIC_PROCESSES
#include <cstdint>
#include <exception>
#include <systemc>

#include "models/params.h"

namespace tpu {

/// In which order modules act in a cycle, so that no result depends on the order in which the
/// SystemC kernel happens to call them: what arrives, what the cores do, and last what they and the
/// memories have sent, when all of it is known.
enum class Phase : std::uint8_t { kHost, kArrivals, kMemory, kCores, kDepartures };

/// The last core cycle that a run may reach: all engines count this far without an overflow.
constexpr std::uint64_t kLongestRun = std::uint64_t{1} << 60;

/// What all modules of a run share: the first failure, after which nothing happens any more and the
/// kernel runs dry; and when the last core has finished, where the kernel pauses. The unit of the
/// kernel's time stands for a phase of a core cycle: 64 bits of it are 77 years at 940 MHz.
struct RunClock {
  static constexpr std::uint64_t kPhases = 8;
  std::exception_ptr failure;
  std::uint64_t events = 0;
  std::size_t running = 0;  ///< Cores that have not finished.
};

/// A SystemC module with one method and one event: it runs when its engine has something to do and
/// says when that will be again.
class TimedModule : public sc_core::sc_module {
 public:
  TimedModule(const sc_core::sc_module_name& name, RunClock& clock, Phase phase);

 protected:
  /// Does what is due at now().
  virtual void tick() = 0;

  std::uint64_t now() const { return sc_core::sc_time_stamp().value() / RunClock::kPhases; }
  /// How far the present cycle has come.
  Phase phase() const {
    return static_cast<Phase>(sc_core::sc_time_stamp().value() % RunClock::kPhases);
  }
  /// tick() runs in that cycle in the module's phase, or earlier when an earlier wake-up is
  /// pending; at once when the phase of the present cycle is over.
  void wake_at(std::uint64_t cycle) { wake_at(cycle, phase_); }
  void wake_at(std::uint64_t cycle, Phase phase);
  /// tick() runs in this cycle, after everything that is happening now.
  void wake_soon() { event_.notify(sc_core::SC_ZERO_TIME); }
  /// No module acts before or in this module's phase of a cycle to come, as long as this one does
  /// nothing that others notice.
  bool quiet_until(std::uint64_t cycle) const;
  bool failed() const { return clock_.failure != nullptr; }
  /// A core begins, and has finished: behind the last one the kernel pauses, for the accounts.
  void begin_to_run() { ++clock_.running; }
  void end_to_run() {
    if (--clock_.running == 0) sc_core::sc_pause();
  }
  /// Runs `work` and keeps its exception as the failure of the run.
  template <class Work>
  void guarded(const Work& work) {
    if (failed()) return;
    try {
      work();
    } catch (...) {
      clock_.failure = std::current_exception();
    }
  }

 private:
  RunClock& clock_;
  const Phase phase_;
  sc_core::sc_event event_;
};

}  // namespace tpu
