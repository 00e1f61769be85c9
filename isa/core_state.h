#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "isa/meaning.h"
#include "isa/mxu_state.h"
#include "isa/opcode_table.h"
#include "isa/random_generator.h"

namespace tpu::isa {

/// What a load finds in a row of VMEM that nothing wrote: a NaN that shows in every result made of
/// it. No fault: XLA's kernels load such rows and drop them (the padding of a tile, windows at the
/// edge of an image).
constexpr std::uint32_t kUnwrittenWord = 0x7fc0dead;

/// Vector memory: rows of 128 words in one flat array, and which of them were ever written. Pages
/// that nobody touches take no memory of the host.
class Vmem {
 public:
  explicit Vmem(std::uint32_t rows);

  std::uint32_t rows() const { return static_cast<std::uint32_t>(written_.size()); }
  std::uint32_t* row(std::uint32_t index) { return words_.get() + std::size_t{index} * kLanes; }
  const std::uint32_t* row(std::uint32_t index) const {
    return words_.get() + std::size_t{index} * kLanes;
  }
  /// For DMAs and tests that write through row(): from `first`, `count` rows.
  void mark_written(std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) written_[first + i] = 1;
  }
  bool is_written(std::uint32_t index) const { return written_[index] != 0; }

 private:
  struct Free {
    void operator()(std::uint32_t* words) const { std::free(words); }
  };
  std::unique_ptr<std::uint32_t[], Free> words_;
  std::vector<std::uint8_t> written_;
};

/// Storage for vector registers and queue elements, by number: a result is computed where it stays,
/// writes and pops move numbers.
class VectorPool {
 public:
  using Index = std::uint32_t;
  Index take();
  void give_back(Index index) { free_.push_back(index); }
  VectorRegister& operator[](Index index) { return *storage_[index]; }
  const VectorRegister& operator[](Index index) const { return *storage_[index]; }

 private:
  std::vector<std::unique_ptr<VectorRegister>> storage_;
  std::vector<Index> free_;
};

/// A result on its way to a pop, with the name of its push (name_check.h).
struct QueuedVector {
  VectorPool::Index index = 0;
  std::uint64_t name = 0;
};
using VectorQueue = std::deque<QueuedVector>;

/// The transpose, reduce and permute unit.
struct XluState {
  VectorQueue results;     ///< Reductions, rotations, permutations.
  VectorQueue transposed;  ///< Blocks of eight rows.
  VectorRegister pattern;  ///< Of vperm.
  std::uint64_t pattern_name = 0;
  std::vector<VectorRegister> collected;  ///< Pushes of the unfinished transpose.
};

/// What the values of a core depend on in the machine.
struct CoreShape {
  std::uint32_t mxus = 2;
  std::uint32_t mxu_rows = 128;
  std::uint32_t mxu_columns = 128;
  std::uint32_t xlus = 1;
  std::uint32_t vmem_rows = 16 * 1024 * 1024 / kVmemRowBytes;
  std::uint32_t smem_words = 4096;
  std::uint32_t cmem_rows = 0;
  bool weights_in_order = false;  ///< CodeConventions
};

/// Under which name each register was last written (0: none); only for XLA's code.
struct RegisterNames {
  std::array<std::uint64_t, kScalarRegisters> s{};
  std::array<std::uint64_t, kVectorRegisters> v{};
  std::array<std::uint64_t, kPredicateRegisters> p{};
  std::array<std::uint64_t, kMaskRegisters> m{};
};

/// The writes of the bundle that executes: they wait until all its instructions have read.
struct PendingWrites {
  struct Scalar {
    ScalarWrite write;
    std::uint64_t name;
  };
  struct Vector {
    std::uint8_t reg;
    VectorPool::Index index;
    std::uint64_t name;
  };
  struct Mask {
    std::uint8_t reg;
    VectorMask mask;
    std::uint64_t name;
  };
  std::vector<Scalar> scalars;
  std::vector<Vector> vectors;
  std::vector<Mask> masks;

  void clear() {
    scalars.clear();
    vectors.clear();
    masks.clear();
  }
};

/// Immediates as vectors: the same few appear over and over.
class ImmediateVectors {
 public:
  /// Begins a bundle: what it asked for stays until the next.
  void begin_bundle() { ++bundle_; }
  const VectorRegister& get(std::uint32_t value);

 private:
  struct Entry {
    std::uint32_t value = 0;
    std::uint64_t bundle = 0;  ///< That asked last; 0: empty.
    std::unique_ptr<VectorRegister> vector;
  };
  static constexpr std::size_t kEntries = 16;  ///< More only when one bundle needs them.
  std::vector<Entry> entries_;
  std::uint64_t bundle_ = 0;
};

/// Everything that the instructions of one core read and write, with values. It knows no time: a
/// push appends its result at once, and the machine decides when a pop may take it.
class CoreState {
 public:
  explicit CoreState(const CoreShape& shape);

  const CoreShape& shape() const { return shape_; }
  const VectorRegister& vector(int reg) const { return pool[vectors[reg]]; }
  VectorRegister& vector(int reg) { return pool[vectors[reg]]; }

  ScalarState scalar;
  Vmem vmem;
  Vmem cmem;  ///< Has the same rows.
  VectorPool pool;
  std::array<VectorPool::Index, kVectorRegisters> vectors{};
  std::array<VectorMask, kMaskRegisters> masks{};
  /// Index address registers: one row offset per sublane.
  std::array<std::array<std::int32_t, kSublanes>, kMaxUnits> index_offsets{};
  std::vector<MxuState> mxus;
  std::vector<std::vector<VectorQueue>> mxu_results;  ///< By array and column part.
  VectorQueue eup;
  VectorQueue cmem_loads;
  std::vector<XluState> xlus;
  RandomGenerator random;
  RegisterNames names;
  PendingWrites pending;
  ImmediateVectors immediates;
  /// Masks of packed rows that differ in the rows of a sublane: `masks` holds the even ones.
  std::array<VectorMask, kMaskRegisters> odd_rows{};
  std::uint32_t has_odd_rows = 0;  ///< A bit for each register.
  std::vector<PendingWrites::Mask> pending_odd_rows;

 private:
  CoreShape shape_;
};

}  // namespace tpu::isa
