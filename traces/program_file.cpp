#include "traces/program_file.h"

#include <cstring>

#include "isa/generation.h"
#include "isa/kernel_encoding.h"
#include "sim/base/error.h"
#include "traces/hdf5_file.h"
#include "traces/program_tables.h"

namespace tpu::traces {
namespace {

const FileKind kProgramFile{"program", 6};

/// Words of several owners one behind the other, with the number of each owner's words.
class Words {
 public:
  void append(const std::vector<std::uint32_t>& words) {
    const std::size_t begin = bytes_.size();
    bytes_.resize(begin + words.size() * 4);
    if (!words.empty()) std::memcpy(bytes_.data() + begin, words.data(), words.size() * 4);
    counts_.push_back(words.size());
  }
  const std::vector<std::uint8_t>& bytes() const { return bytes_; }
  const std::vector<std::uint64_t>& counts() const { return counts_; }

 private:
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint64_t> counts_;
};

std::vector<std::vector<std::uint32_t>> split_words(const std::vector<std::uint8_t>& bytes,
                                                    const std::vector<std::uint64_t>& counts,
                                                    const std::string& where) {
  std::vector<std::vector<std::uint32_t>> lists;
  std::uint64_t at = 0;
  for (const std::uint64_t count : counts) {
    if (count > (bytes.size() - at) / 4) {
      throw WorkloadError(where + ": expected " + std::to_string(count) + " words, found " +
                          std::to_string((bytes.size() - at) / 4));
    }
    std::vector<std::uint32_t> words(count);
    if (count > 0) std::memcpy(words.data(), bytes.data() + at, count * 4);
    at += count * 4;
    lists.push_back(std::move(words));
  }
  if (at != bytes.size()) {
    throw WorkloadError(where + ": expected " + std::to_string(at) + " bytes, found " +
                        std::to_string(bytes.size()));
  }
  return lists;
}

/// The numbers of the program itself by name; `visit(name, number)`.
template <class Program, class Visitor>
void visit_program_numbers(Program& program, Visitor&& visit) {
  visit("examples_per_core", program.examples_per_core);
  visit("infeed_bytes", program.infeed_bytes);
  visit("infeed_host_bytes", program.infeed_host_bytes);
  visit("model_flops", program.model_flops);
  visit("data_dependent_control", program.data_dependent_control);
  visit("compulsory_hbm_bytes", program.compulsory_hbm_bytes);
  visit("hbm_peak_bytes", program.hbm_peak_bytes);
}

void add_call_sites(const std::vector<isa::CallSite>& sites, Hdf5Contents& contents) {
  contents.tables["call_sites"]
      .add("kernel", column_of<std::uint32_t>(sites, [](auto& s) { return s.kernel; }))
      .add("op", column_of<std::uint32_t>(sites, [](auto& s) { return s.op; }))
      .add("opens", column_of<std::uint32_t>(sites, [](auto& s) { return s.opens; }));
  std::vector<std::uint32_t> owner, reg, name;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    for (const auto& [operand_register, operand_name] : sites[i].operand_names) {
      owner.push_back(static_cast<std::uint32_t>(i));
      reg.push_back(operand_register);
      name.push_back(operand_name);
    }
  }
  contents.tables["call_operands"].add("call_site", owner).add("register", reg).add("name", name);
}

std::vector<isa::CallSite> call_sites_of(const Hdf5Contents& contents,
                                         const isa::Program& program) {
  const Table& table = contents.table("call_sites");
  std::vector<isa::CallSite> sites(table.rows());
  for (std::size_t i = 0; i < sites.size(); ++i) {
    sites[i].kernel = table.column<std::uint32_t>("kernel")[i];
    sites[i].op = table.column<std::uint32_t>("op")[i];
    sites[i].opens = table.column<std::uint32_t>("opens")[i];
    if (sites[i].is_opening() && sites[i].opens >= sites.size()) {
      throw WorkloadError(contents.file + ": call site " + std::to_string(i) +
                          ": expected to open one of " + std::to_string(sites.size()) +
                          " sites, found " + std::to_string(sites[i].opens));
    }
    if (sites[i].kernel >= program.kernels.size() || sites[i].op >= program.ops.size()) {
      throw WorkloadError(contents.file + ": call site " + std::to_string(i) +
                          ": expected one of " + std::to_string(program.kernels.size()) +
                          " kernels and " + std::to_string(program.ops.size()) +
                          " ops, found kernel " + std::to_string(sites[i].kernel) + " and op " +
                          std::to_string(sites[i].op));
    }
  }
  const Table& operands = contents.table("call_operands");
  for (std::size_t i = 0; i < operands.rows(); ++i) {
    const std::uint32_t site = operands.column<std::uint32_t>("call_site")[i];
    if (site >= sites.size()) {
      throw WorkloadError(contents.file + ": call_operands: no call site " + std::to_string(site));
    }
    sites[site].operand_names.emplace_back(
        static_cast<std::uint8_t>(operands.column<std::uint32_t>("register")[i]),
        operands.column<std::uint32_t>("name")[i]);
  }
  return sites;
}

}  // namespace

