#pragma once

#include <toml++/toml.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/built_in.h"

namespace tpu::config {

/// A kind of TOML files, in the words of its errors.
struct TomlKind {
  std::string_view noun;         ///< "configuration".
  std::string_view example_key;  ///< "hbm.pin_mbps".
  std::size_t most_bytes = std::size_t{1} << 20;
};

/// "my.toml:3:7".
std::string toml_place(const std::string& file, const toml::source_region& region);

/// What a value is: `the string "x"`, `5`, `a table`.
std::string described(const toml::node& node);

/// Whether a name is that of a file: it ends in ".toml".
bool is_toml_file_name(std::string_view name);

/// The text of a file; `where` stands in front of errors.
std::string read_toml_file(const TomlKind& kind, const std::string& file, const std::string& where);

/// Parses a text. Its keys have few parts: toml++ recurses into them. Throws ConfigurationError.
toml::table parse_toml(const TomlKind& kind, const std::string& text, const std::string& file);

/// Reads texts that may name others of their kind as bases (`base = "v3-8"`, `base = ["v3-8",
/// "mine.toml"]`): built-in names, or files relative to the one that names them. The bases are used
/// first, in their order, then the text itself.
class TomlWithBases {
 public:
  struct Library {
    TomlKind kind;
    const std::vector<BuiltInFile>& files;
    std::string_view folder;  ///< In front of the names of built-in files in errors.
    /// The names that a user may ask for, and those that a base may have.
    std::function<std::vector<std::string>(bool as_base)> names;
  };
  using Use = std::function<void(const toml::table& table, const std::string& text,
                                 const std::string& file)>;

  TomlWithBases(Library library, Use use) : library_(std::move(library)), use_(std::move(use)) {}

  /// Reads a built-in text, or a file whose name ends in ".toml".
  void read(const std::string& name_or_file) { read_named(name_or_file, "", ""); }
  void read_text(const std::string& text, const std::string& file);
  /// The files that were read, with the bases; none for built-in names.
  const std::vector<std::string>& files() const { return files_; }

 private:
  void read_named(const std::string& name, const std::string& from, const std::string& where);
  void read_bases(const toml::node& node, const std::string& file);

  Library library_;
  Use use_;
  std::vector<std::string> files_;
  std::vector<std::string> open_;  ///< That are being read, for cycles of bases.
  std::size_t texts_ = 0;          ///< That were begun.
};

}  // namespace tpu::config
