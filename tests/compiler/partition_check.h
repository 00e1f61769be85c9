#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/compiler/run_compiled.h"
#include "workloads/compiler/passes/expand/custom_calls.h"
#include "workloads/compiler/passes/simplify/simplify.h"
#include "workloads/compiler/sharding/partition.h"
#include "workloads/graph/graph.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/reference/interpreter.h"

namespace tpu::test {

/// Copies a device's part out of a whole array, or back into it.
inline void copy_part(const compiler::ArrayParts& parts, std::size_t device,
                      reference::Value& whole, reference::Value& part, bool out) {
  const std::vector<std::int64_t> strides = reference::strides_of(parts.whole.dimensions);
  std::int64_t begin = 0;
  for (std::size_t d = 0; d < strides.size(); ++d) begin += parts.starts[device][d] * strides[d];
  reference::Index index(parts.part);
  for (std::size_t i = 0; i < part.size(); ++i, index.next()) {
    const auto at = static_cast<std::size_t>(begin + index.offset(strides));
    const auto copy = [&](auto& from_whole, auto& of_part) {
      if (from_whole.empty()) return;
      (out ? of_part[i] : from_whole[at]) = out ? from_whole[at] : of_part[i];
    };
    copy(whole.numbers, part.numbers);
    copy(whole.integers, part.integers);
  }
}

inline std::vector<reference::Value> leaves_of(reference::Value value) {
  if (value.shape.is_tuple()) return std::move(value.elements);
  std::vector<reference::Value> one;
  one.push_back(std::move(value));
  return one;
}

/// The module as a program of one device: annotations say nothing.
inline std::vector<reference::Value> run_whole(hlo::Module module,
                                               std::vector<reference::Value> arguments) {
  module.replicas = module.partitions = 1;
  compiler::resolve_custom_calls(module);
  return leaves_of(reference::Interpreter(module).run(std::move(arguments)));
}

/// The parts of the arguments that each device gets.
inline std::vector<std::vector<reference::Value>> hand_out(
    const std::vector<compiler::ArrayParts>& parameters, std::vector<reference::Value>& arguments,
    std::size_t devices) {
  std::vector<std::vector<reference::Value>> parts(devices);
  for (std::size_t device = 0; device < devices; ++device) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const hlo::Shape shape = hlo::array_shape(arguments[i].shape.type, parameters[i].part);
      parts[device].push_back(reference::make_value(shape));
      copy_part(parameters[i], device, arguments[i], parts[device].back(), true);
    }
  }
  return parts;
}

/// Runs the program of each device in the reference interpreter; every device's part of every
/// result has to be that of the module as a program of one device.
inline void check_partitioned(const hlo::Module& module, std::vector<reference::Value> arguments,
                              std::size_t devices, double tolerance = 1e-4) {
  std::vector<reference::Value> wanted = run_whole(module, arguments);
  const compiler::PartitionedModule made =
      compiler::partition(module, static_cast<std::int64_t>(devices));
  std::vector<reference::Value> found =
      reference::Interpreter(made.module)
          .run_replicas(hand_out(made.parameters, arguments, devices));
  for (std::size_t device = 0; device < devices; ++device) {
    std::vector<reference::Value> parts = leaves_of(std::move(found[device]));
    ASSERT_EQ(parts.size(), wanted.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      reference::Value expected = reference::make_value(parts[i].shape);
      ASSERT_EQ(parts[i].shape.dimensions, made.results[i].part) << "result " << i;
      copy_part(made.results[i], device, wanted[i], expected, true);
      EXPECT_LE(distance(numbers_of(parts[i]), numbers_of(expected)),
                expected.integers.empty() ? tolerance : 0)
          << "result " << i << " of device " << device << ", " << to_string(parts[i].shape, false);
    }
  }
}

}  // namespace tpu::test
