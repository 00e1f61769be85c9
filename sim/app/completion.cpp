#include "sim/app/completion.h"

#include <vector>

#include "sim/app/command_options.h"
#include "sim/config/configuration.h"
#include "sim/config/scenario.h"
#include "workloads/frontend/zoo.h"

namespace tpu::app {
namespace {

std::string joined(const std::vector<std::string>& words, const std::string& ending = "") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word + ending;
  return text;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(command.name);
  return names;
}

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const frontend::WorkloadInfo& info : frontend::workload_list()) {
    names.push_back(std::string(info.name));
  }
  return names;
}

/// The options of each command, and what its argument may be beside a file.
std::string cases_of_commands() {
  std::string text;
  for (const Command& command : commands()) {
    std::vector<std::string> words;
    const auto options = options_of(command);
    for (const auto& option : options.options()) {
      words.push_back("--" + option->long_name());
    }
    const std::string input = command.input;
    if (input.find("WORKLOAD") != std::string::npos) words.push_back(joined(workload_names()));
    if (input.find("CONFIG") != std::string::npos)
      words.push_back(joined(config::built_in_names()));
    if (input.rfind("[plan", 0) == 0) words.push_back("plan run status merge");
    text += std::string("    ") + command.name + ") words='" + joined(words) + "' ;;\n";
  }
  return text;
}

}  // namespace

std::string completion_script() {
  return "# tpusim completion > ~/.local/share/bash-completion/completions/tpusim\n"
         "_tpusim() {\n"
         "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
         "  if ((COMP_CWORD == 1)); then\n"
         "    COMPREPLY=($(compgen -W 'help " +
         joined(command_names()) +
         "' -- \"$current\"))\n"
         "    return\n"
         "  fi\n"
         "  case $before in\n"
         "    --config|--configs) words='" +
         joined(config::built_in_names()) +
         "' ;;\n"
         "    --scenario) words='" +
         joined(config::built_in_scenarios()) +
         "' ;;\n"
         "    --set) compopt -o nospace 2>/dev/null; words='" +
         joined(config::setting_names(), "=") +
         "' ;;\n"
         "    *) case ${COMP_WORDS[1]} in\n" +
         cases_of_commands() +
         "    esac ;;\n"
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\") $(compgen -f -- \"$current\"))\n"
         "}\n"
         "complete -o filenames -F _tpusim tpusim\n";
}

}  // namespace tpu::app
