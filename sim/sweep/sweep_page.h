#pragma once

#include <string>
#include <string_view>

#include "sim/sweep/sweep_plan.h"
#include "traces/hdf5_file.h"

namespace tpu::sweep {

/// The page of this folder (`sweep_page.html`), without data.
std::string_view sweep_page();

/// A table as a page that loads nothing: any two figures against each other with their Pareto
/// front, the points to sort and filter.
std::string sweep_html(const Plan& plan, const traces::Table& table);

}  // namespace tpu::sweep
