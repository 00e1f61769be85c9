#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "isa/instruction.h"
#include "models/origin.h"
#include "models/step_state.h"

namespace tpu {

/// The contents of one core's half of the HBM: pages of 64 granules of 1 KiB that come into being
/// when they are written, with a bit per granule that was written. What is unknown or zero from the
/// start takes no words, where what is unknown comes from is kept by range. No timing.
class MemoryImage {
 public:
  static constexpr std::uint64_t kGranuleWords = isa::kHbmGranuleBytes / 4;

  void write(std::uint64_t granule, const std::uint32_t* words, std::uint64_t granules);
  /// Loads words from the start of a granule; the rest of the last granule becomes zero.
  void load(std::uint64_t granule, const std::vector<std::uint32_t>& words);
  /// Granules that are zeros until somebody writes them.
  void zero(std::uint64_t granule, std::uint64_t granules);
  /// Copies granules; returns the first one that was never written, if any (its words stay as they
  /// were).
  std::optional<std::uint64_t> read(std::uint64_t granule, std::uint32_t* words,
                                    std::uint64_t granules) const;

  // For runs with values off, where some of what is written is unknown.

  /// Writes granules whose contents are known, with their origin.
  void write(std::uint64_t granule, const std::uint32_t* words, std::uint64_t granules,
             Origin origin);
  /// The granules hold something unknown from now on.
  void forget(std::uint64_t granule, std::uint64_t granules, Origin why = Origin::nobody());
  /// Granules of an input of some core, by name: their words take no place, and nobody is asked for
  /// them before one of them is looked up.
  struct InputPart {
    const MemoryImage* owner = nullptr;  ///< Its contents say what the input holds.
    std::uint32_t buffer = 0;
    std::uint64_t first = 0;  ///< Granule of the buffer.
    std::uint64_t granules = 0;
  };
  /// Until somebody writes them the granules hold what `contents` says of the buffer, and zeros
  /// behind it; it is asked when one of them is looked up.
  void assume(std::uint64_t granule, std::uint64_t granules, std::uint32_t buffer);
  /// A copy of an input arrives at a granule.
  void hold(std::uint64_t granule, const InputPart& part);
  /// From a granule on, what is an input as it was or a copy of one.
  std::optional<InputPart> input_at(std::uint64_t granule) const;
  /// The granules that assume() named hold that again; of what else is unknown nobody is the
  /// source.
  void begin_step();
  /// What is known; of the words only how often any of them changed.
  void describe(StepState& state) const;
  using Contents = std::function<const std::vector<std::uint32_t>&(std::uint32_t buffer)>;
  void set_contents(Contents contents) { contents_ = std::move(contents); }
  /// Copies a granule when it is known; its origin.
  Origin look_up(std::uint64_t granule, std::uint32_t* words) const;
  bool written(std::uint64_t granule) const;
  /// Whether anything may be known between two granules.
  bool any_known(std::uint64_t begin, std::uint64_t end) const;
  /// Bytes of the host that the words take.
  std::uint64_t bytes() const { return pages_.size() * kPageGranules * isa::kHbmGranuleBytes; }

 private:
  static constexpr std::uint64_t kPageGranules = 64;
  struct Page {
    std::unique_ptr<std::uint32_t[]> words;
    std::uint64_t written = 0;
  };
  /// What has another origin than plain data; ranges lie apart, neighbours differ.
  struct Marked {
    std::uint64_t end = 0;
    Origin origin;
  };
  static std::uint64_t bits(std::uint64_t first, std::uint64_t count);
  void drop_words(std::uint64_t granule, std::uint64_t granules);
  void drop_inputs(std::uint64_t begin, std::uint64_t end);
  void mark(std::uint64_t begin, std::uint64_t end, Origin origin);
  Origin origin_of(std::uint64_t granule) const;
  bool zero_at_start(std::uint64_t begin, std::uint64_t end) const;
  /// Whether a granule holds words, or zeros as at the start; copies them.
  bool copy(std::uint64_t granule, std::uint32_t* words) const;

  std::map<std::uint64_t, Page> pages_;
  std::uint64_t changes_ = 0;                     ///< Of words, and of which there are.
  std::map<std::uint64_t, Marked> marked_;        ///< By first granule.
  std::map<std::uint64_t, std::uint64_t> zeros_;  ///< End by first granule; apart from each other.
  std::map<std::uint64_t, InputPart> inputs_;     ///< By first granule; apart from each other.
  std::map<std::uint64_t, InputPart> assumed_;    ///< Those that are there when a step begins.
  Contents contents_;
};

}  // namespace tpu
