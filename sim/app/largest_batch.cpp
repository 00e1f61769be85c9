#include "sim/app/largest_batch.h"

namespace tpu::app {

std::string largest_batch_text(std::int64_t batch, std::uint32_t cores,
                               const std::function<bool(std::int64_t)>& fits) {
  std::int64_t too_large = batch;
  std::int64_t found = batch / 2;
  while (found > 0 && !fits(found)) {
    too_large = found;
    found /= 2;
  }
  if (found == 0) {
    return "Not even one example per core fits; make the model smaller or use more cores.";
  }
  while (too_large - found > 1) {
    const std::int64_t middle = found + (too_large - found) / 2;
    (fits(middle) ? found : too_large) = middle;
  }
  return "The largest batch that fits is " + std::to_string(found) + " per core: --batch " +
         std::to_string(found * cores) + ".";
}

}  // namespace tpu::app
