#include "src/emit/described_blocks.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "fmt/format.h"

namespace stepcast::emit {
namespace {

using model::Architecture;

// Parts of a model outside its blocks, by their keys in model files.
std::string OutsideOf(const Architecture& a) {
  if (a.streams > 0) return "stepcast does not write Megatron-LM's hyper-connections (streams)";
  if (a.residual_bank > 0) return "Megatron-LM has no attention residuals (residual_bank)";
  if (a.layer_input > 0) {
    return "Megatron-LM has no second embedding as input of every layer (layer_input)";
  }
  if (!a.towers.empty()) return "Megatron-LM's pretrain_gpt.py does not support towers (towers)";
  if (a.encoder.exists()) return "Megatron-LM's pretrain_gpt.py trains decoders only (encoder)";
  if (a.input.values > 0) {
    return "Megatron-LM's pretrain_gpt.py supports only text as input (input)";
  }
  if (a.condition.exists() || a.prediction.target != model::Target::kWords) {
    return "Megatron-LM's pretrain_gpt.py supports only text as output";
  }
  return "";
}

std::string OfMixer(const Architecture& kind) {
  if (kind.mixer == model::Mixer::kStateSpace) {
    return "Megatron-LM trains state-space layers with pretrain_hybrid.py, whose arguments "
           "stepcast does not write (state_space)";
  }
  if (kind.mixer == model::Mixer::kShortConv || kind.mixer == model::Mixer::kSelectiveScan ||
      kind.mixer == model::Mixer::kDecay) {
    return fmt::format("Megatron-LM has no layers of {} (mixers)", model::Name(kind.mixer));
  }
  if (kind.beside != model::Mixer::kNone) {
    return "each block of Megatron-LM's pretrain_gpt.py has one mixer (parallel)";
  }
  if (kind.mixer == model::Mixer::kNone || !model::HasFeedForward(kind)) {
    return "each block of Megatron-LM's pretrain_gpt.py must have a mixer and a feed-forward layer "
           "(blocks)";
  }
  if (kind.mixer == model::Mixer::kDelta) {
    return kind.delta.by_channel ? "the delta rule of Megatron-LM has one decay per head (decay)"
                                 : "";
  }
  if (kind.shared_key.exists()) {
    return "stepcast does not write Megatron-LM's attention with one key for all heads (shared_kv)";
  }
  if (kind.cross.exists()) return "Megatron-LM's pretrain_gpt.py has no cross-attention (cross)";
  if (kind.indexer.exists()) {
    const model::Indexer& index = kind.indexer;
    if (!kind.latent.exists() || index.block > 1 || index.shared || !index.runs ||
        !index.weighs_heads) {
      return "Megatron-LM supports indexers only in latent attention. Each layer must have one "
             "indexer, which chooses single keys (index)";
    }
  }
  if (kind.output_gate != model::OutputGate::kNone && !kind.gate_of_query) {
    return "Megatron-LM computes the gate of the attention output in the query projection (gate)";
  }
  const bool values =
      kind.key_is_value || kind.borrows_keys || kind.norms_values ||
      (!kind.latent.exists() && kind.value_size > 0 && kind.value_size != kind.head_size);
  if (values)
    return "Megatron-LM computes values with a separate projection, which is as wide as the "
           "projection of keys";
  if (kind.weightless_norms || kind.norms_without_weights) {
    return "Megatron-LM's norms always have weights";
  }
  return "";
}

std::string OfExperts(const model::Experts& experts) {
  if (experts.latent > 0) {
    return "stepcast does not write Megatron-LM's experts on latent vectors (latent)";
  }
  if (experts.beside_dense)
    return "Megatron-LM cannot run a dense layer in parallel with experts (parallel)";
  const bool scores = experts.scores == model::RouterScores::kSigmoid ||
                      experts.scores == model::RouterScores::kSoftmax ||
                      experts.scores == model::RouterScores::kSoftmaxOfChosen;
  return scores ? "" : "Megatron-LM scores experts with a softmax or a sigmoid (scores)";
}

// The kind with the feed-forward layer of another one.
Architecture WithFeedForwardOf(Architecture kind, const Architecture& other) {
  kind.feed_forward = other.feed_forward;
  kind.feed_forward_bias = other.feed_forward_bias;
  kind.activator = other.activator;
  kind.experts = other.experts;
  return kind;
}

// Sets the mixture and the dense layers' width; a sentence if pretrain_gpt.py cannot have both.
std::string TakeFeedForward(const std::vector<const Architecture*>& blocks, Architecture& plain) {
  const Architecture *dense = nullptr, *mixture = nullptr;
  std::int64_t leading = 0;
  for (const Architecture* block : blocks) {
    const Architecture*& known = block->experts.exist() ? mixture : dense;
    if (known == nullptr) known = block;
    if (WithFeedForwardOf(*known, *block) != *known) {
      return "in Megatron-LM, all dense layers must be equal, and all expert layers must be equal "
             "(feed_forwards)";
    }
    if (block->experts.exist()) continue;
    if (mixture != nullptr) {
      return "stepcast writes models for Megatron-LM only if all dense layers precede all expert "
             "layers (pattern)";
    }
    ++leading;
  }
  if (mixture != nullptr) {
    plain.experts = mixture->experts;
    plain.experts.leading_dense = dense != nullptr ? leading : 0;
    plain.experts.every = 1;
  }
  const Architecture& of = dense != nullptr ? *dense : *mixture;
  plain.feed_forward = dense != nullptr ? dense->feed_forward : mixture->experts.feed_forward;
  plain.feed_forward_bias = of.feed_forward_bias;
  plain.activator = of.activator;
  return "";
}

}  // namespace

tl::expected<GptBlocks, std::string> GptBlocksOf(const Architecture& a) {
  const auto refused = [](std::string why) { return tl::unexpected<std::string>(std::move(why)); };
  if (std::string why = OutsideOf(a); !why.empty()) return refused(std::move(why));
  std::vector<const Architecture*> blocks;
  for (const int kind : a.pattern) blocks.push_back(&a.kinds[static_cast<std::size_t>(kind)]);
  const Architecture *attention = nullptr, *delta = nullptr;
  GptBlocks made;
  for (const Architecture* block : blocks) {
    for (std::string why : {OfMixer(*block), OfExperts(block->experts)}) {
      if (!why.empty()) return refused(std::move(why));
    }
    const bool recurrent = block->mixer == model::Mixer::kDelta;
    made.delta.push_back(recurrent);
    const Architecture*& known = recurrent ? delta : attention;
    if (known == nullptr) known = block;
    if (WithFeedForwardOf(*block, *known) != *known) {
      return refused("in Megatron-LM, all mixers of the same kind must be equal (mixers)");
    }
  }
  if (attention == nullptr) return refused("stepcast writes only models with attention (pattern)");
  made.plain = *attention;
  Architecture& plain = made.plain;
  plain.experts = {};
  if (std::string why = TakeFeedForward(blocks, plain); !why.empty()) {
    return refused(std::move(why));
  }
  plain.layers = a.layers;
  plain.vocabulary = a.vocabulary;
  if (a.position == model::Position::kLearned) plain.position = a.position;
  plain.max_positions = a.max_positions;
  plain.tie_embeddings = a.tie_embeddings;
  plain.further_tokens = a.further_tokens;
  plain.further_repeated = a.further_repeated;
  plain.lora = a.lora;
  if (delta == nullptr) {
    made.delta.clear();
    return made;
  }
  if (plain.indexer.exists()) {
    return refused(
        "Megatron-LM does not support sparse attention and the delta rule in the same model "
        "(mixers)");
  }
  made.rule = delta->delta;
  made.shared_gate = std::exchange(plain.experts.shared_gate, false);
  return made;
}

std::string LinearAttentionFrequency(const std::vector<bool>& delta) {
  const auto first = std::find(delta.begin(), delta.end(), false);
  const auto every = static_cast<std::size_t>(first - delta.begin()) + 1;
  bool regular = every > 1;
  for (std::size_t i = 0; i < delta.size(); ++i) {
    regular = regular && delta[i] == ((i + 1) % every != 0);
  }
  if (regular) return fmt::format("{}", every);
  std::string list;
  for (const bool each : delta) list += fmt::format("{}{}", list.empty() ? "[" : ",", each ? 1 : 0);
  return list + "]";
}

}  // namespace stepcast::emit
