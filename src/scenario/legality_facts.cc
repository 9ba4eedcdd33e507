#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "src/model/architecture.h"
#include "src/model/family.h"
#include "src/scenario/model_file.h"
#include "src/scenario/scenario_checks.h"
#include "src/topology/cluster.h"

namespace stepcast::scenario {
namespace {

// The model's architecture, if it has one.
const model::Architecture* ArchitectureOf(const Scenario& scenario) {
  return scenario.model == nullptr ? nullptr
                                   : std::get_if<model::Architecture>(&scenario.model->source);
}

// Adds the dimensions of blocks of several kinds that tensor parallelism divides, and their
// recurrent layers.
void AddKinds(const model::Architecture& architecture, plan::Facts& facts) {
  const auto divide = [&facts](const char* name, std::int64_t extent, std::int64_t columns = 1) {
    if (extent == 0) return;
    for (const plan::Facts::Divided& known : facts.divided) {
      if (known.name == name && known.extent == extent) return;
    }
    facts.divided.push_back({name, extent, columns});
  };
  facts.divided.clear();
  const auto add_mixer = [&](const model::Architecture& kind, model::Mixer mixer) {
    if (model::IsRecurrent(mixer)) facts.recurrent = model::Name(mixer);
    switch (mixer) {
      case model::Mixer::kAttention: {
        divide("heads", kind.heads);
        // Ranks share a key-value head only if one product makes whole heads of one size.
        const bool plain = !kind.gate_of_query && kind.value_size == 0 && !kind.key_is_value;
        divide("kv_heads", kind.kv_heads, plain ? kind.head_size : 1);
        break;
      }
      case model::Mixer::kDelta:
        divide("key_heads", kind.delta.key_heads);
        divide("value_heads", kind.delta.value_heads);
        if (kind.delta.by_channel) facts.recurrent = "Kimi delta attention";
        facts.recurrent_without_context = kind.delta.by_channel;
        facts.recurrent_heads = {kind.delta.key_heads, kind.delta.value_heads};
        break;
      case model::Mixer::kStateSpace:
        divide("groups", kind.state_space.groups);
        divide("state-space heads", kind.state_space.heads);
        facts.recurrent_heads = {kind.state_space.heads};
        break;
      case model::Mixer::kShortConv:
        divide("hidden_size", kind.hidden);
        facts.mixer_of_transformers = model::Name(mixer);
        facts.mixer_divides = true;
        break;
      case model::Mixer::kSelectiveScan:
      case model::Mixer::kDecay:
        facts.mixer_of_transformers = model::Name(mixer);
        facts.recurrent_without_context = true;
        break;
      case model::Mixer::kNone:
        break;
    }
  };
  for (const model::Architecture& kind : architecture.kinds) {
    for (const model::Mixer mixer : {kind.mixer, kind.beside}) add_mixer(kind, mixer);
    divide("width", kind.feed_forward);
    divide("shared_expert_intermediate_size", kind.experts.shared_feed_forward);
  }
}

// Parts that most models do not have.
void AddParts(const model::Architecture& architecture, plan::Facts& facts) {
  facts.reads_context =
      std::any_of(architecture.kinds.begin(), architecture.kinds.end(),
                  [](const model::Architecture& kind) { return kind.cross.exists(); });
  facts.other_rows = architecture.encoder.tokens + architecture.text.tokens;
  facts.predicts_words = architecture.prediction.target == model::Target::kWords;
  if (architecture.condition.exists()) {
    facts.reads_context = true;
    facts.unusual_part = "a condition that scales the outputs of blocks";
  } else if (facts.reads_context) {
    facts.unusual_part = "cross-attention";
  } else if (architecture.input.exists()) {
    facts.unusual_part = "an input of numbers";
  } else if (!facts.predicts_words) {
    facts.unusual_part = "a head that does not predict words";
  } else if (model::AttendsBothWays(architecture) && !model::TraitsOf(architecture).encoder) {
    facts.unusual_part = "attention without a causal mask";
  }
  if (architecture.input.positions > 0) facts.max_positions = architecture.input.positions;
}

void AddModel(const Scenario& scenario, plan::Facts& facts) {
  const model::Architecture* const architecture = ArchitectureOf(scenario);
  facts.has_ends = architecture != nullptr || scenario.model == nullptr;  // not known: passed over
  // Layers that predict further tokens run with the head and also read the embedding.
  facts.tied_embeddings =
      architecture != nullptr && (architecture->tie_embeddings || architecture->further_tokens > 0);
  if (architecture != nullptr) {
    facts.encoder = model::TraitsOf(*architecture).encoder;
    facts.norms_behind = model::NamesOf(*architecture).attention_norm.empty();
    facts.attention_window = architecture->attention_window;
    if (architecture->position == model::Position::kLearned) {
      facts.max_positions = architecture->max_positions;
    }
    facts.predicts_further = architecture->further_tokens > 0;
    facts.divided = {{"num_attention_heads", architecture->heads},
                     {"num_key_value_heads", architecture->kv_heads, architecture->head_size}};
    const model::Experts& experts = architecture->experts;
    facts.experts = experts.count;
    facts.expert_width = experts.feed_forward;
    facts.expert_biases = experts.bias;
    // Dense layers and shared experts are divided like a dense model's layers.
    if (!experts.exist() || experts.leading_dense > 0 || experts.every > 1) {
      facts.divided.push_back({"intermediate_size", architecture->feed_forward});
    }
    if (experts.shared_feed_forward > 0) {
      facts.divided.push_back({"shared_expert_intermediate_size", experts.shared_feed_forward});
    }
    if (!architecture->kinds.empty()) {
      AddKinds(*architecture, facts);
      AddParts(*architecture, facts);
    }
  }
  if (scenario.model == nullptr) return;
  facts.layers = static_cast<std::int64_t>(scenario.model->layers.size());
  facts.tensors = static_cast<std::int64_t>(scenario.model->tensors.size());
  for (const model::Tensor& tensor : scenario.model->tensors) {
    if (!tensor.of_block || tensor.shape.size() != 2) continue;
    auto& rows = facts.matrix_rows;
    if (std::find(rows.begin(), rows.end(), tensor.shape.front()) == rows.end()) {
      rows.push_back(tensor.shape.front());
    }
  }
  const plan::ModelBlocks blocks = BlocksOf(*scenario.model);
  facts.blocks = blocks.count;
  facts.of_block = blocks.of_block;
  facts.of_head = blocks.of_head;
  facts.attention_sinks = blocks.attention_sinks;
  facts.distances = blocks.distances;
}

void AddCluster(const Scenario& scenario, plan::Facts& facts) {
  if (scenario.cluster == nullptr) return;
  facts.devices = scenario.cluster->devices();
  facts.one_machine = scenario.one_machine;
  if (!scenario.cluster->flat()) facts.node_devices = scenario.cluster->gpus_per_node();
  const auto take_host = [&](const topology::NodeType* node) {
    const bool host = node != nullptr && node->host.has_value();
    facts.host_memory = facts.host_memory.value_or(true) && host;
    facts.nvme = facts.nvme.value_or(true) && host && node->host->nvme > Bytes();
  };
  take_host(scenario.cluster->node_type());
  for (const KindOfNode& kind : scenario.other_nodes) take_host(kind.cluster->node_type());
}

// Adds the types that all devices can compute in.
void AddComputes(const Scenario& scenario, plan::Facts& facts) {
  if (ArchitectureOf(scenario) == nullptr || !scenario.gpu.has_value()) return;
  facts.device = scenario.gpu->name;
  facts.compute_capability = scenario.gpu->compute_capability;
  for (std::size_t type = 0; type < facts.without_peak.size(); ++type) {
    facts.without_peak[type] = scenario.gpu->peak[type] == FlopRate();
  }
  for (const KindOfNode& kind : scenario.other_nodes) {
    for (std::size_t type = 0; type < facts.without_peak.size(); ++type) {
      if (facts.without_peak[type] || kind.gpu.peak[type] > FlopRate()) continue;
      facts.without_peak[type] = true;
      facts.device = kind.gpu.name;
    }
  }
}

}  // namespace

plan::Facts LegalityFactsOf(const Scenario& scenario) {
  plan::Facts facts;
  AddModel(scenario, facts);
  AddCluster(scenario, facts);
  AddComputes(scenario, facts);
  return facts;
}

}  // namespace stepcast::scenario
