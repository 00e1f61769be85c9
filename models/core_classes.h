#pragma once

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tpu {

/// The cores of a run in classes. Cores of a class have been in the same state in every cycle so
/// far, but for scalar values that follow from where they stand (ScalarLanes): the first of them,
/// the representative, is simulated, and what it does all of them do. Where members would receive
/// or do different things (MembersDiffer), the class is split and the run begins again, until no
/// member differs: then every core has taken the cycles that it takes by itself.
class CoreClasses {
 public:
  using Members = std::vector<std::uint32_t>;  ///< Core numbers, the representative first.

  /// `cores`: the numbers of those that run, out of `count`; `alike`: all of them as one class,
  /// else each by itself.
  CoreClasses(const std::vector<std::uint32_t>& cores, std::uint32_t count, bool alike);

  std::size_t size() const { return classes_.size(); }
  const Members& members(std::size_t of_class) const { return classes_[of_class]; }
  /// The class of a core that runs.
  std::uint32_t class_of(std::uint32_t core) const { return class_of_[core]; }
  /// The place of a core among the members of its class.
  std::uint32_t place_of(std::uint32_t core) const { return place_of_[core]; }
  std::uint32_t representative_of(std::uint32_t core) const {
    return classes_[class_of_[core]].front();
  }
  bool runs(std::uint32_t core) const {
    return core < class_of_.size() && class_of_[core] != kNone;
  }
  /// Some class has several members.
  bool folded() const { return folded_; }

  /// Members of a class with the same key stay together. Keys in the order of members().
  void split(std::uint32_t of_class, const std::vector<std::uint64_t>& keys);

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  void number();

  std::vector<Members> classes_;
  std::vector<std::uint32_t> class_of_;  ///< By core number.
  std::vector<std::uint32_t> place_of_;
  bool folded_ = false;
};

/// Members of a class would receive or do different things from here on.
class MembersDiffer : public std::runtime_error {
 public:
  MembersDiffer(const char* in_what, std::uint32_t of_class, std::vector<std::uint64_t> keys)
      : std::runtime_error(in_what), of_class_(of_class), keys_(std::move(keys)) {}
  std::uint32_t of_class() const { return of_class_; }
  const std::vector<std::uint64_t>& keys() const { return keys_; }

 private:
  std::uint32_t of_class_;
  std::vector<std::uint64_t> keys_;
};

/// Throws MembersDiffer unless all keys are equal.
inline void require_alike(const char* in_what, std::uint32_t of_class,
                          const std::vector<std::uint64_t>& keys) {
  for (const std::uint64_t key : keys) {
    if (key != keys.front()) throw MembersDiffer(in_what, of_class, keys);
  }
}

}  // namespace tpu
