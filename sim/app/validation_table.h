#pragma once

#include <iostream>
#include <string>

#include "sim/app/validate.h"

namespace tpu::app {

/// The table of `tpusim validate`: a line for each program as it ends, then the errors over all
/// rows and over the kept ones.
class ValidationTable {
 public:
  /// `json`: where the report goes; it may take stdout.
  explicit ValidationTable(const std::string& json) : out_(json == "-" ? std::cerr : std::cout) {}

  void print_header(std::uint32_t phases) const;
  void print_row(const ValidatedProgram& program) const;
  void print_summaries(const ValidatedFolder& folder) const;

 private:
  void print_errors(const std::string& name, const ErrorSummary& all,
                    const ErrorSummary& kept) const;
  void print_tilings(const ValidatedTilings& tilings) const;

  std::ostream& out_;
};

/// The same as JSON, to a file or stdout ("-").
void write_validation_json(const std::string& path, const ValidatedFolder& folder);

}  // namespace tpu::app
