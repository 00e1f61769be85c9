#pragma once

#include <string_view>
#include <vector>

namespace tpu::report {

/// A file of the folder `published`, which the build puts into the program.
struct PublishedText {
  std::string_view name;  ///< Without its ending.
  std::string_view text;
};
const std::vector<PublishedText>& published_texts();

}  // namespace tpu::report
