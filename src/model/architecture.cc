#include "src/model/architecture.h"

#include <algorithm>

#include "src/model/module_names.h"

namespace stepcast::model {

Architecture TypicalOf(Family family) {
  Architecture a;
  a.family = family;
  switch (family) {
    case Family::kGpt2:
      a.normalization = Normalization::kLayerNorm;
      a.activator = Activator::kGelu;
      a.position = Position::kLearned;
      a.tie_embeddings = true;
      a.attention_bias = a.projection_bias = a.feed_forward_bias = a.norm_bias = true;
      break;
    case Family::kMpt:
      a.normalization = Normalization::kLayerNorm;
      a.activator = Activator::kGelu;
      a.position = Position::kAlibi;
      a.tie_embeddings = true;
      break;
    case Family::kQwen2:
      a.attention_bias = true;
      break;
    case Family::kQwen3:
      a.qk_norm = true;
      a.experts.scores = RouterScores::kSoftmax;
      break;
    case Family::kNemotron:
      a.normalization = Normalization::kLayerNorm;
      a.activator = Activator::kSquaredRelu;
      a.norm_bias = true;
      break;
    case Family::kDeepseek:
      a.experts.scores = RouterScores::kSigmoid;
      a.experts.balancing_bias = true;
      break;
    case Family::kGptOss:
      a.sinks = true;
      a.attention_bias = a.projection_bias = true;
      a.experts.scores = RouterScores::kSoftmaxOfChosen;
      a.experts.router_bias = a.experts.bias = true;
      break;
    case Family::kGemma2:
      a.branch_norms = a.scales_embeddings = true;
      a.score_cap = 50;
      a.logit_cap = 30;
      a.activator = Activator::kGeGlu;
      a.tie_embeddings = true;
      break;
    case Family::kGemma3:
      a.branch_norms = a.scales_embeddings = true;
      a.qk_norm = true;
      a.activator = Activator::kGeGlu;
      a.tie_embeddings = true;
      break;
    case Family::kOlmo2:
      a.qk_norm = a.norms_all_heads = a.branch_norms = true;
      break;
    case Family::kGlm4Moe:
      a.attention_bias = a.qk_norm = true;
      a.experts.scores = RouterScores::kSigmoid;
      a.experts.balancing_bias = true;
      break;
    case Family::kLlama4:
      a.weightless_norms = true;
      a.experts.scores = RouterScores::kSigmoid;
      a.experts.normalized_weights = false;
      break;
    case Family::kGemma:
      a.scales_embeddings = true;
      a.activator = Activator::kGeGlu;
      a.tie_embeddings = true;
      break;
    case Family::kGlm:
    case Family::kGlm4:
      a.attention_bias = true;
      a.branch_norms = family == Family::kGlm4;
      break;
    case Family::kStarcoder2:
      a.normalization = Normalization::kLayerNorm;
      a.activator = Activator::kGelu;
      a.tie_embeddings = true;
      a.attention_bias = a.projection_bias = a.feed_forward_bias = a.norm_bias = true;
      break;
    case Family::kOlmoe:
      a.qk_norm = a.norms_all_heads = true;
      a.experts.scores = RouterScores::kSoftmax;
      a.experts.normalized_weights = false;
      break;
    case Family::kGptj:
    case Family::kPhi:
      a.normalization = Normalization::kLayerNorm;
      a.activator = Activator::kGelu;
      a.parallel_residual_norms = 1;
      a.feed_forward_bias = a.norm_bias = a.head_bias = true;
      a.attention_bias = a.projection_bias = family == Family::kPhi;
      break;
    case Family::kGptNeox:
      a.normalization = Normalization::kLayerNorm;
      a.activator = Activator::kGelu;
      a.parallel_residual_norms = 2;
      a.attention_bias = a.projection_bias = a.feed_forward_bias = a.norm_bias = true;
      break;
    case Family::kFalcon:
      a.normalization = Normalization::kLayerNorm;
      a.activator = Activator::kGelu;
      a.parallel_residual_norms = 1;
      a.norm_bias = a.tie_embeddings = true;
      break;
    case Family::kCohere:
      a.normalization = Normalization::kLayerNorm;
      a.parallel_residual_norms = 1;
      a.tie_embeddings = true;
      break;
    case Family::kBert:
    case Family::kMegatronBert:
      a.normalization = Normalization::kLayerNorm;
      a.activator = Activator::kGelu;
      a.position = Position::kLearned;
      a.tie_embeddings = true;
      a.attention_bias = a.projection_bias = a.feed_forward_bias = a.norm_bias = true;
      a.token_types = 2;
      a.next_sentence = true;
      break;
    case Family::kLlama:
    case Family::kMistral:
    case Family::kMixtral:
    case Family::kPhi3:
    case Family::kDescribed:
      break;
  }
  return a;
}

const Architecture* BiasedByDistance(const Architecture& architecture, bool of_encoder) {
  for (std::size_t block = 0; block < architecture.pattern.size(); ++block) {
    const bool encodes = static_cast<std::int64_t>(block) < architecture.encoder.layers;
    const Architecture& kind =
        architecture.kinds[static_cast<std::size_t>(architecture.pattern[block])];
    if (encodes == of_encoder && kind.distance_buckets > 0) return &kind;
  }
  return nullptr;
}

bool AttendsBothWays(const Architecture& architecture) {
  if (IsEncoder(architecture.family)) return true;
  if (architecture.pattern.empty()) return false;
  const auto first = architecture.pattern.begin() + architecture.encoder.layers;
  return std::all_of(first, architecture.pattern.end(), [&architecture](int kind) {
    return architecture.kinds[static_cast<std::size_t>(kind)].attends_both_ways;
  });
}

Architecture OfKind(const Architecture& architecture, int kind) {
  if (kind < 0 || architecture.kinds.empty()) return architecture;
  Architecture block = architecture.kinds[static_cast<std::size_t>(kind)];
  block.lora = architecture.lora;
  return block;
}

int KindOfBlock(const Architecture& architecture, std::int64_t block) {
  if (architecture.kinds.empty()) return -1;
  const auto last = static_cast<std::int64_t>(architecture.pattern.size()) - 1;
  if (block > last && architecture.further_kind >= 0) return architecture.further_kind;
  return architecture.pattern[static_cast<std::size_t>(std::min(block, last))];
}

std::string_view FamilyName(const Architecture& architecture) {
  return architecture.described != nullptr ? std::string_view(architecture.described->name)
                                           : std::string_view(Name(architecture.family));
}

std::int64_t ProductWeightsOfBlock(const Architecture& a) {
  const std::int64_t layers_of_feed_forward = IsGated(a.activator) ? 3 : 2;
  return (4 * a.heads * a.head_size + layers_of_feed_forward * a.feed_forward) * a.hidden;
}

std::int64_t ProductWeightsOfHead(const Architecture& a) { return a.vocabulary * a.hidden; }

const char* Name(Family family) {
  switch (family) {
    case Family::kGpt2:
      return "gpt2";
    case Family::kLlama:
      return "llama";
    case Family::kMistral:
      return "mistral";
    case Family::kQwen2:
      return "qwen2";
    case Family::kMpt:
      return "mpt";
    case Family::kNemotron:
      return "nemotron";
    case Family::kMixtral:
      return "mixtral";
    case Family::kQwen3:
      return "qwen3";
    case Family::kDeepseek:
      return "deepseek";
    case Family::kGptOss:
      return "gpt_oss";
    case Family::kGemma2:
      return "gemma2";
    case Family::kGemma3:
      return "gemma3";
    case Family::kPhi3:
      return "phi3";
    case Family::kOlmo2:
      return "olmo2";
    case Family::kGlm4Moe:
      return "glm4_moe";
    case Family::kLlama4:
      return "llama4";
    case Family::kGemma:
      return "gemma";
    case Family::kGlm:
      return "glm";
    case Family::kGlm4:
      return "glm4";
    case Family::kStarcoder2:
      return "starcoder2";
    case Family::kOlmoe:
      return "olmoe";
    case Family::kGptj:
      return "gptj";
    case Family::kGptNeox:
      return "gpt_neox";
    case Family::kPhi:
      return "phi";
    case Family::kFalcon:
      return "falcon";
    case Family::kCohere:
      return "cohere";
    case Family::kBert:
      return "bert";
    case Family::kMegatronBert:
      return "megatron-bert";
    case Family::kDescribed:
      return "described";
  }
  return "";
}

const char* Name(Normalization normalization) {
  return normalization == Normalization::kLayerNorm ? "layernorm" : "rmsnorm";
}

const char* Name(Activator activator) {
  switch (activator) {
    case Activator::kGelu:
      return "gelu";
    case Activator::kSwiGlu:
      return "swiglu";
    case Activator::kGeGlu:
      return "geglu";
    case Activator::kSquaredRelu:
      return "squared_relu";
    case Activator::kRelu:
      return "relu";
  }
  return "";
}

const char* Name(Position position) {
  switch (position) {
    case Position::kLearned:
      return "learned";
    case Position::kRotary:
      return "rotary";
    case Position::kAlibi:
      return "alibi";
    case Position::kNone:
      return "none";
  }
  return "";
}

}  // namespace stepcast::model
