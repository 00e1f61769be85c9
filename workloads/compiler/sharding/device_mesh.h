#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tpu::compiler {

/// A digit of a device's number: `size` values, `stride` apart.
struct DeviceDigit {
  std::int64_t size = 1, stride = 1;
};

/// Axes of a mesh by their number, the major one first.
using Axes = std::vector<int>;

/// The devices of a partitioned program, counted along axes of prime extent. Axis 0 is the major
/// one: a device's number is written with its coordinates as digits. Every annotation cuts arrays
/// along some of these axes.
class DeviceMesh {
 public:
  /// The coarsest mesh of prime axes in which each digit is a product of axes. Throws WorkloadError
  /// where digits overlap (6 devices as 2x3 and as 3x2).
  DeviceMesh(std::int64_t devices, const std::vector<DeviceDigit>& digits);

  std::int64_t devices() const { return devices_; }
  const DeviceDigit& axis(int number) const { return axes_[static_cast<std::size_t>(number)]; }
  /// The axes that make up a digit.
  Axes axes_of(const DeviceDigit& digit) const;
  /// Product of the sizes.
  std::int64_t extent(const Axes& axes) const;
  /// The coordinates of a device along the axes as one number.
  std::int64_t index(std::int64_t device, const Axes& axes) const;
  /// Devices that differ in these axes only, in the order of their index.
  std::vector<std::vector<std::int64_t>> groups(const Axes& axes) const;
  /// The axes as few digits, the major one first.
  std::vector<DeviceDigit> digits(const Axes& axes) const;

 private:
  std::int64_t devices_ = 1;
  std::vector<DeviceDigit> axes_;
};

/// How an array lies on the devices: the axes along which each dimension is cut. Along axes that
/// are not mentioned all devices hold the same.
struct Sharding {
  std::vector<Axes> dimensions;

  explicit Sharding(std::size_t rank = 0) : dimensions(rank) {}
  bool uses(int axis) const;
  friend bool operator==(const Sharding& a, const Sharding& b) {
    return a.dimensions == b.dimensions;
  }
};

/// Whether the first axes of `all` are `first`.
bool begins_with(const Axes& all, const Axes& first);

/// Extents of the part of an array that a device holds.
std::vector<std::int64_t> local_extents(const DeviceMesh& mesh, const Sharding& sharding,
                                        std::vector<std::int64_t> extents);

}  // namespace tpu::compiler
