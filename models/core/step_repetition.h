#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "models/exact_account.h"
#include "models/machine.h"
#include "models/step_state.h"

namespace tpu {

/// Finds steps that repeat: at the end of a step the machine is as it was at the end of an earlier
/// one, relative to the cycle and with the phase of the refresh, so what lies between comes again
/// and again until the last step. The run then ends after as many steps as are left over when whole
/// periods are taken out, and the periods are added to its result (with_periods()).
///
/// Several cores end a step in cycles of their own. What they are like then, and when, is a state
/// of the machine as long as nothing passes from one side of this line to the other: from the first
/// end to the last one, no core in its next step sends or receives anything and no core in its last
/// one deals with the host. So hosts are described when the first core ends, the interconnect, on
/// which nothing may be on its way, when the last one does.
class StepRepetition {
 public:
  /// `cores`: that are simulated; `looks`: whether it looks for a repetition at all.
  StepRepetition(std::uint32_t steps, std::size_t cores, bool looks)
      : steps_(steps), looks_(looks), cores_(cores) {}

  using Describe = std::function<void(StepState& state)>;
  void set_parts(Describe hosts, Describe network) {
    hosts_ = std::move(hosts);
    network_ = std::move(network);
  }

  struct Found {
    std::uint32_t first = 0;   ///< Steps that have ended where the period begins, from 1.
    std::uint32_t period = 0;  ///< In steps.
    std::uint64_t times = 0;   ///< That it is taken out.
  };

  bool looks() const { return looks_ && !found_; }
  /// A core, by its place among those that are simulated, has ended so many steps that count, and
  /// another one follows.
  void end_step(std::size_t core, std::uint32_t ended, const StepState& state);
  /// A core that has ended so many steps sends or receives over the interconnect, or deals with its
  /// host.
  void network_contact(std::uint32_t ended) {
    if (ended != 0 && ended == ending_.step) ending_.is_complete = false;
  }
  void host_contact(std::uint32_t ended) {
    if (ended < ending_.step) ending_.is_complete = false;
  }
  /// Steps to run.
  std::uint32_t steps() const { return steps_; }
  const std::optional<Found>& found() const { return found_; }

 private:
  /// Numbers of all states that are kept; then no more are.
  static constexpr std::size_t kMostWords = std::size_t{1} << 24;
  using Words = std::vector<std::uint64_t>;

  /// The step that some cores have ended and others have not.
  struct Ending {
    std::uint32_t step = 0;  ///< 0: there is none.
    bool is_complete = true;
    std::uint64_t begin = 0;  ///< When the first core ended it.
    std::size_t cores = 0;    ///< That have.
    std::vector<Words> of_cores;
    Words hosts;
  };

  void begin_ending(std::uint32_t step, std::uint64_t now);
  void look_for(Words state, std::uint32_t ended);

  std::uint32_t steps_;
  bool looks_;
  std::size_t cores_;
  Describe hosts_, network_;
  Ending ending_;
  std::size_t words_ = 0;
  std::map<Words, std::uint32_t> states_;  ///< By what they are: how many steps had ended.
  std::optional<Found> found_;
};

/// The result of all steps: `longer` with the periods taken out, of which `shorter` holds one less.
/// What happened in a period is what they differ in.
/// `first_alike`: of each core the first one of which what it did is the same.
RunResult with_periods(RunResult longer, const RunResult& shorter,
                       const StepRepetition::Found& found,
                       const std::vector<std::size_t>& first_alike);
ExactAccounts with_periods(ExactAccounts longer, const ExactAccounts& shorter, std::uint64_t times);

}  // namespace tpu
