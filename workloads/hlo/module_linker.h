#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "workloads/graph/graph.h"
#include "workloads/hlo/attribute_reader.h"
#include "workloads/hlo/hlo_cursor.h"

namespace tpu::hlo {

/// A computation as its text is read. An operand or called computation whose name is not known yet
/// stands as -1 until the whole module is read; so does the shape of an instruction that states
/// none, as type kCount.
struct ComputationText {
  /// The name of an operand, and where its instruction has it.
  struct Operand {
    InstructionId user = -1;
    std::size_t place = 0;
    std::string_view name;
    const char* at = nullptr;
  };
  struct Call {
    InstructionId user = -1;
    std::size_t place = 0;
    std::string_view name;
  };
  struct Predecessor {
    InstructionId user = -1;
    std::string_view name;
  };
  /// An instruction whose shape its operands imply.
  struct Unshaped {
    InstructionId instruction = -1;
    const char* at = nullptr;
  };

  const char* begin = nullptr;  ///< Of its body in the text.
  Computation computation;
  std::unordered_map<std::string_view, InstructionId> by_name;
  std::vector<Operand> operands;
  std::vector<Call> calls;
  std::vector<Predecessor> predecessors;
  std::vector<Unshaped> unshaped;

  bool is_complete() const { return operands.empty() && calls.empty() && predecessors.empty(); }
};

/// Turns what was read into a module: gives computations without a name one, resolves names, puts
/// operands before their users, infers shapes that the text leaves out; refuses names that nothing
/// has, cycles and recursion.
class ModuleLinker {
 public:
  ModuleLinker(const HloCursor& cursor, Module& module,
               const std::unordered_map<std::string_view, ComputationId>& by_name)
      : cursor_(cursor), module_(module), by_name_(by_name) {}

  void link(std::vector<ComputationText> computations);

 private:
  void name_computations();
  void resolve(ComputationText& text, Computation& computation);
  void sort(ComputationText& text, Computation& computation);
  std::vector<ComputationId> callees_first() const;
  void infer_shapes(const std::vector<ComputationText>& texts,
                    const std::vector<ComputationId>& order);

  const HloCursor& cursor_;
  Module& module_;
  const std::unordered_map<std::string_view, ComputationId>& by_name_;
};

}  // namespace tpu::hlo
