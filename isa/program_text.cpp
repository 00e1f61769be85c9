#include "isa/program_text.h"

#include <algorithm>
#include <charconv>
#include <ostream>

#include "isa/assembler.h"
#include "isa/disassembler.h"
#include "isa/generation.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

struct RoleWord {
  BufferRole role;
  std::string_view word;
};
constexpr RoleWord kRoles[] = {{BufferRole::kParameter, "parameter"},
                               {BufferRole::kOutput, "output"},
                               {BufferRole::kTemporary, "temporary"},
                               {BufferRole::kConstant, "constant"},
                               {BufferRole::kInfeed, "infeed"}};

bool is_numbered(BufferRole role) {
  return role == BufferRole::kParameter || role == BufferRole::kOutput ||
         role == BufferRole::kInfeed;
}

std::uint64_t size_in(AssemblerCursor& cursor, const char* expected) {
  return static_cast<std::uint64_t>(cursor.whole_number(expected));
}

bool is_of(const CodeConventions& a, const CodeConventions& b) {
  return a.granule_bytes == b.granule_bytes && a.weights_in_order == b.weights_in_order &&
         a.interlocked == b.interlocked && a.smem_bytes == b.smem_bytes &&
         a.hexadecimal_patterns == b.hexadecimal_patterns && a.xlus == b.xlus &&
         a.third_core_is_first == b.third_core_is_first;
}

}  // namespace

bool ProgramText::take() {
  const std::string_view word = cursor_.peek_word();
  for (const RoleWord& role : kRoles) {
    if (word != role.word) continue;
    cursor_.word();
    buffer(role.role);
    return true;
  }
  const auto is = [&](std::string_view wanted) {
    if (word != wanted) return false;
    cursor_.word();
    return true;
  };
  if (is("chip")) {
    chip();
  } else if (is("conventions")) {
    conventions();
  } else if (is("cores")) {
    program_.cores = cursor_.integer("a number of cores");
  } else if (is("examples")) {
    program_.examples_per_core = size_in(cursor_, "a number of examples");
  } else if (is("infeed_bytes")) {
    program_.infeed_bytes = size_in(cursor_, "a number of bytes");
  } else if (is("infeed_host_bytes")) {
    program_.infeed_host_bytes = size_in(cursor_, "a number of bytes");
  } else if (is("smem")) {
    smem();
  } else if (is("site")) {
    site();
  } else {
    return false;
  }
  return true;
}

void ProgramText::chip() {
  const char* const begin = cursor_.next();
  program_.chip = std::string(cursor_.word());
  if (find_generation(program_.chip) != nullptr) return;
  cursor_.refuse_at(
      begin, "expected " + generation_names() + ", found \"" + program_.chip.substr(0, 40) + "\"");
}

void ProgramText::conventions() {
  if (program_.chip.empty()) cursor_.fail("a statement \"chip\" before the conventions");
  if (cursor_.peek_word() != "xla") cursor_.fail("xla");
  cursor_.word();
  program_.conventions = generation(program_.chip).listings;
}

void ProgramText::smem() {
  const std::uint32_t word = cursor_.integer("a word of SMEM");
  cursor_.expect("=");
  program_.initial_smem.push_back({word, cursor_.integer("the value of the word")});
}

void ProgramText::site() {
  const char* const begin = cursor_.next();
  const std::uint32_t number = cursor_.integer("the number of a call site");
  if (number != sites_.size()) {
    cursor_.refuse_at(begin, "expected call site " + std::to_string(sites_.size()) + ", found " +
                                 std::to_string(number));
  }
  cursor_.expect("calls");
  Site site;
  site.place = cursor_.next();
  site.kernel = cursor_.name("the name or number of a kernel");
  if (cursor_.peek_word() == "opening") {
    cursor_.word();
    const char* const opened = cursor_.next();
    site.opens = cursor_.integer("the number of a call site");
    if (site.opens >= number || sites_[site.opens].opens != CallSite::kOpensNothing) {
      cursor_.refuse_at(opened, "expected a call site before this one that opens no other, found " +
                                    std::to_string(site.opens));
    }
  } else if (cursor_.peek_word() == "as") {
    cursor_.word();
    site.op = cursor_.name("the name of an operation");
  }
  sites_.push_back(site);
}

void ProgramText::buffer(BufferRole role) {
  const char* const begin = cursor_.next();
  Buffer buffer;
  buffer.role = role;
  buffer.index = cursor_.integer("the number of the buffer");
  for (const Buffer& other : program_.buffers) {
    if (!is_numbered(role) || other.role != role || other.index != buffer.index) continue;
    cursor_.refuse_at(begin, "expected another number, found that of \"" + other.name + "\"");
  }
  buffer.name = cursor_.name("the name of the buffer");
  size(buffer);
  cursor_.expect("at");
  buffer.granule = cursor_.integer("a granule of the HBM");
  if (cursor_.peek_word() == "zeroed") {
    cursor_.word();
    buffer.zeroed = true;
  }
  if (cursor_.take("=")) contents(buffer);
  program_.buffers.push_back(std::move(buffer));
}

