#pragma once

#include <string>

#include "sim/report/text_layout.h"

namespace tpu::app {

/// How text for stdout is drawn.
///
/// Width: COLUMNS, else that of the terminal, from 40 to 140 columns; 110 where neither says.
/// Bars of block characters where the locale is UTF-8. Colour: `when` is "always", "never" or
/// "auto": on a terminal that is not "dumb", without NO_COLOR in the environment.
report::TextStyle text_style(const std::string& when);

/// The columns that COLUMNS or the terminal states, from 40 on; 0 where neither does: what goes
/// into a pipe or a file is not broken.
int stated_width();

}  // namespace tpu::app
