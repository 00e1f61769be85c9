#pragma once

#include <string_view>

namespace tpu::report {

/// The text of `report_page.html`, put into the program by CMake. The data go in the place of the
/// word RUN_DATA.
std::string_view report_page();

}  // namespace tpu::report
