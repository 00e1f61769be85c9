#pragma once

#define SC_INCLUDE_DYNAMIC_PROCESSES
#include <cstdint>
#include <exception>
#include <systemc>

#include "models/params.h"

namespace tpu {

/// What all modules of a run share: the clock, and the first failure, after which nothing happens
/// any more and the kernel runs dry.
struct RunClock {
  /// A core cycle in femtoseconds of the SystemC kernel, rounded: all engines count in core cycles,
  /// so the rounding never adds up.
  std::uint64_t femtoseconds = 1;
  std::exception_ptr failure;
  std::uint64_t events = 0;

  explicit RunClock(const MachineParams& params)
      : femtoseconds((1000000000 + params.clock_mhz / 2) / params.clock_mhz) {}
};

/// A SystemC module with one method and one event: it runs when its engine has something to do and
/// says when that will be again.
class TimedModule : public sc_core::sc_module {
 public:
  TimedModule(const sc_core::sc_module_name& name, RunClock& clock);

 protected:
  /// Does what is due at now().
  virtual void tick() = 0;

  std::uint64_t now() const { return sc_core::sc_time_stamp().value() / clock_.femtoseconds; }
  /// tick() runs at that cycle, or earlier when an earlier wake-up is pending.
  void wake_at(std::uint64_t cycle);
  /// tick() runs in this cycle, after everything that is happening now.
  void wake_soon() { event_.notify(sc_core::SC_ZERO_TIME); }
  bool failed() const { return clock_.failure != nullptr; }
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
  sc_core::sc_event event_;
};

}  // namespace tpu