void write_program_file(const std::string& path, const isa::Program& program) {
  Hdf5Contents contents;
  contents.attributes = {
      {"name", program.name}, {"chip", program.chip}, {"compiler", program.compiler}};
  std::vector<std::string> names;
  std::vector<std::uint64_t> numbers;
  visit_program_numbers(program, [&](const char* name, std::uint64_t number) {
    names.emplace_back(name);
    numbers.push_back(number);
  });
  names.emplace_back("cores");
  numbers.push_back(program.cores);
  contents.tables["summary"].add("name", names).add("value", numbers);

  contents.tables["kernels"]
      .add("name", column_of<std::string>(program.kernels, [](auto& k) { return k.name; }))
      .add("bundles",
           column_of<std::uint64_t>(program.kernels, [](auto& k) { return k.bundles.size(); }));
  contents.bytes["code"] = isa::encode_kernels(program.kernels);
  contents.unpacked = {"code"};

  Words data;
  for (const isa::Buffer& buffer : program.buffers) data.append(buffer.data);
  contents.tables["buffers"] = buffers_table(program.buffers);
  contents.tables["buffers"]
      .add("data_words", data.counts())
      .add("zeroed", column_of<std::uint32_t>(program.buffers, [](auto& b) { return b.zeroed; }));
  contents.bytes["data"] = data.bytes();

  contents.tables["lifetimes"] = lifetimes_table(program.lifetimes);
  contents.tables["ops"] = ops_table(program.ops);
  contents.tables["control"] = control_table(program.control);
  contents.tables["control_points"] = control_points_table(program.control);
  add_call_sites(program.call_sites, contents);
  contents.tables["initial_smem"]
      .add("address",
           column_of<std::uint32_t>(program.initial_smem, [](auto& w) { return w.first; }))
      .add("value",
           column_of<std::uint32_t>(program.initial_smem, [](auto& w) { return w.second; }));
  write_hdf5(path, kProgramFile, contents);
}

isa::Program read_program_file(const std::string& path) {
  const Hdf5Contents contents = read_hdf5(path, kProgramFile);
  isa::Program program;
  program.name = contents.attribute("name");
  program.chip = contents.attribute("chip");
  program.compiler = contents.attribute("compiler");
  const isa::Generation* generation = isa::find_generation(program.chip);
  const bool listings = program.compiler.compare(0, 3, "xla") == 0;
  if (listings && generation != nullptr) program.conventions = generation->listings;
  const Table& summary = contents.table("summary");
  const std::vector<std::string>& names = summary.column<std::string>("name");
  const std::vector<std::uint64_t>& numbers = summary.column<std::uint64_t>("value");
  for (std::size_t i = 0; i < names.size(); ++i) {
    visit_program_numbers(program, [&](const char* name, std::uint64_t& number) {
      if (names[i] == name) number = numbers[i];
    });
    if (names[i] == "cores") program.cores = static_cast<std::uint32_t>(numbers[i]);
  }

  program.kernels = isa::decode_kernels(contents.byte_array("code"), path + ": code");
  if (program.kernels.empty()) throw WorkloadError(path + ": expected at least one kernel");

  const Table& buffers = contents.table("buffers");
  program.buffers = buffers_of(buffers, path);
  const auto data = split_words(contents.byte_array("data"),
                                buffers.column<std::uint64_t>("data_words"), path + ": data");
  const auto& zeroed = buffers.column<std::uint32_t>("zeroed");
  for (std::size_t i = 0; i < data.size(); ++i) {
    program.buffers[i].data = data[i];
    program.buffers[i].zeroed = zeroed[i] != 0;
  }

  program.ops = ops_of(contents.table("ops"));
  const Table& lifetimes = contents.table("lifetimes");
  if (lifetimes.rows() > 0) {  // None: nobody knows who reads a buffer last.
    program.lifetimes = lifetimes_of(lifetimes, program.buffers.size(), program.ops.size(), path);
  }
  program.control = control_of(contents.table("control"), contents.table("control_points"), path);
  program.call_sites = call_sites_of(contents, program);
  const Table& smem = contents.table("initial_smem");
  for (std::size_t i = 0; i < smem.rows(); ++i) {
    program.initial_smem.emplace_back(smem.column<std::uint32_t>("address")[i],
                                      smem.column<std::uint32_t>("value")[i]);
  }
  return program;
}

}  // namespace tpu::traces
