#include "sim/app/command_options.h"

#include <algorithm>
#include <boost/program_options/value_semantic.hpp>
#include <string>

#include "sim/app/terminal.h"

namespace tpu::app {
namespace {

namespace po = boost::program_options;

const std::vector<Command> kCommands{
    {"run", "WORKLOAD", "simulate training steps and report", true, true, false, true, true, true,
     true},
    {"compare", "WORKLOAD", "the same on several machines, side by side", true, false, true, true,
     true, true, true},
    {"scaling", "WORKLOAD", "examples/s, efficiency and exposed all-reduce from slice to slice",
     true, false, true, true, true, true, false},
    {"compile", "WORKLOAD", "write a compiled program", true, true, false, true, false, false,
     true},
    {"disasm", "PROGRAM.h5", "print a compiled program", false, false, false, false, false, false,
     false},
    {"asm", "FILE", "assemble a text into a program", true, true, false, false, false, false, true},
    {"export", "RUN.h5", "write the timeline of a run for a viewer", false, false, false, false,
     false, false, true},
    {"report", "RUN.h5", "a page for a browser, of one run or several", false, false, false, false,
     false, false, true},
    {"profile", "RUN.h5", "what capture_tpu_profile prints of a TPU", false, false, false, false,
     false, false, false},
    {"metrics", "RUN.h5", "what PyTorch/XLA's metrics report prints", false, false, false, false,
     false, false, false},
    {"diff", "A.h5 B.h5 ...", "runs: which operation, which cause, how much of the step", false,
     false, false, false, false, true, false},
    {"validate", "FOLDER", "captured programs that silicon ran, too: cycles there and here", true,
     false, false, false, false, true, false},
    {"sweep", "[plan|run|status|merge] SWEEP.toml", "many runs: what is missing, into one table",
     false, false, false, false, false, false, true},
    {"list", "", "workloads, configurations and their parts", false, false, false, false, false,
     false, false},
    {"show", "CONFIG|WORKLOAD", "the parameters of a machine; what a module holds and is bound by",
     true, false, false, true, false, false, false},
    {"completion", "", "a script that completes these words in bash and zsh", false, false, false,
     false, false, false, false},
};

const std::vector<const char*> kWorkloadFlags{
    "shape",     "kernel",     "stride",        "padding",         "pass",  "dtype",
    "precision", "image",      "classes",       "layers",          "width", "heads",
    "sequence",  "vocabulary", "learning-rate", "feature-multiple"};

}  // namespace

const std::vector<Command>& commands() { return kCommands; }

const std::vector<const char*>& workload_flags() { return kWorkloadFlags; }

namespace {

void add_sweep_options(po::options_description_easy_init& add) {
  add("points", po::value<std::string>(), "folder with a file for each point (SWEEP.points)");
  add("shard", po::value<std::string>(), "I/N: of N shares of the points the I-th, from 1 on");
  add("point", po::value<std::string>(), "this point alone, from 1 on");
  add("jobs,j", po::value<std::string>(), "processes (as many as the machine has cores)");
  add("partial", "merge: a table although points are missing");
}

}  // namespace

po::options_description options_of(const Command& command) {
  const auto columns =
      static_cast<unsigned>(std::min(stated_width() > 0 ? stated_width() : 80, 110));
  po::options_description options("Options", columns, columns / 2);
  auto add = options.add_options();
  add("help,h", "print this help");
  add("log", po::value<std::string>(), "messages on stderr: error, warning (default), info, debug");
  const std::string name = command.name;
  if (name == "run" || name == "compare" || name == "scaling" || name == "show" || name == "diff") {
    add("color", po::value<std::string>(), "always, never, auto: on a terminal, but NO_COLOR");
  }
  if (name == "compile" || name == "asm") {
    add("verbose,v", "also the time of each pass, the size of each kernel");
  }
  if (command.one_machine) {
    add("config", po::value<std::string>(),
        "machine: a name of `tpusim list` or a .toml file (v3-8)");
  }
  if (command.many_machines) {
    add("configs", po::value<std::string>(), "machines, separated by commas");
  }
  if (command.set) {
    add("set", po::value<std::vector<std::string>>()->composing(),
        "PARAMETER=VALUE, such as hbm.pin_mbps=2000 or chip[3].clock_mhz=470; may be repeated");
  }
  if (command.set && name != "validate") {
    add("topology", po::value<std::string>(),
        "chips of the slice, XxY or XxYxZ, wired as the real ones; overrides the machine's");
  }
  if (command.workload) {
    add("batch", po::value<std::string>(), "examples of a step on all cores together");
    add("core-batch", po::value<std::string>(), "the same on each core");
    add("cores", po::value<std::string>(), "number of cores, or [N]: core N alone (all)");
    add("compiler", po::value<std::string>(), "xla or tpusim (what the workload has)");
    add("bucket-mb", po::value<std::string>(),
        "MiB of gradients that are reduced together while the backward pass goes on; 0: all at "
        "once behind it (what takes least, by estimate)");
    add("shard-updates",
        "each core updates its share of the weights and keeps its share of the optimizer's state: "
        "reduce-scatter, update, all-gather");
    add("shape", po::value<std::string>(),
        "of matmul (MxKxN), conv (NxHxWxCixCo), mlp (INPUTSxWIDTHx...xCLASSES)");
    add("kernel", po::value<std::string>(), "of conv: 3 or 3x3");
    add("stride", po::value<std::string>(), "of conv: 1 or 1x1");
    add("padding", po::value<std::string>(), "of conv: same, valid, 1, 0_1x0_1");
    add("pass", po::value<std::string>(), "of conv: fwd, dgrad, wgrad");
    add("dtype", po::value<std::string>(), "of activations and operands: f32, bf16");
    add("precision", po::value<std::string>(),
        "of products of f32: default (bf16 operands, one pass of the MXUs), high (3), highest (6)");
    add("image", po::value<std::string>(), "height and width of the images");
    add("classes", po::value<std::string>(), "number of classes");
    add("layers", po::value<std::string>(), "of models of language");
    add("width", po::value<std::string>(), "of models of language; of biggan");
    add("heads", po::value<std::string>(), "of models of language");
    add("sequence", po::value<std::string>(), "tokens of a sequence");
    add("vocabulary", po::value<std::string>(), "number of tokens");
    add("feature-multiple", po::value<std::string>(),
        "features of layers, extents of a module's products are rounded up to a multiple of it "
        "(1): "
        "with 128 no lane is padding");
    add("learning-rate", po::value<std::string>(), "of the optimiser");
  }
  if (command.run) {
    add("steps", po::value<std::string>(), "training steps (1)");
    add("warmup", po::value<std::string>(),
        "steps before those that count (until one repeats the one before, at most 8)");
    add("max-cycles", po::value<std::string>(),
        "of a step without its waits for the infeed; a longer one is a fault, an endless loop "
        "(100000000000: 106 s of the chip)");
    add("max-trips", po::value<std::string>(),
        "of a loop each time it runs, where data decides and --trips says nothing; more are a "
        "fault, an endless loop (1048576)");
    add("detail", po::value<std::string>(),
        "core=interpret: every bundle by itself; mxu=array: systolic arrays cell by cell "
        "(implies core=interpret, values=on); hbm=command: every command of the HBM's channels; "
        "ici=packet: packets, buffers and credits of the interconnect (implies pod=full); "
        "pod=full: every core by itself, every step; core=blocks, mxu=ports, hbm=closed, "
        "ici=message, "
        "pod=folded");
    add("values", po::value<std::string>(), "on: the program computes on data (off)");
    add("seed", po::value<std::string>(), "of initial values (0)");
    add("trips", po::value<std::vector<std::string>>()->composing(),
        "LOOP=N: trips of a while with values off, whatever its data; may be repeated");
    add("branch", po::value<std::vector<std::string>>()->composing(),
        "CONDITIONAL=K: its branch, from 0 on, with values off; may be repeated");
  }
  if (command.run && !command.many_machines) {
    add("scenario", po::value<std::string>(),
        "what happens between the steps of a training: a name of `tpusim list` or a .toml file");
    add("epochs", po::value<std::string>(), "of the training (1)");
    add("dataset", po::value<std::string>(), "examples of an epoch (the configuration's)");
    add("drop-last", po::value<std::string>(), "on: no smaller batch at the end of an epoch");
    add("loss-every", po::value<std::string>(), "steps: the loss is read and printed; 0 never");
    add("evaluate-every", po::value<std::string>(), "steps: evaluation");
    add("checkpoint-every", po::value<std::string>(), "steps: weights and optimiser are saved");
    add("iterations-per-loop", po::value<std::string>(), "steps of a launch");
    add("between", po::value<std::vector<std::string>>()->composing(),
        "KEY=VALUE of the scenario, such as fallback.per_step=1; may be repeated");
    add("what-if",
        "simulate again with a free HBM, infeed, ICI, twice the MXUs, full lanes: what each gains");
    add("format", po::value<std::string>(),
        "of -o, konata: a log for Konata of the bundles in the window, 100000 at most; perfetto: a "
        "trace as of tpusim export, with what each unit does in the window, 10000000 slices at "
        "most; vcd: a value change dump of the window, with what each unit does, 100000 bundles "
        "at most");
    add("window", po::value<std::string>(), "A:B: of --format, cycles from A up to B (all)");
    add("inputs", po::value<std::string>(), "FILE.npz with arg_000, arg_001, ...");
    add("outputs", po::value<std::string>(), "FILE.npz to write out_000, out_001, ... to");
    add("check", po::value<std::string>()->implicit_value(kBesideTheProgram),
        "FILE.npz with recorded outputs to compare with; without a file, that of the folder");
    add("tolerance", po::value<std::string>(),
        "largest relative L2 error of --check (0.0001 or what the output is sensitive to)");
  }
  if (std::string(command.name) == "validate") {
    add("phases", po::value<std::string>(),
        "of the refresh: each program runs so many times; the mean counts (8)");
  }
  if (command.report)
    add("json", po::value<std::string>(), "write the report as JSON to a file or -");
  if (command.destination) {
    const bool run = std::string(command.name) == "run";
    add("output,o", po::value<std::string>(),
        run                 ? "write results and events, RUN.h5"
        : name == "sweep"   ? "the table, .csv or .h5, or a page, .html"
        : name == "compare" ? "the comparison as a table, .csv or .md, or a page, .html"
                            : "file to write");
  }
  if (name == "report") {
    add("what-if",
        "refuse runs that cannot be simulated again as their files say that they were made; "
        "without it their page says why it has no table of what a free HBM, infeed, ICI, twice "
        "the MXUs, full lanes gain");
    add("no-what-if", "do not simulate the runs again");
  }
  if (name == "sweep") add_sweep_options(add);
  if (name == "profile") add("level", po::value<std::string>(), "--monitoring_level: 1, 2 (2)");
  if (std::string(command.name) == "compile") {
    add("dump-after", po::value<std::string>(),
        "PASS: print the module after this pass as HLO text; all: after each; -o may be left out");
  }
  if (std::string(command.name) == "export") {
    add("format", po::value<std::string>(),
        "perfetto; xplane: FILE.xplane.pb or a log folder for XProf and TensorBoard; chrome: JSON; "
        "csv: a folder, each table; vcd: for GTKWave; konata: see tpusim run");
    add("window", po::value<std::string>(), "A:B: of vcd, cycles from A up to B (all)");
    add("max-events", po::value<std::string>(), "of xplane: events that it holds (1000000)");
  }
  return options;
}

}  // namespace tpu::app
