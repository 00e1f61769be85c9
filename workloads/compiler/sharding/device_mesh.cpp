#include "workloads/compiler/sharding/device_mesh.h"

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/error.h"

namespace tpu::compiler {

namespace {

std::int64_t smallest_factor(std::int64_t value) {
  for (std::int64_t factor = 2; factor * factor <= value; ++factor) {
    if (value % factor == 0) return factor;
  }
  return value;
}

}  // namespace

DeviceMesh::DeviceMesh(std::int64_t devices, const std::vector<DeviceDigit>& digits)
    : devices_(devices) {
  std::set<std::int64_t> cuts{1, devices};
  for (const DeviceDigit& digit : digits) {
    if (digit.size == 1) continue;
    cuts.insert(digit.stride);
    cuts.insert(digit.stride * digit.size);
  }
  std::int64_t stride = 1;
  for (std::int64_t cut : cuts) {
    if (cut % stride != 0 || devices % cut != 0) {
      throw WorkloadError("expected shardings that count " + std::to_string(devices) +
                          " devices along one mesh, found some that cut them at multiples of " +
                          std::to_string(stride) + " and of " + std::to_string(cut) +
                          "; use one mesh for all arrays");
    }
    while (stride < cut) {
      const std::int64_t size = smallest_factor(cut / stride);
      axes_.insert(axes_.begin(), {size, stride});
      stride *= size;
    }
  }
}

Axes DeviceMesh::axes_of(const DeviceDigit& digit) const {
  Axes result;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].stride >= digit.stride && axes_[i].stride < digit.stride * digit.size) {
      result.push_back(static_cast<int>(i));
    }
  }
  return result;
}

std::int64_t DeviceMesh::extent(const Axes& axes) const {
  std::int64_t product = 1;
  for (int number : axes) product *= axis(number).size;
  return product;
}

std::int64_t DeviceMesh::index(std::int64_t device, const Axes& axes) const {
  std::int64_t result = 0;
  for (int number : axes) {
    result = result * axis(number).size + device / axis(number).stride % axis(number).size;
  }
  return result;
}

std::vector<std::vector<std::int64_t>> DeviceMesh::groups(const Axes& axes) const {
  std::map<std::int64_t, std::vector<std::int64_t>> by_rest;
  const auto members = static_cast<std::size_t>(extent(axes));
  for (std::int64_t device = 0; device < devices_; ++device) {
    std::int64_t first = device;
    for (int number : axes) {
      const DeviceDigit& a = axis(number);
      first -= device / a.stride % a.size * a.stride;
    }
    std::vector<std::int64_t>& group = by_rest[first];
    group.resize(members);
    group[static_cast<std::size_t>(index(device, axes))] = device;
  }
  std::vector<std::vector<std::int64_t>> result;
  result.reserve(by_rest.size());
  for (auto& [first, group] : by_rest) result.push_back(std::move(group));
  return result;
}

std::vector<DeviceDigit> DeviceMesh::digits(const Axes& axes) const {
  std::vector<DeviceDigit> result;
  for (int number : axes) {
    const DeviceDigit& next = axis(number);
    if (!result.empty() && result.back().stride == next.stride * next.size) {
      result.back() = {result.back().size * next.size, next.stride};
    } else {
      result.push_back(next);
    }
  }
  return result;
}

bool Sharding::uses(int axis) const {
  return std::any_of(dimensions.begin(), dimensions.end(), [axis](const Axes& axes) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  });
}

bool begins_with(const Axes& all, const Axes& first) {
  return all.size() >= first.size() && std::equal(first.begin(), first.end(), all.begin());
}

std::vector<std::int64_t> local_extents(const DeviceMesh& mesh, const Sharding& sharding,
                                        std::vector<std::int64_t> extents) {
  for (std::size_t d = 0; d < extents.size() && d < sharding.dimensions.size(); ++d) {
    extents[d] /= mesh.extent(sharding.dimensions[d]);
  }
  return extents;
}

}  // namespace tpu::compiler
