#include "src/model/family.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "src/model/member_names.h"

namespace stepcast::model {
namespace {

using M = ModuleNames;
constexpr auto kFields = kNamedMembers<
    &M::tower_patch, &M::tower_positions, &M::tower_norm, &M::tower_query_key_value,
    &M::tower_projection, &M::tower_up, &M::tower_down, &M::tower_last_norm, &M::tower_merge_norm,
    &M::tower_merge_up, &M::tower_merge_down, &M::streams_attention, &M::streams_feed_forward,
    &M::streams_head, &M::shared_key, &M::shared_key_norm, &M::output_down, &M::compress,
    &M::compress_positions, &M::compress_norm, &M::index_compress, &M::index_compress_positions,
    &M::index_compress_norm, &M::embedding, &M::positions, &M::blocks, &M::final_norm, &M::head,
    &M::attention_norm, &M::attention, &M::query, &M::key, &M::value, &M::query_key_value,
    &M::projection, &M::feed_forward_norm, &M::feed_forward, &M::gate, &M::up, &M::activator,
    &M::down, &M::linear_qkv, &M::linear_fc1, &M::token_types, &M::embedding_norm, &M::pooler,
    &M::predictions, &M::head_dense, &M::head_norm, &M::next_sentence, &M::attention_post_norm,
    &M::feed_forward_post_norm, &M::query_norm, &M::key_norm, &M::sinks, &M::query_down,
    &M::query_latent_norm, &M::query_up, &M::kv_down, &M::kv_latent_norm, &M::kv_up,
    &M::further_embedding_norm, &M::further_hidden_norm, &M::further_projection, &M::further_norm,
    &M::further_words, &M::further_streams, &M::further_streams_head, &M::router,
    &M::experts_gate_up, &M::experts_down, &M::shared_gate, &M::shared_up, &M::shared_down,
    &M::shared_expert_gate, &M::latent_down, &M::latent_up, &M::latent_norm, &M::dense_post_norm,
    &M::experts_norm, &M::experts_post_norm, &M::router_scale, &M::expert_scale, &M::attention_gate,
    &M::index_query, &M::index_key, &M::index_key_norm, &M::index_weights, &M::index_query_norm,
    &M::delta_in, &M::delta_decay_beta, &M::delta_conv, &M::delta_query, &M::delta_key,
    &M::delta_value, &M::delta_query_conv, &M::delta_key_conv, &M::delta_value_conv, &M::delta_beta,
    &M::delta_decay_down, &M::delta_decay_up, &M::delta_gate_down, &M::delta_gate_up, &M::delta_a,
    &M::delta_bias, &M::delta_norm, &M::delta_out, &M::state_in, &M::state_conv, &M::state_a,
    &M::state_d, &M::state_bias, &M::state_norm, &M::state_out, &M::short_in, &M::short_conv,
    &M::short_out, &M::scan_inputs, &M::scan_time, &M::scan_time_norm, &M::scan_b_norm,
    &M::scan_c_norm, &M::decay_in, &M::decay_gate, &M::decay_norm, &M::decay_out, &M::layer_table,
    &M::layer_projection, &M::layer_projection_norm, &M::layer_gate, &M::layer_up, &M::layer_norm,
    &M::bank_attention, &M::bank_feed_forward, &M::bank_head, &M::input, &M::input_halving,
    &M::class_rows, &M::distances, &M::encoder_distances, &M::encoder_blocks, &M::encoder_norm,
    &M::encoder_input, &M::encoder_input_halving, &M::encoder_positions, &M::cross_norm,
    &M::cross_query, &M::cross_key, &M::cross_value, &M::cross_projection, &M::cross_query_norm,
    &M::cross_key_norm, &M::time_in, &M::time_out, &M::guidance_in, &M::guidance_out, &M::classes,
    &M::text_vector_in, &M::text_vector_out, &M::shared_modulation, &M::modulation,
    &M::head_modulation, &M::text_in, &M::text_out, &M::core, &M::query_rotary, &M::key_rotary,
    &M::key_repeat, &M::value_repeat, &M::attention_dropout, &M::attention_residual, &M::product,
    &M::dropout, &M::residual, &M::joined_query_key_value, &M::joined_gate_up>;

}  // namespace

std::shared_ptr<Family> MakeFamily(std::string name,
                                   const std::map<std::string, std::string>& module_names,
                                   std::string* unknown) {
  auto family = std::make_shared<Family>();
  family->name = std::move(name);
  for (const auto& [key, text] : module_names) {
    const auto found =
        std::ranges::find(kFields, key, [](const auto& field) { return field.name; });
    if (found == kFields.end()) {
      *unknown = key;
      return nullptr;
    }
    family->names.*(found->member) = family->texts.emplace_back(text);
  }
  for (const auto& field : kFields) {
    family->of_text.*field.member =
        family->texts.emplace_back(fmt::format("txt.{}", family->names.*field.member));
  }
  return family;
}

Architecture TypicalOf(std::shared_ptr<const Family> family) {
  Architecture a = family->typical;
  a.family = std::move(family);
  return a;
}

const Family& FamilyOf(const Architecture& architecture) {
  static const Family kNone;
  return architecture.family != nullptr ? *architecture.family : kNone;
}

const FamilyTraits& TraitsOf(const Architecture& architecture) {
  return FamilyOf(architecture).traits;
}

std::string_view FamilyName(const Architecture& architecture) {
  return FamilyOf(architecture).name;
}

const ModuleNames& NamesOf(const Architecture& architecture) {
  return FamilyOf(architecture).names;
}

std::string_view FeedForwardNormOf(const Architecture& architecture) {
  const ModuleNames& names = NamesOf(architecture);
  const bool second = architecture.mixer != Mixer::kNone && !names.attention_norm.empty() &&
                      names.attention_norm == names.feed_forward_norm;
  return second ? "feed_forward_norm" : names.feed_forward_norm;
}

const ModuleNames& NamesOfText(const Architecture& architecture) {
  return FamilyOf(architecture).of_text;
}

}  // namespace stepcast::model
