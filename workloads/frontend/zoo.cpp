#include "workloads/frontend/zoo.h"

#include <algorithm>

#include "sim/base/error.h"
#include "workloads/frontend/zoo_models.h"
#include "workloads/frontend/zoo_options.h"

namespace tpu::frontend {

namespace {

struct Entry {
  WorkloadInfo info;
  Workload (*build)(const WorkloadOptions&);
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> kEntries = {
      {{"mlp",
        "Multilayer perceptron 784-1024-1024-10 on 28x28 images (--shape 784x1024x1024x10), SGD "
        "with momentum, f32.",
        {"batch", "replicas", "dtype", "precision", "learning_rate", "shape", "feature_multiple"}},
       build_mlp},
      {{"lenet",
        "LeNet-5 on 28x28 images: two convolutions with pooling, three dense layers, SGD with "
        "momentum, f32.",
        {"batch", "replicas", "dtype", "precision", "learning_rate", "feature_multiple"}},
       build_lenet},
      {{"resnet50",
        "ResNet-50 v1.5 on 224x224 images after space-to-depth, SGD with momentum and weight "
        "decay, bf16 activations.",
        {"batch", "replicas", "dtype", "precision", "learning_rate", "image", "classes",
         "feature_multiple"}},
       build_resnet50},
      {{"transformer",
        "A small GPT: 2 layers of width 256 with 2 heads, sequences of 128 of 1024 tokens, tied "
        "embedding, Adam, bf16 activations.",
        {"batch", "replicas", "dtype", "precision", "learning_rate", "layers", "width", "heads",
         "sequence", "vocabulary", "feature_multiple"}},
       build_transformer},
      {{"bert",
        "BERT base: 12 layers of width 768 with 12 heads, sequences of 128, masked words and next "
        "sentences, Adam, bf16 activations.",
        {"batch", "replicas", "dtype", "precision", "learning_rate", "layers", "width", "heads",
         "sequence", "vocabulary", "feature_multiple"}},
       build_bert},
      {{"bert-large",
        "BERT large: 24 layers of width 1024 with 16 heads, sequences of 512.",
        {"batch", "replicas", "dtype", "precision", "learning_rate", "layers", "width", "heads",
         "sequence", "vocabulary", "feature_multiple"}},
       build_bert_large},
      {{"roberta",
        "RoBERTa base: 12 layers of width 768 with 12 heads, sequences of 512 of 50265 tokens, a "
        "word to guess in every place, Adam, bf16 activations.",
        {"batch", "replicas", "dtype", "precision", "learning_rate", "layers", "width", "heads",
         "sequence", "vocabulary", "feature_multiple"}},
       build_roberta},
      {{"fairseq-transformer",
        "fairseq's transformer_vaswani_wmt_en_de_big: 6 and 6 layers of width 1024 with 16 heads, "
        "sentences padded to 64, batch 128, Adam, bf16 activations.",
        {"batch", "replicas", "dtype", "precision", "learning_rate", "layers", "width", "heads",
         "sequence", "vocabulary", "feature_multiple"}},
       build_fairseq_transformer},
      {{"biggan",
        "BigGAN on 128x128 images: generator and discriminator with self-attention, updated "
        "together, Adam, bf16 activations.",
        {"batch", "replicas", "dtype", "precision", "learning_rate", "width", "classes",
         "feature_multiple"}},
       build_biggan},
      {{"matmul",
        "One matrix product, --shape MxKxN (2048x2048x2048), f32.",
        {"shape", "dtype", "precision", "replicas", "feature_multiple"}},
       build_matmul},
      {{"conv",
        "One convolution, --shape NxHxWxCixCo (128x56x56x64x64) --kernel 3x3 --stride 1 --padding "
        "same --pass fwd|dgrad|wgrad, bf16.",
        {"shape", "kernel", "stride", "padding", "pass", "dtype", "precision", "replicas",
         "feature_multiple"}},
       build_conv},
  };
  return kEntries;
}

const Entry* find(std::string_view name) {
  for (const Entry& entry : entries()) {
    if (entry.info.name == name) return &entry;
  }
  return nullptr;
}

std::string listed(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

void refuse_foreign_options(const WorkloadInfo& info, const WorkloadOptions& options) {
  const auto refuse = [&](std::string_view name, bool set) {
    const bool has =
        std::find(info.options.begin(), info.options.end(), name) != info.options.end();
    if (!set || has) return;
    throw UsageError("workload " + std::string(info.name) + " has no option " + std::string(name) +
                     " (it has: " + listed(info.options) + ")");
  };
  refuse("batch", options.batch.has_value());
  refuse("dtype", options.dtype.has_value());
  refuse("precision", options.precision.has_value());
  refuse("learning_rate", options.learning_rate.has_value());
  refuse("image", options.image.has_value());
  refuse("classes", options.classes.has_value());
  refuse("layers", options.layers.has_value());
  refuse("width", options.width.has_value());
  refuse("heads", options.heads.has_value());
  refuse("sequence", options.sequence.has_value());
  refuse("vocabulary", options.vocabulary.has_value());
  refuse("feature_multiple", options.feature_multiple.has_value());
  refuse("shape", options.shape.has_value());
  refuse("kernel", options.kernel.has_value());
  refuse("stride", options.stride.has_value());
  refuse("padding", options.padding.has_value());
  refuse("pass", options.pass.has_value());
}

/// As jax.default_matmul_precision does for a whole program.
void ask_for_precision(hlo::Module& module, const std::string& precision) {
  if (precision == "default") return;
  for (hlo::HloInstruction& instruction : module.entry_computation().instructions) {
    if (instruction.opcode == hlo::HloOpcode::kDot ||
        instruction.opcode == hlo::HloOpcode::kConvolution) {
      instruction.raw_attributes = "operand_precision={" + precision + "," + precision + "}";
    }
  }
}

}  // namespace

const std::vector<WorkloadInfo>& workload_list() {
  static const std::vector<WorkloadInfo> kInfos = [] {
    std::vector<WorkloadInfo> infos;
    for (const Entry& entry : entries()) infos.push_back(entry.info);
    return infos;
  }();
  return kInfos;
}

bool is_workload(std::string_view name) { return find(name) != nullptr; }

Workload build_workload(std::string_view name, const WorkloadOptions& options) {
  const Entry* entry = find(name);
  if (entry == nullptr) {
    std::vector<std::string_view> names;
    for (const Entry& each : entries()) names.push_back(each.info.name);
    throw UsageError("no workload \"" + std::string(name) + "\" (there are: " + listed(names) +
                     ")");
  }
  refuse_foreign_options(entry->info, options);
  checked("replicas", options.replicas, 1, kLargestReplicas);
  const std::string precision = checked_precision(options.precision);
  Workload workload = entry->build(options);
  ask_for_precision(workload.module, precision);
  hlo::verify(workload.module);
  return workload;
}

}  // namespace tpu::frontend
