#include "src/foreign/frameworks.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/foreign/accelerate.h"
#include "src/foreign/axolotl.h"
#include "src/foreign/deepspeed.h"
#include "src/foreign/megatron.h"
#include "src/foreign/nanotron.h"
#include "src/foreign/nemo.h"
#include "src/foreign/torchtitan.h"
#include "src/foreign/torchtune.h"
#include "src/foreign/transformers.h"

namespace stepcast::foreign {
namespace {

struct KindOfFile {
  std::string_view key;  // that such files have
  std::string_view what;
};

// Programs whose files are known by a key and not read.
constexpr KindOfFile kOthers[] = {
    {"added_tokens_decoder", "a tokenizer's configuration of Hugging Face"},
    {"do_sample", "a generation_config.json of Hugging Face"},
    {"pipe-parallel-size", "a configuration of GPT-NeoX"},
    {"pipe_parallel_size", "a configuration of GPT-NeoX"},
    {"model.d_model", "a configuration of OLMo"},
    {"trainer.mp", "a configuration of Levanter"},
    {"data.class_path", "a configuration of LitGPT or Lightning"},
    {"train.data_parallel_mode", "a configuration of VeOmni"},
    {"base_emb_dim", "a configuration of MaxText"},
    {"base_num_decoder_layers", "a configuration of MaxText"},
    {"model._component_", "a configuration of torchtune that trains nothing"},
    {"max_duration", "a configuration of MosaicML's Composer"},
    {"device_train_microbatch_size", "a configuration of MosaicML's Composer"},
    {"actor_rollout_ref", "a configuration of verl, whose generation is not modelled"},
    {"policy.model_name", "a configuration of NeMo RL, whose generation is not modelled"},
    {"services", "a file of Docker Compose"},
    {"apiVersion", "a manifest of Kubernetes"},
    {"provenance", "a calibration profile of stepcast"},
    {"node.devices", "a topology of stepcast"},
    {"kind", "a model or a topology of stepcast"},
};

constexpr const Framework* kFrameworks[] = {&kTorchtitan, &kTorchtitanPython, &kMegatron,
                                            &kDeepSpeed,  &kTransformers,     &kAccelerate,
                                            &kAxolotl,    &kNanotron,         &kTorchtune};

}  // namespace

std::span<const Framework* const> Frameworks() { return kFrameworks; }

std::optional<Recognised> Recognise(const Document& document) {
  if (document.file.ends_with(".py")) {
    if (IsTorchtitan(document)) return Recognised{&kTorchtitanPython, document};
    if (auto arguments = NemoDocument(document)) {
      return Recognised{&kMegatron, *std::move(arguments)};
    }
    return std::nullopt;
  }
  if (IsTorchtitan(document)) return Recognised{&kTorchtitan, document};
  if (IsAxolotl(document)) return Recognised{&kAxolotl, document};
  if (IsTorchtune(document)) return Recognised{&kTorchtune, document};
  if (IsNanotron(document)) return Recognised{&kNanotron, document};
  if (IsAccelerate(document)) return Recognised{&kAccelerate, document};
  if (IsDeepSpeed(document)) return Recognised{&kDeepSpeed, document};
  if (auto arguments = NemoDocument(document)) {
    return Recognised{&kMegatron, *std::move(arguments)};
  }
  if (auto arguments = TransformersDocument(document)) {
    return Recognised{&kTransformers, *std::move(arguments)};
  }
  if (auto arguments = MegatronDocument(document)) {
    return Recognised{&kMegatron, *std::move(arguments)};
  }
  return std::nullopt;
}

std::string_view OtherProgramOf(const Document& document) {
  const auto kind =
      std::find_if(std::begin(kOthers), std::end(kOthers),
                   [&](const KindOfFile& candidate) { return document.Has(candidate.key); });
  return kind == std::end(kOthers) ? std::string_view() : kind->what;
}

bool IsScenario(const Document& document) {
  return document.Has("stepcast") || document.Has("stepcast_plan");
}

bool IsModel(const Document& document) {
  return document.Has("model_type") &&
         (document.Has("architectures") || document.Has("hidden_size") || document.Has("n_embd") ||
          document.Has("text_config"));
}

}  // namespace stepcast::foreign
