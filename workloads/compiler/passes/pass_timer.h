#pragma once

#include <ctime>
#include <string>

#include "workloads/compiler/compiler.h"

namespace tpu::compiler {

/// Adds the CPU seconds of its life to a report, under the name of a pass.
class PassTimer {
 public:
  PassTimer(CompileReport* report, std::string name)
      : report_(report), name_(std::move(name)), begin_(std::clock()) {}
  ~PassTimer() {
    if (report_ == nullptr) return;
    const double seconds = static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC;
    report_->passes.push_back({name_, seconds});
  }
  PassTimer(const PassTimer&) = delete;
  PassTimer& operator=(const PassTimer&) = delete;

 private:
  CompileReport* report_;
  std::string name_;
  std::clock_t begin_;
};

}  // namespace tpu::compiler
