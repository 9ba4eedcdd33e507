#include "src/model/family.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "fmt/format.h"

namespace stepcast::model {
namespace {

struct NamedField {
  std::string_view name;
  std::string_view ModuleNames::*field;
};
constexpr NamedField kFields[] = {
    {"tower_patch", &ModuleNames::tower_patch},
    {"tower_positions", &ModuleNames::tower_positions},
    {"tower_norm", &ModuleNames::tower_norm},
    {"tower_query_key_value", &ModuleNames::tower_query_key_value},
    {"tower_projection", &ModuleNames::tower_projection},
    {"tower_up", &ModuleNames::tower_up},
    {"tower_down", &ModuleNames::tower_down},
    {"tower_last_norm", &ModuleNames::tower_last_norm},
    {"tower_merge_norm", &ModuleNames::tower_merge_norm},
    {"tower_merge_up", &ModuleNames::tower_merge_up},
    {"tower_merge_down", &ModuleNames::tower_merge_down},

    {"streams_attention", &ModuleNames::streams_attention},
    {"streams_feed_forward", &ModuleNames::streams_feed_forward},
    {"streams_head", &ModuleNames::streams_head},
    {"shared_key", &ModuleNames::shared_key},
    {"shared_key_norm", &ModuleNames::shared_key_norm},
    {"output_down", &ModuleNames::output_down},
    {"compress", &ModuleNames::compress},
    {"compress_positions", &ModuleNames::compress_positions},
    {"compress_norm", &ModuleNames::compress_norm},
    {"index_compress", &ModuleNames::index_compress},
    {"index_compress_positions", &ModuleNames::index_compress_positions},
    {"index_compress_norm", &ModuleNames::index_compress_norm},

    {"embedding", &ModuleNames::embedding},
    {"positions", &ModuleNames::positions},
    {"blocks", &ModuleNames::blocks},
    {"final_norm", &ModuleNames::final_norm},
    {"head", &ModuleNames::head},
    {"attention_norm", &ModuleNames::attention_norm},
    {"attention", &ModuleNames::attention},
    {"query", &ModuleNames::query},
    {"key", &ModuleNames::key},
    {"value", &ModuleNames::value},
    {"query_key_value", &ModuleNames::query_key_value},
    {"projection", &ModuleNames::projection},
    {"feed_forward_norm", &ModuleNames::feed_forward_norm},
    {"feed_forward", &ModuleNames::feed_forward},
    {"gate", &ModuleNames::gate},
    {"up", &ModuleNames::up},
    {"activator", &ModuleNames::activator},
    {"down", &ModuleNames::down},
    {"linear_qkv", &ModuleNames::linear_qkv},
    {"linear_fc1", &ModuleNames::linear_fc1},
    {"token_types", &ModuleNames::token_types},
    {"embedding_norm", &ModuleNames::embedding_norm},
    {"pooler", &ModuleNames::pooler},
    {"predictions", &ModuleNames::predictions},
    {"head_dense", &ModuleNames::head_dense},
    {"head_norm", &ModuleNames::head_norm},
    {"next_sentence", &ModuleNames::next_sentence},
    {"attention_post_norm", &ModuleNames::attention_post_norm},
    {"feed_forward_post_norm", &ModuleNames::feed_forward_post_norm},
    {"query_norm", &ModuleNames::query_norm},
    {"key_norm", &ModuleNames::key_norm},
    {"sinks", &ModuleNames::sinks},
    {"query_down", &ModuleNames::query_down},
    {"query_latent_norm", &ModuleNames::query_latent_norm},
    {"query_up", &ModuleNames::query_up},
    {"kv_down", &ModuleNames::kv_down},
    {"kv_latent_norm", &ModuleNames::kv_latent_norm},
    {"kv_up", &ModuleNames::kv_up},
    {"further_embedding_norm", &ModuleNames::further_embedding_norm},
    {"further_hidden_norm", &ModuleNames::further_hidden_norm},
    {"further_projection", &ModuleNames::further_projection},
    {"further_norm", &ModuleNames::further_norm},
    {"further_words", &ModuleNames::further_words},
    {"further_streams", &ModuleNames::further_streams},
    {"further_streams_head", &ModuleNames::further_streams_head},
    {"router", &ModuleNames::router},
    {"experts_gate_up", &ModuleNames::experts_gate_up},
    {"experts_down", &ModuleNames::experts_down},
    {"shared_gate", &ModuleNames::shared_gate},
    {"shared_up", &ModuleNames::shared_up},
    {"shared_down", &ModuleNames::shared_down},
    {"shared_expert_gate", &ModuleNames::shared_expert_gate},
    {"latent_down", &ModuleNames::latent_down},
    {"latent_up", &ModuleNames::latent_up},
    {"latent_norm", &ModuleNames::latent_norm},
    {"dense_post_norm", &ModuleNames::dense_post_norm},
    {"experts_norm", &ModuleNames::experts_norm},
    {"experts_post_norm", &ModuleNames::experts_post_norm},
    {"router_scale", &ModuleNames::router_scale},
    {"expert_scale", &ModuleNames::expert_scale},
    {"attention_gate", &ModuleNames::attention_gate},
    {"index_query", &ModuleNames::index_query},
    {"index_key", &ModuleNames::index_key},
    {"index_key_norm", &ModuleNames::index_key_norm},
    {"index_weights", &ModuleNames::index_weights},
    {"index_query_norm", &ModuleNames::index_query_norm},
    {"delta_in", &ModuleNames::delta_in},
    {"delta_decay_beta", &ModuleNames::delta_decay_beta},
    {"delta_conv", &ModuleNames::delta_conv},
    {"delta_query", &ModuleNames::delta_query},
    {"delta_key", &ModuleNames::delta_key},
    {"delta_value", &ModuleNames::delta_value},
    {"delta_query_conv", &ModuleNames::delta_query_conv},
    {"delta_key_conv", &ModuleNames::delta_key_conv},
    {"delta_value_conv", &ModuleNames::delta_value_conv},
    {"delta_beta", &ModuleNames::delta_beta},
    {"delta_decay_down", &ModuleNames::delta_decay_down},
    {"delta_decay_up", &ModuleNames::delta_decay_up},
    {"delta_gate_down", &ModuleNames::delta_gate_down},
    {"delta_gate_up", &ModuleNames::delta_gate_up},
    {"delta_a", &ModuleNames::delta_a},
    {"delta_bias", &ModuleNames::delta_bias},
    {"delta_norm", &ModuleNames::delta_norm},
    {"delta_out", &ModuleNames::delta_out},
    {"state_in", &ModuleNames::state_in},
    {"state_conv", &ModuleNames::state_conv},
    {"state_a", &ModuleNames::state_a},
    {"state_d", &ModuleNames::state_d},
    {"state_bias", &ModuleNames::state_bias},
    {"state_norm", &ModuleNames::state_norm},
    {"state_out", &ModuleNames::state_out},
    {"layer_table", &ModuleNames::layer_table},
    {"layer_projection", &ModuleNames::layer_projection},
    {"layer_projection_norm", &ModuleNames::layer_projection_norm},
    {"layer_gate", &ModuleNames::layer_gate},
    {"layer_up", &ModuleNames::layer_up},
    {"layer_norm", &ModuleNames::layer_norm},
    {"bank_attention", &ModuleNames::bank_attention},
    {"bank_feed_forward", &ModuleNames::bank_feed_forward},
    {"bank_head", &ModuleNames::bank_head},
    {"input", &ModuleNames::input},
    {"input_halving", &ModuleNames::input_halving},
    {"class_rows", &ModuleNames::class_rows},
    {"distances", &ModuleNames::distances},
    {"encoder_distances", &ModuleNames::encoder_distances},
    {"encoder_blocks", &ModuleNames::encoder_blocks},
    {"encoder_norm", &ModuleNames::encoder_norm},
    {"encoder_input", &ModuleNames::encoder_input},
    {"encoder_input_halving", &ModuleNames::encoder_input_halving},
    {"encoder_positions", &ModuleNames::encoder_positions},
    {"cross_norm", &ModuleNames::cross_norm},
    {"cross_query", &ModuleNames::cross_query},
    {"cross_key", &ModuleNames::cross_key},
    {"cross_value", &ModuleNames::cross_value},
    {"cross_projection", &ModuleNames::cross_projection},
    {"cross_query_norm", &ModuleNames::cross_query_norm},
    {"cross_key_norm", &ModuleNames::cross_key_norm},
    {"time_in", &ModuleNames::time_in},
    {"time_out", &ModuleNames::time_out},
    {"guidance_in", &ModuleNames::guidance_in},
    {"guidance_out", &ModuleNames::guidance_out},
    {"classes", &ModuleNames::classes},
    {"text_vector_in", &ModuleNames::text_vector_in},
    {"text_vector_out", &ModuleNames::text_vector_out},
    {"shared_modulation", &ModuleNames::shared_modulation},
    {"modulation", &ModuleNames::modulation},
    {"head_modulation", &ModuleNames::head_modulation},
    {"text_in", &ModuleNames::text_in},
    {"text_out", &ModuleNames::text_out},
    {"core", &ModuleNames::core},
    {"query_rotary", &ModuleNames::query_rotary},
    {"key_rotary", &ModuleNames::key_rotary},
    {"key_repeat", &ModuleNames::key_repeat},
    {"value_repeat", &ModuleNames::value_repeat},
    {"attention_dropout", &ModuleNames::attention_dropout},
    {"attention_residual", &ModuleNames::attention_residual},
    {"product", &ModuleNames::product},
    {"dropout", &ModuleNames::dropout},
    {"residual", &ModuleNames::residual},
    {"joined_query_key_value", &ModuleNames::joined_query_key_value},
    {"joined_gate_up", &ModuleNames::joined_gate_up},
};

}  // namespace

std::shared_ptr<Family> MakeFamily(std::string name,
                                   const std::map<std::string, std::string>& module_names,
                                   std::string* unknown) {
  auto family = std::make_shared<Family>();
  family->name = std::move(name);
  for (const auto& [key, text] : module_names) {
    const auto* const found =
        std::find_if(std::begin(kFields), std::end(kFields),
                     [&key = key](const NamedField& named) { return named.name == key; });
    if (found == std::end(kFields)) {
      *unknown = key;
      return nullptr;
    }
    family->names.*(found->field) = family->texts.emplace_back(text);
  }
  for (const NamedField& named : kFields) {
    family->of_text.*named.field =
        family->texts.emplace_back(fmt::format("txt.{}", family->names.*named.field));
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
