#include "workloads/graph/sharding_text.h"

namespace tpu::hlo {

std::string_view sharding_text(std::string_view raw_attributes) {
  constexpr std::string_view kName = "sharding={";
  std::size_t at = raw_attributes.find(kName);
  while (at != std::string_view::npos && at > 0 && raw_attributes[at - 1] != ' ') {
    at = raw_attributes.find(kName, at + 1);
  }
  if (at == std::string_view::npos) return {};
  const std::size_t begin = at + kName.size() - 1;
  int depth = 0;
  for (std::size_t end = begin; end < raw_attributes.size(); ++end) {
    if (raw_attributes[end] == '{') ++depth;
    if (raw_attributes[end] == '}' && --depth == 0) {
      return raw_attributes.substr(begin, end + 1 - begin);
    }
  }
  return {};
}

}  // namespace tpu::hlo