/// A shape, bytes, or both.
void ProgramText::size(Buffer& buffer) {
  const char* const begin = cursor_.next();
  if (cursor_.peek_word() != "bytes") {
    buffer.shape = cursor_.take_while([](char c) { return c > ' '; });
    try {
      const ArraySize size = size_of_(buffer.shape);
      buffer.bytes = size.padded;
      buffer.unpadded_bytes = size.unpadded;
    } catch (const UserError& problem) {
      cursor_.refuse_at(begin, std::string("expected a shape with its layout, such as "
                                           "f32[8,128]{1,0:T(8,128)}: ") +
                                   problem.what());
    }
    if (cursor_.peek_word() != "bytes") return;
  }
  cursor_.word();
  buffer.bytes = size_in(cursor_, "a number of bytes");
  if (buffer.shape.empty()) buffer.unpadded_bytes = buffer.bytes;
}

void ProgramText::contents(Buffer& buffer) {
  cursor_.expect("{");
  if (cursor_.take("}")) return;
  do {
    if (buffer.data.size() * 4 >= buffer.bytes) {
      cursor_.fail("at most " + std::to_string(buffer.bytes / 4) + " words");
    }
    buffer.data.push_back(cursor_.number("a word", true));
  } while (cursor_.take(","));
  cursor_.expect("}");
}

std::uint32_t ProgramText::called(const Site& site) const {
  std::uint32_t number = 0;
  const char* const end = site.kernel.data() + site.kernel.size();
  const auto parsed = std::from_chars(site.kernel.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end) {
    if (number < program_.kernels.size()) return number;
  } else {
    for (number = 0; number < program_.kernels.size(); ++number) {
      if (program_.kernels[number].name == site.kernel) return number;
    }
  }
  cursor_.refuse_at(site.place,
                    "expected a kernel of this text, found \"" + site.kernel.substr(0, 40) + "\"");
}

Program ProgramText::finish(std::vector<Kernel> kernels) {
  program_.kernels = std::move(kernels);
  if (sites_.empty()) {
    for (std::size_t k = 0; k < program_.kernels.size(); ++k) {
      Site site;
      site.kernel = std::to_string(k);
      sites_.push_back(site);
    }
  }
  for (const Site& site : sites_) {
    const std::uint32_t kernel = called(site);
    if (site.opens != CallSite::kOpensNothing) {
      program_.call_sites.push_back({kernel, program_.call_sites[site.opens].op, {}, site.opens});
      continue;
    }
    OpInfo op;
    op.name = site.op.empty() ? program_.kernels[kernel].name : site.op;
    op.category = "assembled";
    CallSite call;
    call.kernel = kernel;
    call.op = static_cast<std::uint32_t>(program_.ops.size());
    program_.call_sites.push_back(call);
    program_.ops.push_back(op);
  }
  return std::move(program_);
}

namespace {

void print_contents(std::ostream& out, const std::vector<std::uint32_t>& words) {
  constexpr std::size_t kWordsPerLine = 8;
  out << " = {";
  for (std::size_t i = 0; i < words.size(); ++i) {
    out << (i == 0 ? "" : ",") << (i % kWordsPerLine == 0 ? "\n    " : " ") << words[i];
  }
  out << "\n}";
}

void print_buffer(std::ostream& out, const Buffer& buffer) {
  const auto role = std::find_if(std::begin(kRoles), std::end(kRoles),
                                 [&](const RoleWord& word) { return word.role == buffer.role; });
  out << role->word << " " << buffer.index << " "
      << quoted_name(buffer.name.empty() ? std::string(role->word) : buffer.name);
  if (!buffer.shape.empty()) out << " " << buffer.shape;
  out << " bytes " << buffer.bytes << " at " << buffer.granule;
  if (buffer.zeroed) out << " zeroed";
  if (!buffer.data.empty()) print_contents(out, buffer.data);
  out << "\n";
}

}  // namespace

void print_program(std::ostream& out, const Program& program) {
  out << "chip " << program.chip << "\n";
  if (!is_of(program.conventions, {})) out << "conventions xla\n";
  out << "cores " << program.cores << "\n";
  if (program.examples_per_core != 0) out << "examples " << program.examples_per_core << "\n";
  if (program.infeed_bytes != 0) out << "infeed_bytes " << program.infeed_bytes << "\n";
  if (program.infeed_host_bytes != 0) {
    out << "infeed_host_bytes " << program.infeed_host_bytes << "\n";
  }
  for (const auto& [word, value] : program.initial_smem) {
    out << "smem " << word << " = " << value << "\n";
  }
  for (std::size_t site = 0; site < program.call_sites.size(); ++site) {
    const CallSite& call = program.call_sites[site];
    out << "site " << site << " calls " << call.kernel;
    const std::string& op = program.ops[call.op].name;
    if (call.is_opening()) {
      out << " opening " << call.opens;
    } else if (!op.empty()) {
      out << " as " << quoted_name(op);
    }
    out << "\n";
  }
  for (const Buffer& buffer : program.buffers) print_buffer(out, buffer);
  print_kernels(out, program.kernels);
}

}  // namespace tpu::isa
