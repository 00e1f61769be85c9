#pragma once

#include <string>

namespace tpu::app {

/// A script that completes commands, their options, workloads, machines and the parameters of
/// `--set` in bash, and in zsh behind `bashcompinit`. It asks nothing at run time: all words are
/// those of this version.
std::string completion_script();

}  // namespace tpu::app
