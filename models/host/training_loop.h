#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tpu {

/// Where the time of a training goes. The first two are those of the device, the others keep it
/// waiting.
enum class TrainingCause : std::uint8_t {
  kSteps,     ///< Steps whose results count.
  kRepeated,  ///< Steps that were lost with a preempted job, and run again.
  kInput,     ///< The batch is not there yet.
  kCompile,   ///< XLA compiles a shape that is new to it.
  kLaunch,    ///< The host traces and launches, the device has nothing to do.
  kTransfer,  ///< The host copies the batch in its own thread.
  kReadback,  ///< item(), a loss that is printed: the host waits for the device and reads.
  kFallback,  ///< An operation on the host's CPU: device, host, device.
  kEvaluation,
  kCheckpoint,
  kRestart,  ///< From the preemption to the restored state.
};
constexpr std::size_t kTrainingCauses = static_cast<std::size_t>(TrainingCause::kRestart) + 1;
const char* to_string(TrainingCause cause);

/// A training, in cycles of the core clock and numbers of steps; 0 where there is no such event.
struct TrainingPlan {
  /// A step of one shape.
  struct Step {
    std::uint64_t cycles = 0;          ///< With its batch there.
    std::uint64_t input_cycles = 0;    ///< The input pipeline's for the batch, batches without gap.
    std::uint64_t compile_cycles = 0;  ///< Of its program.
  };
  Step full, ragged, evaluation;
  std::uint64_t epochs = 1;
  std::uint64_t steps_of_epoch = 1;      ///< Full ones.
  bool has_ragged = false;               ///< A smaller batch ends each epoch.
  std::uint64_t first_input_cycles = 0;  ///< In the epoch that fills a cache; 0: as the others.
  std::uint64_t first_batch_cycles = 0;  ///< From a pipeline's start to its first batch.
  std::uint64_t batches_ahead = 1;       ///< That the pipeline makes before they are asked for.

  std::uint64_t launch_cycles = 0;  ///< Of the host, for each launch.
  std::uint64_t steps_a_launch = 1;
  std::uint64_t launches_ahead = 0;  ///< While how many others run or wait; 0: one after the other.
  std::uint64_t transfer_cycles = 0;  ///< Of the host, for each step.
  std::uint64_t fallback_cycles = 0;  ///< Of each step.
  bool compile_is_cached = false;     ///< What was compiled once is not compiled again.

  std::uint64_t readback_every = 0, readback_cycles = 0;
  std::uint64_t evaluation_every = 0, evaluation_steps = 0;
  std::uint64_t checkpoint_every = 0, checkpoint_read_cycles = 0, checkpoint_write_cycles = 0;
  bool checkpoint_in_background = false;  ///< The write; the next one waits for it.
  std::uint64_t preempted_after = 0;      ///< Steps, once.
  std::uint64_t restart_cycles = 0;       ///< Until the job runs again, the state restored.
};

/// What a training took.
struct TrainingTime {
  std::uint64_t cycles = 0;
  std::uint64_t steps = 0;      ///< With those that ran twice.
  std::uint64_t simulated = 0;  ///< Of them, one by one.
  std::uint64_t compilations = 0, evaluations = 0, checkpoints = 0;
  std::array<std::uint64_t, kTrainingCauses> causes{};  ///< Add up to cycles.
  /// From the end of a step to the end of the next: how many took so many cycles.
  std::map<std::uint64_t, std::uint64_t> step_times;
};

/// The least time that no more than `percent` of the steps are beyond.
std::uint64_t percentile(const std::map<std::uint64_t, std::uint64_t>& times, double percent);

/// The host's loop around a device: it launches steps, waits for what it wants to see, compiles,
/// evaluates, saves; an input pipeline makes batches ahead. The host's thread, the device, the
/// pipeline and the writer of checkpoints each have a time from which on they are free, and a step
/// begins when its launch, its batch and the device are there.
///
/// What these times are relative to the end of a step, and which step of each period it is, decides
/// everything that follows. So where that is as it was some steps before, the steps between repeat:
/// they are counted as often as they fit in before the next event, or, found at an event, before
/// the end; the result is that of running all of them, to the cycle.
///
/// Left out: jitter of any kind; of hosts that differ all but the slowest; an evaluation's pipeline
/// competing with that of the training; transfers that slow each other down on PCIe.
class TrainingLoop {
 public:
  explicit TrainingLoop(const TrainingPlan& plan);
  /// Runs the training. Throws ConfigurationError where it lasts longer than times can hold, or
  /// where too many steps would have to be run one by one.
  /// `repetition`: whether steps that repeat are counted instead of run.
  TrainingTime run(bool repetition = true);

 private:
  using Key = std::vector<std::uint64_t>;
  /// A stretch of the host's thread.
  struct Work {
    TrainingCause cause;
    std::uint64_t begin, end;
  };
  /// Where a stretch that may repeat began.
  struct Mark {
    std::uint64_t step, now;
    TrainingTime counted;
    std::size_t samples;
  };

  std::uint64_t epoch_length() const { return plan_.steps_of_epoch + (plan_.has_ragged ? 1 : 0); }
  bool is_ragged(std::uint64_t step) const;
  std::uint64_t input_cycles(std::uint64_t batch) const;
  std::uint64_t to_next_event(std::uint64_t step) const;
  void start_pipeline(std::uint64_t now);
  void do_work(TrainingCause cause, std::uint64_t cycles);
  void launch(const TrainingPlan::Step& step);
  void run_step();
  void wait_until(std::uint64_t begin, std::uint64_t launched);
  void end_step(std::uint64_t cycles);
  bool handle_events();
  void evaluate();
  void save();
  void preempt();
  void compile(std::size_t shape, const TrainingPlan::Step& step);
  void sample(std::uint64_t cycles, std::uint64_t count);
  /// Which periods a stretch that repeats has to fill: none, those of events, the epoch, too.
  enum class Phases : std::uint8_t { kNone, kEvents, kAll };
  Key state(Phases phases) const;
  void skip(std::map<Key, Mark>& marks, Phases phases, std::uint64_t limit);
  void look_for_repetition(bool event);
  Mark mark() const;

  TrainingPlan plan_;
  std::uint64_t total_;  ///< Steps of the training.
  TrainingTime time_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>>
      samples_;                    ///< Cycles and how often, in order.
  std::uint64_t step_ = 0;         ///< Done, in the training.
  std::uint64_t saved_step_ = 0;   ///< Of the last checkpoint.
  std::uint64_t again_until_ = 0;  ///< Steps below it ran before.
  std::uint64_t now_ = 0;          ///< End of the last step.
  std::uint64_t host_ = 0;         ///< When its thread is free.
  std::uint64_t writer_ = 0;
  std::uint64_t left_ = 0;              ///< Steps of the launch that runs.
  std::uint64_t launched_ = 0;          ///< When it was there.
  std::uint64_t next_batch_ = 0;        ///< Number of the batch that the pipeline begins next.
  std::deque<std::uint64_t> made_;      ///< When each of the batches ahead is there.
  std::deque<std::uint64_t> launches_;  ///< Ends of the last ones, oldest first.
  std::vector<Work> work_;              ///< Of the host since the last launch.
  std::array<bool, 3> compiled_{};
  bool preempted_ = false;
  std::map<Key, Mark> plain_;    ///< Since the last event.
  std::map<Key, Mark> within_;   ///< At events since the epoch began.
  std::map<Key, Mark> between_;  ///< At the beginnings of epochs.
};

}  // namespace tpu
