#include "workloads/compiler/passes/unique_names.h"

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tpu::compiler {

namespace {

void make_unique_in(hlo::Computation& computation) {
  std::unordered_set<std::string> taken;
  std::vector<hlo::HloInstruction*> twins;
  for (hlo::HloInstruction& instruction : computation.instructions) {
    if (!taken.insert(instruction.name).second) twins.push_back(&instruction);
  }
  std::unordered_map<std::string, int> next;
  for (hlo::HloInstruction* twin : twins) {
    int& number = next[twin->name];
    std::string name;
    do {
      name = twin->name + "." + std::to_string(++number);
    } while (!taken.insert(name).second);
    twin->name = std::move(name);
  }
}

}  // namespace

void make_names_unique(hlo::Module& module) {
  for (hlo::Computation& computation : module.computations) make_unique_in(computation);
}

}  // namespace tpu::compiler
